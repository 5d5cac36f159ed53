package mobility

// Report counts what a training run saw. Aggregates only: nothing in it belongs to one person or place.
type Report struct {
	Users         int64 // users with at least one fix in the box
	Fixes         int64 // fixes in the box
	OutsideBox    int64 // fixes left out because they lie outside the box
	Transitions   int64 // transitions counted, before capping
	CellsSeen     int64 // cells with a counted fix
	RowsSeen      int64 // cells with a counted transition out of them
	MatrixEntries int64 // stored probabilities
}
