package explore

import (
	"slices"
	"sync"
)

// keptCells and keptRows bound what a shelf keeps. On a map of a million cells a course that goes
// on takes 50 MB and odds 100 MB, which are for their filters.
const (
	keptCells = 3_000_000
	keptRows  = 500_000 // 80 MB
)

// shelf keeps answers by their questions. Any number of goroutines may use it.
type shelf[Q comparable, A answer] struct {
	// At most so many are kept, and fewer where maps or rows are many, but never fewer than least.
	least, most int

	mu   sync.Mutex
	kept []shelved[Q, A] // the one that was used last comes last
}

type shelved[Q comparable, A answer] struct {
	question Q
	answer   A
}

// answer is what a shelf keeps: rowsDone are the fixes that are computed so far.
type answer interface{ rowsDone() int64 }

// get returns what is kept for a question, or else makes and keeps it. What was not used for
// longest makes room.
func (s *shelf[Q, A]) get(question Q, start func() (a A, cells int, err error)) (A, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := int64(0)
	for i, old := range s.kept {
		if old.question == question {
			s.kept = append(slices.Delete(s.kept, i, i+1), old)
			return old.answer, nil
		}
		rows += old.answer.rowsDone()
	}
	a, cells, err := start()
	if err != nil {
		return a, err
	}
	most := max(s.least, min(s.most, keptCells/cells))
	for len(s.kept) >= most || len(s.kept) >= s.least && rows > keptRows {
		rows -= s.kept[0].answer.rowsDone()
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.kept = append(s.kept, shelved[Q, A]{question, a})
	return a, nil
}
