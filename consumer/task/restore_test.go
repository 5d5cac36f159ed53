package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// mark is one of which nothing but its input is known.
func mark(next int64) Message {
	value := AppendMark(nil, Mark{Input: next, Origin: none, Since: none, Open: true})
	return Message{Key: []byte(MarkKey), Value: value}
}

// keeper is a store that keeps copies.
type keeper struct{ scriptStore }

func (k keeper) Keep() error { return k.s.note("store.keep", "%d", k.s.positions.Input) }

// TestKeep: a store that may be the only copy is kept before it is wiped, and one that cannot
// be kept stays. A store that the changelog can restore is not kept.
func TestKeep(t *testing.T) {
	lost := func(s *script) {
		s.committed, s.found, s.positions = 2, true, Positions{Input: 2, Changelog: 7}
	}
	for name, test := range map[string]struct {
		set          func(s *script)
		keeps, wipes int
	}{
		"the changelog is lost": {lost, 1, 1},
		"its beginning is lost": {func(s *script) {
			s.committed, s.changelog, s.cut = 1, []Message{mark(1), mark(1)}, 1
			s.found, s.positions = true, Positions{Input: 0, Changelog: 0}
		}, 1, 1},
		"the store is of no use": {func(s *script) {
			s.committed, s.changelog = 1, []Message{mark(1)}
			s.found, s.positions = true, Positions{Input: 2, Changelog: 1}
		}, 0, 1},
		"the copy fails": {func(s *script) {
			lost(s)
			s.fail["store.keep"] = errors.New("full")
		}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			test.set(s)
			fails := s.fail["store.keep"] != nil
			task, err := New(Dependencies{
				Input: scriptInput{s}, Changelog: scriptChangelog{s}, Transactions: scriptTxn{s},
				Store: keeper{scriptStore{s}}, Processor: s,
			}, Options{AcceptLost: true, Doubts: 1, Clock: s})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := task.restore(t.Context(), s.committed); (err != nil) != fails ||
				fails && !errors.Is(err, ErrStore) {
				t.Errorf("restore answers %v", err)
			}
			if k, w := count(s, "store.keep"), count(s, "store.wipe"); k != test.keeps ||
				w != test.wipes {
				t.Errorf("%d copies and %d wipes, want %d and %d: %q", k, w, test.keeps, test.wipes,
					s.lines)
			}
		})
	}
}

func count(s *script, line string) (n int) {
	for _, l := range s.lines {
		if strings.HasPrefix(l, line) {
			n++
		}
	}
	return n
}

// TestReconcile gives a start every kind of disagreement between the group, the
// changelog, the store and the input.
func TestReconcile(t *testing.T) {
	old := Message{Key: []byte("ann"), Value: []byte("+v0")}
	tests := []struct {
		name    string
		set     func(s *script)
		options Options
		is      error // what Run's error is; nil: it works
		remedy  Remedy
		fences  int
		wipes   int
		next    int64 // where it begins to read
		assumed bool
	}{
		{
			name: "the group's offset has expired, the changelog has its mark", next: 1, fences: 1,
			wipes: 1,
			set:   func(s *script) { s.changelog = []Message{old, mark(1)} },
		},
		{
			name: "the group has an offset, and nothing else is there", is: ErrLost, remedy: Fatal,
			fences: 3, wipes: 0,
			set: func(s *script) { s.committed = 2 },
		},
		{
			name: "the group was given an offset, and that is accepted", next: 2, fences: 3,
			wipes: 1, assumed: true,
			options: Options{AcceptLost: true},
			set:     func(s *script) { s.committed = 2 },
		},
		{
			name: "the changelog is lost, and that is accepted", next: 2, fences: 3, wipes: 1,
			assumed: true,
			options: Options{AcceptLost: true},
			set: func(s *script) {
				s.committed, s.found, s.positions = 2, true, Positions{Input: 2, Changelog: 7}
			},
		},
		{
			name: "the changelog and the group's offset are lost, and that is accepted", next: 2,
			fences: 3, wipes: 1, assumed: true,
			options: Options{AcceptLost: true},
			set: func(s *script) {
				s.found, s.positions = true, Positions{Input: 2, Changelog: 7}
			},
		},
		{
			name: "nothing is lost, whatever is accepted", next: 1, fences: 1, wipes: 0,
			options: Options{AcceptLost: true},
			set: func(s *script) {
				s.committed, s.changelog = 1, []Message{old, mark(1)}
				s.found, s.positions = true, Positions{Input: 1, Changelog: 2}
			},
		},
		{
			name: "another topic is not a lost one, whatever is accepted", is: ErrDiverged,
			remedy: Fatal, fences: 3, wipes: 3,
			options: Options{AcceptLost: true},
			set:     func(s *script) { s.committed, s.changelog = 1, []Message{old} },
		},
		{
			name: "a first start, whatever is accepted", next: 0, fences: 1, wipes: 1,
			options: Options{AcceptLost: true},
			set:     func(*script) {},
		},
		{
			name: "the group was given the first offset", next: 0, fences: 1, wipes: 1,
			set: func(s *script) { s.committed, s.input = 0, nil },
		},
		{
			name: "the changelog is lost", is: ErrLost, remedy: Fatal, fences: 3, wipes: 0,
			set: func(s *script) {
				s.committed, s.found, s.positions = 2, true, Positions{Input: 2, Changelog: 7}
			},
		},
		{
			name: "the changelog and the group's offset are lost", is: ErrLost, remedy: Fatal,
			fences: 3, wipes: 0,
			set: func(s *script) { s.found, s.positions = true, Positions{Input: 2, Changelog: 7} },
		},
		{
			name: "the changelog is another topic, and there is a store", is: ErrDiverged,
			remedy: Fatal, fences: 3, wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog = 2, []Message{old, old}
				s.found, s.positions = true, Positions{Input: 2, Changelog: 7}
			},
		},
		{
			name: "the changelog is another topic, longer than the store's position",
			is:   ErrDiverged, remedy: Fatal, fences: 3, wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog = 2, slices.Repeat([]Message{old}, 400)
				s.found, s.positions = true, Positions{Input: 2, Changelog: 7}
			},
		},
		{
			name: "the last mark is far from the changelog's end", next: 1, fences: 1, wipes: 1,
			set: func(s *script) {
				s.committed, s.changelog = 1,
					append([]Message{old, mark(1)}, slices.Repeat([]Message{old}, 400)...)
				s.found, s.positions = true, Positions{Input: 0, Changelog: 900}
			},
		},
		{
			name: "the changelog has lost its beginning", is: ErrLost, remedy: Fatal, fences: 3,
			wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog, s.cut = 1, []Message{old, mark(1)}, 1
			},
		},
		{
			name: "the changelog has lost its beginning and the group its offset", is: ErrLost,
			remedy: Fatal, fences: 3, wipes: 0,
			set: func(s *script) {
				s.changelog, s.cut = []Message{old, mark(1)}, 1
				s.found, s.positions = true, Positions{Input: 1, Changelog: 2}
			},
		},
		{
			name: "the changelog has lost what the store lacks", is: ErrLost, remedy: Fatal,
			fences: 3, wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog, s.cut = 1, []Message{old, old, mark(1)}, 2
				s.found, s.positions = true, Positions{Input: 0, Changelog: 1}
			},
		},
		{
			name: "the changelog has lost what the store has", next: 1, fences: 1, wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog, s.cut = 1, []Message{old, mark(1)}, 1
				s.found, s.positions = true, Positions{Input: 1, Changelog: 2}
			},
		},
		{
			name: "the changelog has lost its beginning, and that is accepted", next: 1, fences: 3,
			wipes:   1,
			options: Options{AcceptLost: true},
			set: func(s *script) {
				s.committed, s.changelog, s.cut = 1, []Message{old, mark(1)}, 1
			},
		},
		{
			name: "the cleaner moves the changelog's start", next: 1, fences: 1, wipes: 1,
			options: Options{CleanerTrims: true},
			set: func(s *script) {
				s.committed, s.changelog, s.cut = 1, []Message{old, mark(1)}, 1
			},
		},
		{
			name: "the changelog has lost all, the group its offset, and there is no store",
			is:   ErrLost, remedy: Fatal, fences: 3, wipes: 0,
			set: func(s *script) { s.changelog, s.cut = []Message{old, mark(1)}, 2 },
		},
		{
			name: "the store leads", next: 1, fences: 1, wipes: 1,
			set: func(s *script) {
				s.committed, s.changelog = 1, []Message{old, mark(1)}
				s.found, s.positions = true, Positions{Input: 2, Changelog: 2}
			},
		},
		{
			name: "the store has a position that the changelog has not", next: 1, fences: 1,
			wipes: 1,
			set: func(s *script) {
				s.committed, s.changelog = 1, []Message{old, mark(1)}
				s.found, s.positions = true, Positions{Input: 1, Changelog: 3}
			},
		},
		{
			name: "the store is right", next: 1, fences: 1, wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog = 1, []Message{old, mark(1)}
				s.found, s.positions = true, Positions{Input: 1, Changelog: 2}
			},
		},
		{
			name: "a full restore was interrupted", next: 1, fences: 1, wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog = 1, []Message{old, mark(1)}
				s.found, s.positions = true,
					Positions{Input: none, Changelog: 1, AppliedMS: s.now.UnixMilli()}
			},
		},
		{
			name: "the store is too old for tombstones", next: 1, fences: 1, wipes: 1,
			set: func(s *script) {
				s.now = s.now.Add(1000 * time.Hour)
				s.committed, s.changelog = 1, []Message{old, mark(1)}
				s.found, s.positions = true, Positions{Input: 0, Changelog: 1}
			},
		},
		{
			name: "the group was moved back", is: ErrDiverged, remedy: Fatal, fences: 3, wipes: 3,
			set: func(s *script) { s.committed, s.changelog = 1, []Message{old, mark(2)} },
		},
		{
			name: "the changelog is another topic", is: ErrDiverged, remedy: Fatal, fences: 3,
			wipes: 3,
			set:   func(s *script) { s.committed, s.changelog = 1, []Message{old} },
		},
		{
			name: "the mark is of a later version", remedy: Fatal, fences: 1, wipes: 0,
			set: func(s *script) {
				s.committed, s.changelog = 1, []Message{{Key: []byte(MarkKey), Value: []byte{9}}}
			},
		},
		{
			name: "a reserved key of a later version is passed over", next: 1, fences: 1, wipes: 1,
			set: func(s *script) {
				s.committed, s.changelog = 1,
					[]Message{{Key: []byte("\x00later"), Value: []byte{9}}, mark(1)}
			},
		},
		{
			name: "the input has lost records", is: ErrInputLost, remedy: Fatal, fences: 1,
			wipes: 1,
			set: func(s *script) {
				s.committed, s.changelog, s.first = 1, []Message{old, mark(1)}, 2
			},
		},
		{
			name: "the input has lost records, and that is allowed", next: 2, fences: 1, wipes: 1,
			options: Options{SkipLost: true},
			set: func(s *script) {
				s.committed, s.changelog, s.first = 1, []Message{old, mark(1)}, 2
			},
		},
		{
			name: "the input is shorter than the offset", is: ErrInputLost, remedy: Fatal,
			fences: 3, wipes: 1,
			set: func(s *script) { s.committed, s.changelog = 9, []Message{old, mark(9)} },
		},
		{
			name: "the store cannot be read", is: ErrStore, remedy: Fatal, fences: 1,
			set: func(s *script) { s.fail["store.positions"] = errors.New("checksum") },
		},
		{
			name: "the store cannot be wiped", is: ErrStore, remedy: Fatal, fences: 1, wipes: 1,
			set: func(s *script) { s.fail["store.wipe"] = errors.New("read-only") },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			test.set(s)
			o := test.options
			o.Doubts = 3
			err := s.run(t, o)
			if RemedyOf(err) != test.remedy || test.is != nil && !errors.Is(err, test.is) {
				t.Fatalf("Run answers %v (%v), want %v (%v)", err, RemedyOf(err), test.is,
					test.remedy)
			}
			if f, w := count(s, "txn.fence"), count(s, "store.wipe"); f != test.fences ||
				w != test.wipes {
				t.Errorf("%d fences and %d wipes, want %d and %d", f, w, test.fences, test.wipes)
			}
			if s.restored.Assumed != test.assumed {
				t.Errorf("the observer is told assumed %v, want %v", s.restored.Assumed,
					test.assumed)
			}
			if test.remedy != Unmarked {
				if s.found && test.wipes == 0 && count(s, "store.apply") > 0 {
					t.Error("the only good copy was written to")
				}
				if !strings.HasPrefix(err.Error(), "raw/0: ") {
					t.Errorf("the error does not say which task: %v", err)
				}
				return
			}
			for _, l := range s.lines {
				var first int64
				if _, err := fmt.Sscanf(l, "input.fetch %d", &first); err == nil {
					if first != test.next {
						t.Errorf("begins at %d, want %d", first, test.next)
					}
					break
				}
			}
		})
	}
}

// TestAcceptedLoss: an offset that stands alone has to be accepted once; the mark that
// follows at once vouches for it from then on, and another loss is noticed.
func TestAcceptedLoss(t *testing.T) {
	s := newScript()
	s.committed, s.end = 2, 2
	rest := s.input[2:]
	s.input = nil
	for i, assumed := range []bool{true, false, false} {
		s.restored = Restore{}
		o := Options{AcceptLost: i == 0, Doubts: 2}
		if err := s.run(t, o); err != nil || s.restored.Assumed != assumed ||
			s.restored.Input != 2 {
			t.Fatalf("start %d answers %v, restored %+v", i, err, s.restored)
		}
	}
	if m, err := DecodeMark(s.changelog[0].Value); err != nil || m.Origin != 2 || m.Input != 2 ||
		m.Open {
		t.Fatalf("the first mark is %+v, %v", m, err)
	}
	s.input, s.end = rest, 3
	if err := s.run(t, Options{}); err != nil || s.committed != 3 {
		t.Fatalf("a start with a record answers %v, committed %d", err, s.committed)
	}
	s.changelog = nil
	states := maps.Clone(s.states)
	if err := s.run(t, Options{}); !errors.Is(err, ErrLost) || RemedyOf(err) != Fatal ||
		!strings.Contains(err.Error(), "accept_lost_account") {
		t.Errorf("a lost changelog answers %v", err)
	}
	if len(states) == 0 || !maps.Equal(s.states, states) {
		t.Errorf("the store holds %v, had %v", s.states, states)
	}
}

// TestChangelogIsRemadeAtWork: a changelog that is deleted and made again while a task
// works ends it before anything is committed beside the empty one.
func TestChangelogIsRemadeAtWork(t *testing.T) {
	s := newScript()
	s.ends = false
	var committed int64
	input := remaking{scriptInput{s}, func() { s.changelog, committed = nil, s.committed }}
	err := s.runOn(t, input, Options{MaxRecords: 1, Doubts: 2})
	if !errors.Is(err, ErrLost) || RemedyOf(err) != Fatal {
		t.Errorf("Run answers %v", err)
	}
	if len(s.changelog) != 0 || s.committed != committed || committed != 3 ||
		count(s, "txn.abort") != 1 {
		t.Errorf("the group has gone from %d to %d, the changelog holds %d records: %q", committed,
			s.committed, len(s.changelog), s.lines)
	}
}

// remaking remakes the changelog when the input is used up, and then has more.
type remaking struct {
	scriptInput
	remake func()
}

func (l remaking) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	if offset == 3 && l.s.end == 3 {
		l.remake()
		l.s.input = append(l.s.input, Record{Offset: 3, Key: []byte("bob"), Value: []byte("v3")})
		l.s.end = 4
	}
	return l.scriptInput.Fetch(ctx, offset, wait)
}

// distantLog is a changelog of states of one key each. Every fetch takes a while, and the last one
// takes as long as its context lets it.
type distantLog struct {
	batches, fetches int
	endless          bool
	memory           []byte // of the last batch
}

const fetchTakes = 10 * time.Millisecond

func (l *distantLog) Bounds(context.Context) (first, end int64, err error) {
	return 0, int64(l.batches), nil
}

func (l *distantLog) Fetch(ctx context.Context, offset int64, _ time.Duration) (Batch, error) {
	for i := range l.memory {
		l.memory[i] = '?'
	}
	l.fetches++
	time.Sleep(fetchTakes)
	if l.endless && offset == 3 {
		<-ctx.Done()
		return Batch{}, ctx.Err()
	}
	key := fmt.Appendf(nil, "user%d", offset)
	l.memory = key
	record := Record{Offset: offset, Key: key, Value: []byte("x")}
	return Batch{Records: []Record{record}, Next: offset + 1}, nil
}

// TestFetchAhead: while a batch is visited, the next one is on its way, in memory of its own. An
// error of the visit ends the fetch, and a goroutine that stayed behind would fail the bubble.
func TestFetchAhead(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const batches = 50
			l := &distantLog{batches: batches, endless: fails}
			task, err := New(Dependencies{
				Input: l, Changelog: l, Transactions: idleTxn{}, Store: emptyStore{},
				Processor: processFunc(nil),
			}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := restoration{t: task}
			refused := errors.New("the disk is full")
			begun, visited := time.Now(), 0
			err = r.scan(t.Context(), 0, batches, func(b Batch) error {
				time.Sleep(fetchTakes) // it takes as long as a fetch
				if got := string(b.Records[0].Key); got != fmt.Sprintf("user%d", visited) {
					t.Errorf("batch %d is of %s", visited, got)
				}
				if visited++; fails && visited == 3 {
					return refused
				}
				return nil
			})
			took := time.Since(begun)
			switch {
			case fails && (!errors.Is(err, refused) || l.fetches != 4):
				t.Errorf("after %d fetches it ends with %v", l.fetches, err)
			case fails:
			case err != nil || l.fetches != batches || visited != batches:
				t.Errorf("%d fetches for %d batches: %v", l.fetches, visited, err)
			case took != (batches+1)*fetchTakes:
				t.Errorf("took %v; %v if each batch is fetched while the one before it is "+
					"visited, %v if it is fetched after that", took, (batches+1)*fetchTakes,
					2*batches*fetchTakes)
			}
		})
	}
}

// TestStalledChangelog: a changelog that does not deliver is not waited for
// without end, and not taken for read.
func TestStalledChangelog(t *testing.T) {
	s := newScript()
	s.committed, s.changelog = 1, []Message{mark(1)}
	task, err := New(Dependencies{
		Input: scriptInput{s}, Changelog: stalled{scriptChangelog{s}}, Transactions: scriptTxn{s},
		Store: scriptStore{s}, Processor: s,
	}, Options{Retries: 3})
	if err != nil {
		t.Fatal(err)
	}
	_, err = task.restore(t.Context(), 1)
	if err == nil || RemedyOf(err) == Fatal || !strings.Contains(err.Error(), "delivers nothing") {
		t.Errorf("restore answers %v", err)
	}
}

type stalled struct{ scriptChangelog }

func (l stalled) Fetch(_ context.Context, offset int64, _ time.Duration) (Batch, error) {
	return Batch{Next: offset, StableEnd: offset}, nil
}

// TestBadLog: a log that breaks its contract ends the task; going on could
// process a record twice.
func TestBadLog(t *testing.T) {
	for name, b := range map[string]Batch{
		"a record before the offset":   {Records: []Record{{Offset: 4}}, Next: 6},
		"records out of order":         {Records: []Record{{Offset: 6}, {Offset: 5}}, Next: 7},
		"the next offset is too low":   {Records: []Record{{Offset: 6}}, Next: 6},
		"the next offset goes back":    {Next: 4},
		"the same record comes double": {Records: []Record{{Offset: 6}, {Offset: 6}}, Next: 7},
	} {
		if b.check(5) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := (Batch{Records: []Record{{Offset: 6}, {Offset: 9}}, Next: 12}).check(5); err != nil {
		t.Error(err)
	}
}

// TestBadProcessor: what a processor must not do is Fatal.
func TestBadProcessor(t *testing.T) {
	for name, test := range map[string]struct {
		key    string
		effect func(fx *Effects)
		is     error
	}{
		"a state for a reserved key": {"\x00key", func(fx *Effects) {
			fx.State = []byte("s")
		}, ErrReservedKey},
		"a state for no key": {"", func(fx *Effects) { fx.Forget = true }, ErrReservedKey},
		"set and forgotten": {"key", func(fx *Effects) {
			fx.Forget, fx.State = true, []byte("s")
		}, nil},
	} {
		task, err := New(Dependencies{
			Input: &endless{}, Changelog: &endless{}, Transactions: idleTxn{}, Store: emptyStore{},
			Processor: processFunc(func(_ Record, _ []byte, fx *Effects) error {
				test.effect(fx)
				return nil
			}),
		}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = task.process(Record{Key: []byte(test.key)})
		if RemedyOf(err) != Fatal || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v (%v)", name, err, RemedyOf(err))
		}
	}
}
