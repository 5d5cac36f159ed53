package mobility

// Report counts what a training run saw. Aggregates only: nothing in it belongs to one person or place.
type Report struct {
	Users         int64 `json:"users"`          // users with at least one fix in the box
	Fixes         int64 `json:"fixes"`          // fixes in the box
	OutsideBox    int64 `json:"outside_box"`    // fixes left out because they lie outside the box
	SharedFixes   int64 `json:"shared_fixes"`   // fixes that stood for a step and were left out because another user reports the same
	Transitions   int64 `json:"transitions"`    // transitions counted, before capping
	CellsSeen     int64 `json:"cells_seen"`     // cells with a counted fix
	RowsSeen      int64 `json:"rows_seen"`      // cells with a counted transition out of them
	MatrixEntries int64 `json:"matrix_entries"` // stored probabilities
}
