package task

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// lastMark is the last one in a script's changelog.
func (s *script) lastMark(t *testing.T) Mark {
	t.Helper()
	m, err := DecodeMark(s.changelog[len(s.changelog)-1].Value)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func v2(m Mark) []Message {
	return []Message{{Key: []byte(MarkKey), Value: AppendMark(nil, m)}}
}

// TestStartAt: a first start begins at its offset, or not at all.
func TestStartAt(t *testing.T) {
	o := Options{Start: At, Begin: 1, End: 2}
	s := newScript()
	if err := s.run(t, o); err != nil || count(s, "process") != 1 {
		t.Errorf("%d records are processed, %v", count(s, "process"), err)
	}
	if got := s.lastMark(t); got.Input != 2 || got.Origin != 1 || got.Lost {
		t.Errorf("the last mark is %+v", got)
	}
	s = newScript()
	s.first = 2
	if err := s.run(t, o); !errors.Is(err, ErrInputLost) || RemedyOf(err) != Fatal {
		t.Errorf("an input that begins later: %v", err)
	}
}

// TestSettingsTooLong are refused, as are other options out of range.
func TestSettingsTooLong(t *testing.T) {
	long := make([]byte, MarkBytes+1)
	for _, o := range []Options{
		{Settings: long}, {Source: long}, {Partitioner: string(long)}, {End: -1},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	if err := (Options{Settings: long[1:], Source: long[1:], End: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

// slowChangelog takes its time for each fetch, and gives one record.
type slowChangelog struct {
	scriptChangelog
	takes time.Duration
}

func (l slowChangelog) Fetch(_ context.Context, offset int64, _ time.Duration) (Batch, error) {
	l.s.now = l.s.now.Add(l.takes)
	m := l.s.changelog[offset]
	return Batch{Records: []Record{{Offset: offset, Key: m.Key, Value: m.Value}}, Next: offset + 1},
		nil
}

// progress keeps what the observer hears.
type progress struct {
	*script
	heard []RestoreProgress
}

func (p *progress) Restoring(r RestoreProgress) { p.heard = append(p.heard, r) }

// TestRestoring: a long restore says how far it is, about once a second, and a
// short one nothing.
func TestRestoring(t *testing.T) {
	for n, takes := range map[int]time.Duration{
		1:  200 * time.Millisecond,
		20: 400 * time.Millisecond,
	} {
		s := newScript()
		s.committed = 1
		for range n {
			s.changelog = append(s.changelog, Message{Key: []byte("ann"), Value: []byte("v")})
		}
		s.changelog = append(s.changelog, mark(1))
		p := &progress{script: s}
		task, err := New(Dependencies{
			Input: scriptInput{s}, Changelog: slowChangelog{scriptChangelog{s}, takes},
			Transactions: scriptTxn{s}, Store: scriptStore{s}, Processor: s,
		}, Options{Clock: s, Observer: p})
		if err != nil {
			t.Fatal(err)
		}
		task.beside = s.beside // the clock is the script's, which one goroutine has
		if _, err := task.restore(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			if len(p.heard) != 0 {
				t.Errorf("a restore of a moment says %+v", p.heard)
			}
			continue
		}
		// 17 fetches to find the mark, 21 to replay, three fit into a second.
		if len(p.heard) < 5 || len(p.heard) > 8 {
			t.Errorf("%d reports of a restore of %d records: %+v", len(p.heard), n, p.heard)
		}
		for i, r := range p.heard {
			if r.End != int64(n+1) || r.At != int64(r.Records) || r.Took < time.Second ||
				i > 0 && r.At <= p.heard[i-1].At {
				t.Errorf("report %d is %+v", i, r)
			}
		}
	}
}

// TestMarkMemory: a mark outlives the batch that it was read from.
func TestMarkMemory(t *testing.T) {
	want := fullMark
	want.Versions = versionedMark.Versions
	value := AppendMark(nil, want)
	m, err := DecodeMark(value)
	if err != nil {
		t.Fatal(err)
	}
	m = m.Clone()
	copy(value, bytes.Repeat([]byte{0xff}, len(value)))
	if !m.sameBut(want) {
		t.Errorf("the mark has become %+v", m)
	}
}

// TestRefusalsSayWhatToDo by the names of the configuration.
func TestRefusalsSayWhatToDo(t *testing.T) {
	s := newScript()
	s.committed, s.changelog = 1,
		v2(Mark{Input: 1, Open: true, Settings: []byte("S1"), Source: []byte("T1")})
	for _, test := range []struct {
		o    Options
		want []string
	}{
		{
			Options{Settings: []byte("S2")},
			[]string{"(settings-changed)", "beyond offset 1"},
		},
		{Options{Source: []byte("T2")}, []string{"made again", "(raw-remade)"}},
	} {
		err := s.run(t, test.o)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	}
}

// TestPassedBeyond: a worker may have shown what follows from times that it has passed, beyond all
// records. So a mark that was found open stays open until these times are passed again.
func TestPassedBeyond(t *testing.T) {
	for _, passes := range []bool{false, true} {
		k := marks{passes: passes}
		k.found(Mark{Input: 3, Open: true}, true, false, 3, 5)
		open := k.closes(5)
		k.unsettled = false
		if open == passes || k.closes(4) || !k.closes(5) {
			t.Errorf("passes %v: a mark closes at 5: %v; afterwards at 4 and 5: %v %v", passes,
				open, k.closes(4), k.closes(5))
		}
	}
}

// TestAnotherPartitioner: a partition whose last mark names another partitioner is refused, with or
// without states, unless that is accepted. The new name is then committed at once.
func TestAnotherPartitioner(t *testing.T) {
	for _, test := range []struct {
		name, found, own string
		kept             bool // an account of an erased key is all that there is
		accept, refused  bool
	}{
		{"another one", "murmur2", "crc32", false, false, true},
		{"another one, an account is kept", "murmur2", "crc32", true, false, true},
		{"another one, accepted", "murmur2", "crc32", true, true, false},
		{"it is not known", "", "crc32", false, false, true},
		{"the same", "crc32", "crc32", true, false, false},
		{"nothing is checked", "murmur2", "", true, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, purges := newScript(), 0
			s.committed = 3 // nothing is left to process
			s.changelog = v2(Mark{Input: 3, Partitioner: test.found})
			if test.kept {
				s.changelog = append([]Message{
					{Key: []byte(KeptKey + ":bob"), Value: []byte("v0 at 1")},
				}, s.changelog...)
			}
			start := func(accept bool) error {
				o := Options{Settings: []byte("S"), Partitioner: test.own, AcceptLost: accept}
				return s.runWith(t, scriptInput{s}, o, func(d *Dependencies) {
					d.Store, d.Eraser = erasingStore{scriptStore{s}, &purges}, scriptEraser{}
				})
			}
			err := start(test.accept)
			if errors.Is(err, ErrPartitioner) != test.refused || !test.refused && err != nil ||
				err != nil && RemedyOf(err) != Fatal {
				t.Fatalf("it ends with %v", err)
			}
			if test.refused {
				return
			}
			want := test.found
			if test.own != "" {
				want = test.own
			}
			if m := s.lastMark(t); m.Partitioner != want {
				t.Errorf("the last mark is %+v", m)
			}
			if err := start(false); err != nil {
				t.Errorf("the next start ends with %v", err)
			}
		})
	}
}
