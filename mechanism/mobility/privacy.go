package mobility

// Privacy says what training with differential privacy has spent on every user whose traces went into a model.
type Privacy struct {
	Epsilon      string `json:"epsilon"`      // of the whole model, a decimal number as it was given
	Contribution int    `json:"contribution"` // transitions that count of each user
	Radius       int    `json:"radius"`       // cells: counts are kept for moves within it
}
