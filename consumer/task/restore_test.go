package task

import (
	"context"
	"errors"
	"fmt"
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
			s.committed, s.changelog = none, []Message{mark(1)}
			s.found, s.positions = true, Positions{Input: 1, Changelog: 1}
		}, 0, 1},
		"the changelog was written back from other states": {func(s *script) {
			value := AppendMark(nil, Mark{Input: 1, Rebuilt: 9})
			s.committed, s.changelog = 1, []Message{mark(1), {Key: markKey, Value: value}}
			s.found, s.positions = true, Positions{Input: 2, Changelog: 1}
			s.states[MarkKey] = string(AppendMark(nil, Mark{Input: 2}))
		}, 1, 1},
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
	logged := []Message{old, mark(1)}
	at := func(input, changelog int64) *Positions {
		return &Positions{Input: input, Changelog: changelog}
	}
	accept, broken := Options{AcceptLost: true}, errors.New("checksum")
	for name, test := range map[string]struct {
		group int64 // its offset; none: it has none
		log   []Message
		cut   int64      // where the changelog begins
		store *Positions // nil: it is empty
		first int64      // where the input begins
		later time.Duration
		fails string // a call
		o     Options

		is            error // what Run's error is; nil: it works
		fences, wipes int
		next          int64 // where it begins to read
		assumed       bool
	}{
		"the group's offset has expired": {
			group: none, log: logged,
			fences: 1, wipes: 1, next: 1,
		},
		"the group has an offset alone": {group: 2, is: ErrLost, fences: 3},
		"its offset alone, accepted": {
			group: 2,
			o:     accept, fences: 3, wipes: 1, next: 2, assumed: true,
		},
		"the group was given offset 0":        {fences: 1, wipes: 1},
		"a first start, whatever is accepted": {group: none, o: accept, fences: 1, wipes: 1},
		"nothing is lost, whatever is accepted": {
			group: 1, log: logged, store: at(1, 2),
			o: accept, fences: 1, next: 1,
		},
		"the changelog is lost": {group: 2, store: at(2, 7), is: ErrLost, fences: 3},
		"the changelog is lost, accepted": {
			group: 2, store: at(2, 7),
			o: accept, fences: 3, wipes: 1, next: 2, assumed: true,
		},
		"changelog and offset are lost": {group: none, store: at(2, 7), is: ErrLost, fences: 3},
		"both are lost, accepted": {
			group: none, store: at(2, 7),
			o: accept, fences: 3, wipes: 1, next: 2, assumed: true,
		},
		"another topic": {group: 1, log: []Message{old}, is: ErrDiverged, fences: 3, wipes: 3},
		"another topic, accepted": {
			group: 1, log: []Message{old},
			o: accept, is: ErrDiverged, fences: 3, wipes: 3,
		},
		"another topic, and there is a store": {
			group: 2, log: []Message{old, old}, store: at(2, 7),
			is: ErrDiverged, fences: 3,
		},
		"another topic, longer than the store's position": {
			group: 2, log: slices.Repeat([]Message{old}, 400), store: at(2, 7),
			is: ErrDiverged, fences: 3,
		},
		"the last mark is far from the end": {
			group: 1, log: append([]Message{old, mark(1)}, slices.Repeat([]Message{old}, 400)...),
			store:  at(0, 900),
			fences: 1, wipes: 1, next: 1,
		},
		"the beginning is lost": {group: 1, log: logged, cut: 1, is: ErrLost, fences: 3},
		"beginning and offset are lost": {
			group: none, log: logged, cut: 1, store: at(1, 2),
			is: ErrLost, fences: 3,
		},
		"what the store lacks is lost": {
			group: 1, log: []Message{old, old, mark(1)}, cut: 2, store: at(0, 1),
			is: ErrLost, fences: 3,
		},
		"what the store has is lost": {
			group: 1, log: logged, cut: 1, store: at(1, 2),
			fences: 1, next: 1,
		},
		"the beginning is lost, accepted": {
			group: 1, log: logged, cut: 1,
			o: accept, fences: 3, wipes: 1, next: 1,
		},
		"the cleaner moves the start": {
			group: 1, log: logged, cut: 1,
			o: Options{CleanerTrims: true}, fences: 1, wipes: 1, next: 1,
		},
		"all is lost, and there is no store": {
			group: none, log: logged, cut: 2,
			is: ErrLost, fences: 3,
		},
		"the store leads": {group: 1, log: logged, store: at(2, 2), is: ErrLost, fences: 3},
		"the store leads, whatever is accepted": {
			group: 1, log: logged, store: at(2, 2),
			o: accept, is: ErrLost, fences: 3,
		},
		"the store leads, and the group with it": {
			group: 2, log: logged, store: at(2, 3), is: ErrLost, fences: 3,
		},
		"the store leads, and the group has no offset": {
			group: none, log: logged, store: at(2, 3), is: ErrLost, fences: 3,
		},
		"the changelog has lost its end": {group: 2, log: logged, is: ErrDiverged, fences: 3},
		"the changelog has lost an erasure": {
			group: 1, log: logged, store: at(1, 3), is: ErrLost, fences: 3,
		},
		"the store is right": {group: 1, log: logged, store: at(1, 2), fences: 1, next: 1},
		"a full restore was interrupted": {
			group: 1, log: logged, fences: 1, next: 1,
			store: &Positions{Input: none, Changelog: 1, AppliedMS: 1_000_000},
		},
		"the store is too old for tombstones": {
			group: 1, log: logged, store: at(0, 1), later: 1000 * time.Hour,
			fences: 1, wipes: 1, next: 1,
		},
		"the group was moved back": {
			group: 1, log: []Message{old, mark(2)},
			is: ErrDiverged, fences: 3,
		},
		"the mark is of a later version": {
			group: 1, log: []Message{{Key: markKey, Value: []byte{9}}},
			is: errMarkVersion, fences: 1,
		},
		"a reserved key of a later version": {
			group: 1, log: []Message{{Key: []byte("\x00later"), Value: []byte{9}}, mark(1)},
			fences: 1, wipes: 1, next: 1,
		},
		"the input has lost records": {
			group: 1, log: logged, first: 2,
			is: ErrInputLost, fences: 1, wipes: 1,
		},
		"it has lost records, allowed": {
			group: 1, log: logged, first: 2,
			o: Options{SkipLost: true}, fences: 1, wipes: 1, next: 2,
		},
		"the input is shorter": {
			group: 9, log: []Message{old, mark(9)},
			is: ErrInputLost, fences: 3, wipes: 1,
		},
		"the store cannot be read": {
			group: none, fails: "store.positions",
			is: ErrStore, fences: 1,
		},
		"the store cannot be wiped": {
			group: none, fails: "store.wipe",
			is: ErrStore, fences: 1, wipes: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			s.committed, s.changelog, s.cut, s.first = test.group, test.log, test.cut, test.first
			s.now = s.now.Add(test.later)
			if s.found = test.store != nil; s.found {
				s.positions = *test.store
			}
			if test.fails != "" {
				s.fail[test.fails] = broken
			}
			o := test.o
			o.Doubts = 3
			err := s.run(t, o)
			if !errors.Is(err, test.is) || (test.is != nil) != (RemedyOf(err) == Fatal) {
				t.Fatalf("Run answers %v (%v), want %v", err, RemedyOf(err), test.is)
			}
			if f, w := count(s, "txn.fence"), count(s, "store.wipe"); f != test.fences ||
				w != test.wipes {
				t.Errorf("%d fences and %d wipes, want %d and %d", f, w, test.fences, test.wipes)
			}
			if s.restored.Assumed != test.assumed {
				t.Errorf("the observer is told assumed %v, want %v", s.restored.Assumed,
					test.assumed)
			}
			if err != nil {
				if test.store != nil && test.wipes == 0 && count(s, "store.apply") > 0 {
					t.Error("the only good copy was written to")
				}
				if !strings.HasPrefix(err.Error(), "raw/0: ") {
					t.Errorf("the error does not say which task: %v", err)
				}
				return
			}
			i := slices.IndexFunc(s.lines, func(l string) bool {
				return strings.HasPrefix(l, "input.fetch ")
			})
			if want := fmt.Sprintf("input.fetch %d", test.next); i >= 0 && s.lines[i] != want {
				t.Errorf("begins by %q, want %q", s.lines[i], want)
			}
		})
	}
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
