package mobility

// Provenance describes how a model was made. It names no person and no place.
type Provenance struct {
	Source  string `json:"source"`  // what the traces were, in the words of who trained
	Tool    string `json:"tool"`    // name and version of the program that trained it
	Options string `json:"options"` // the training options as name=value, with a space between two
	Report  Report `json:"report"`  // what the training counted
	// Privacy says how the traces are protected from readers of the model; nil: they are not
	// protected.
	Privacy *Privacy `json:"privacy"`
	// Fit says how well the model predicts users it was not trained on; nil: nobody has measured
	// it.
	Fit *Fit `json:"fit,omitempty"`
}

// Privacy says what training with differential privacy has spent on each user whose traces went
// into a model.
type Privacy struct {
	Epsilon      string `json:"epsilon"`      // of the whole model, the decimal number as given
	Contribution int    `json:"contribution"` // transitions that count of each user
	Radius       int    `json:"radius"`       // of counted moves, in cells
}

// Report counts what a training run saw. All numbers are aggregates: none belongs to one person or
// place.
type Report struct {
	Users         int64 `json:"users"`          // users with at least one fix in the box
	Fixes         int64 `json:"fixes"`          // fixes in the box
	OutsideBox    int64 `json:"outside_box"`    // fixes left out because they lie outside the box
	SharedFixes   int64 `json:"shared_fixes"`   // steps left out: another user reports the same fix
	Transitions   int64 `json:"transitions"`    // transitions counted, before capping
	CellsSeen     int64 `json:"cells_seen"`     // cells with a counted fix
	RowsSeen      int64 `json:"rows_seen"`      // cells with a counted transition out of them
	MatrixEntries int64 `json:"matrix_entries"` // stored probabilities
}
