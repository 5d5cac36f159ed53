package explore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// keptCells and keptRows bound what a shelf keeps. On a map of a million cells a course that goes
// on takes 50 MB, which are for its filter.
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

// turn lets one goroutine at a time do something.
type turn chan struct{}

// take waits for the turn. The caller that gets it calls leave.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) leave() { <-t }

// growing is an answer that is computed row by row, as far as somebody asked for. The holder of its
// turn may use the answer.
type growing struct {
	turn
	rows *atomic.Int64 // that are done, for those who have no turn
}

func newGrowing() growing { return growing{make(turn, 1), new(atomic.Int64)} }

func (g growing) rowsDone() int64 { return g.rows.Load() }

// grow takes the turn and calls next, which does one more row, until so many are done; or until the
// first one that is done after a time, if that is not 0. Then it calls look, still in its turn.
func (g growing) grow(
	ctx context.Context, done *int, rows int, within time.Duration,
	next func(context.Context) error, look func(),
) error {
	if err := g.take(ctx); err != nil {
		return err
	}
	defer g.leave()
	until := time.Now().Add(within)
	for *done < rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := next(ctx); err != nil {
			return err
		}
		*done++
		g.rows.Store(int64(*done))
		if within > 0 && time.Now().After(until) {
			break
		}
	}
	look()
	return nil
}
