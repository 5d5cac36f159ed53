package mobility

// Fit says how well a model foretells users that it was not trained on. Aggregates only.
type Fit struct {
	Users int64 `json:"users"` // held out
	Steps int64 `json:"steps"` // at which a prediction met a fix
}
