package task

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// elected is an input whose records have the leader epochs of their offsets, and whose broker says
// where these end. In a log that has lost its end, an epoch ends before the records that were read.
type elected struct {
	scriptInput
	epochs []int32 // by offset
	ends   map[int32]int64
	asked  []int32
}

func (l *elected) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	b, err := l.scriptInput.Fetch(ctx, offset, wait)
	b.Epoch = none
	if n := len(b.Records); n > 0 {
		b.Epoch = l.epochs[b.Records[n-1].Offset]
	}
	return b, err
}

func (l *elected) EpochEnd(_ context.Context, epoch int32) (int64, error) {
	l.asked = append(l.asked, epoch)
	return l.ends[epoch], l.s.note("input.epochEnd", "%d", epoch)
}

// markOf is the value of the changelog's last mark.
func markOf(t *testing.T, s *script) Mark {
	t.Helper()
	m, err := DecodeMark(s.changelog[len(s.changelog)-1].Value)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRegrownInput: the mark holds the leader epoch of what was processed, and the next start stops
// if that epoch ends before the committed offset by now. Somebody can accept it, once.
func TestRegrownInput(t *testing.T) {
	s := newScript()
	in := &elected{scriptInput{s}, []int32{4, 4, 4, 6, 6}, map[int32]int64{4: 3, 6: 5}, nil}
	if err := s.runOn(t, in, Options{}); err != nil {
		t.Fatal(err)
	}
	if m := markOf(t, s); m.Input != 3 || m.Epoch != 4 || len(in.asked) > 0 {
		t.Errorf("the mark is %+v; asked for epochs %v", m, in.asked)
	}
	if err := s.runOn(t, in, Options{}); err != nil {
		t.Errorf("the start after a clean election: %v", err)
	}
	for _, known := range []int64{2, 0} {
		in.ends[4] = known
		err := s.runOn(t, in, Options{})
		if !errors.Is(err, ErrInputLost) || RemedyOf(err) != Fatal ||
			!strings.Contains(err.Error(), "the group is at 3") {
			t.Errorf("a log whose epoch 4 ends at %d: %v", known, err)
		}
	}
	before := len(s.changelog)
	if err := s.runOn(t, in, Options{SkipLost: true}); err != nil {
		t.Fatal(err)
	}
	if m := markOf(t, s); len(s.changelog) == before || !m.Lost || m.Origin != 3 ||
		m.Epoch != none {
		t.Errorf("accepted, the mark is %+v", m)
	}
	if err := s.runOn(t, in, Options{}); err != nil {
		t.Errorf("the start after the loss was accepted: %v", err)
	}
	in.ends[4] = none
	s.changelog = append(s.changelog, Message{
		Key: markKey, Value: AppendMark(nil, Mark{Input: 3, Epoch: 4}),
	})
	if err := s.runOn(t, in, Options{}); err != nil {
		t.Errorf("a broker that does not know the epoch: %v", err)
	}
}

// TestRegrownWhileItRuns: where another leader's records follow, the task asks whether the log lost
// any before it processes one of them.
func TestRegrownWhileItRuns(t *testing.T) {
	for _, test := range []struct {
		name string
		end  int64 // of epoch 4, when records of epoch 6 are read at offset 3
		lost bool
	}{{"nothing is lost", 3, false}, {"its last record was replaced", 2, true}} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			s.ends = false
			in := &elected{scriptInput{s}, []int32{4, 4, 4, 6}, map[int32]int64{4: test.end}, nil}
			grows := &regrows{elected: in}
			err := s.runOn(t, grows, Options{MaxRecords: 3})
			if lost := errors.Is(err, ErrInputLost); lost != test.lost || err != nil && !lost {
				t.Errorf("it ends with %v", err)
			}
			if processed := count(s, "process new=v") > 0; processed == test.lost {
				t.Errorf("the new leader's record is processed: %v", processed)
			}
			if !test.lost && markOf(t, s).Epoch != 6 {
				t.Errorf("the mark is %+v", markOf(t, s))
			}
		})
	}
}

// regrows gets a record of another leader when its first three are read, and stops the task behind
// that one.
type regrows struct{ *elected }

func (l *regrows) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	switch {
	case offset == 3 && l.s.end == 3:
		l.s.end = 4
		l.s.input = append(l.s.input, Record{Offset: 3, Key: []byte("new"), Value: []byte("v")})
	case offset == 4:
		l.s.cancel()
	}
	return l.elected.Fetch(ctx, offset, wait)
}
