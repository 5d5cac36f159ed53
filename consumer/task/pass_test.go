package task

import (
	"context"
	"testing"
	"time"
)

// waiting is a Partitioned that waits for one time, and stops its task when all that is due was
// passed.
type waiting struct {
	deadlineMS int64
	s          *script
}

func (waiting) Restored([]Change) error    { return nil }
func (waiting) Changes() []Change          { return nil }
func (w *waiting) Deadline() (int64, bool) { return w.deadlineMS, true }
func (w *waiting) Passed(ms int64, _ *Effects) error {
	w.deadlineMS = ms + 3_600_000
	return nil
}

func (w waiting) Expires() func([]byte) bool {
	if len(w.s.input) == 0 {
		w.s.cancel()
	}
	return nil
}

// stopping stops the script's task while it asks for the input's end.
type stopping struct{ scriptInput }

func (l stopping) High(ctx context.Context) (int64, error) {
	l.s.cancel()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return l.scriptInput.High(ctx)
}

// TestIdleMark: in a partition without records, a mark that was found open is closed by a clean
// stop if all times were passed that the worker before may have passed, and not otherwise.
func TestIdleMark(t *testing.T) {
	const nowMS, skew = 1_000_000, 30 * time.Second
	for _, test := range []struct {
		name     string
		deadline int64
		open     bool
	}{
		{"it may have passed a time that is not due here", nowMS + skew.Milliseconds(), true},
		{"it cannot have passed the next time", nowMS + skew.Milliseconds() + 1, false},
		{"its time is passed here", nowMS - skew.Milliseconds() - 1, false},
	} {
		s := newScript()
		s.committed, s.input, s.first, s.ends = 3, nil, 3, false
		s.changelog = []Message{{Key: markKey, Value: AppendMark(nil, Mark{Input: 3, Open: true})}}
		err := s.runWith(t, scriptInput{s}, Options{Skew: skew}, func(d *Dependencies) {
			d.Partitioned = &waiting{test.deadline, s}
		})
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := s.lastMark(t).Open; got != test.open {
			t.Errorf("%s: the mark is open: %v", test.name, got)
		}
	}
}

// TestStopWhileAsking: a stop while the task asks for the input's end is clean.
func TestStopWhileAsking(t *testing.T) {
	s := newScript()
	s.ends = false
	err := s.runWith(t, stopping{scriptInput{s}}, Options{}, func(d *Dependencies) {
		d.Partitioned = &waiting{1, s}
	})
	if err != nil || s.committed != 3 || s.lastMark(t).Open {
		t.Errorf("%v, committed %d, %+v", err, s.committed, s.lastMark(t))
	}
}
