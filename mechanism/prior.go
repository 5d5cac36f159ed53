package mechanism

import "github.com/geodither/geodither/mechanism/mobility"

// Prior returns the distribution of the user's cell that the last call of Step predicted, before
// any release of it: what its location set was chosen from. It is a function of past releases only,
// and public given the model. It is the sanitizer's own memory: do not change it, and read it
// before the next Step. A Step that predicted nothing (a late report, a repeated release) leaves it
// as it was.
func (s *Sanitizer) Prior() *mobility.Distribution { return &s.prior }
