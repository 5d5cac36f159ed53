package mobility

import "github.com/geodither/geodither/mechanism/grid"

// Track is a stretch of one user's trace without a gap. Cells[i] is where the user was in Steps[i],
// and each step directly follows the one before it. Where every fix counts, a track is a run of
// successive fixes, whose steps may lie apart or be the same.
type Track struct {
	User  string
	Steps []int64
	Cells []grid.Cell
}
