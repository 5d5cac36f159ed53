package mobility

// A Succession is a model and the later versions of it, as one service takes them up. It holds the
// rule for which of them counts when. A service that releases and a reader who follows its records
// both ask it, so that they cannot differ.
type Succession struct {
	// StepMS is the length of a step in milliseconds, the same for all versions.
	StepMS int64
	// GridID is the id of the first version's map.
	GridID string
	// Later are the versions after the first one, in the order in which they were taken up.
	Later []Successor
}

// A Successor is a later version of a model.
type Successor struct {
	// StartMS is event time, milliseconds since 1970.
	StartMS int64
	// GridID is the id of the version's map.
	GridID string
	// From is the position in the input from which on the version is known. A reader, who does not
	// see the input, leaves it at 0.
	From int64
}

// LastStep is where a user stands before the next record. The zero value is a new user.
type LastStep struct {
	// Known says that the user has a last step; it counts steps of the Succession's length.
	Known bool
	Step  int64
	// GridID is the id of the map of that step. Only a further record of the same step needs it.
	GridID string
}

// At returns the index in Later of the version that counts for a user's record at a position of the
// input, or -1 for the first version:
//
//   - Of the versions known at the position, the one with the latest start at or before the
//     beginning of the step counts. Of several with the same start, the one that was taken up last
//     counts.
//   - The step is the later of the record's and the user's last one: a state never goes back to a
//     version that it has left.
//   - A further record of the user's last step stays on the map of that step, if a version of that
//     map counts. What was released of the step is known on that map alone; on another map the step
//     would be released, and paid for, once more.
//
// Starts need no order. Cost: one pass over the versions, seldom two.
func (s *Succession) At(position, step int64, last LastStep) int {
	counting := step
	if last.Known {
		counting = max(step, last.Step)
	}
	found, _ := s.latest(position, counting, "")
	if last.Known && last.Step == step && s.gridOf(found) != last.GridID {
		if on, ok := s.latest(position, counting, last.GridID); ok {
			return on
		}
	}
	return found
}

// latest applies the first rule to the versions of one map, or of any if gridID is empty. ok is
// false if there is none.
func (s *Succession) latest(position, step int64, gridID string) (found int, ok bool) {
	begin := step * s.StepMS
	found = -1
	for i := range s.Later {
		v := &s.Later[i]
		counts := v.From <= position && v.StartMS <= begin && (gridID == "" || v.GridID == gridID)
		if counts && (found < 0 || s.Later[found].StartMS <= v.StartMS) {
			found = i
		}
	}
	return found, found >= 0 || gridID == "" || gridID == s.GridID
}

// gridOf returns the id of a version's map.
func (s *Succession) gridOf(version int) string {
	if version < 0 {
		return s.GridID
	}
	return s.Later[version].GridID
}
