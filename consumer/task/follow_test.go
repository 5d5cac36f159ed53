package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFollow gives a standby every kind of copy and changelog: what it makes of the copy, and where
// it leaves the copy alone.
func TestFollow(t *testing.T) {
	ann, bob := Message{Key: []byte("ann"), Value: []byte("1")}, Message{
		Key: []byte("bob"), Value: []byte("2"),
	}
	gone := Message{Key: []byte("ann")}
	one, both := map[string]string{"ann": "1"}, map[string]string{"ann": "1", "bob": "2"}
	const now, old = 100 * 3600 * 1000, 80 * 3600 * 1000 // in milliseconds; MaxStoreAge is 12 h
	pos := func(input, changelog, appliedMS int64) *Positions {
		return &Positions{input, changelog, appliedMS}
	}
	first, here := []Message{ann, mark(1)}, pos(1, 2, now)
	second := append(slices.Clone(first), bob, mark(2))
	for name, test := range map[string]struct {
		changelog []Message
		cut       int64
		copied    *Positions // with ann's state; nil: there is none
		doubt     string     // "" if it comes to the end
		wipes     int
		want      map[string]string
		at        *Positions // in the end; nil: there is none
	}{
		"nothing was ever processed": {},
		"there is no copy":           {changelog: first, want: one, at: pos(1, 2, now)},
		"the copy lags": {
			changelog: append(slices.Clone(first), bob, gone, mark(3)),
			copied:    pos(1, 2, now-1000), want: map[string]string{"bob": "2"}, at: pos(3, 5, now),
		},
		"the copy was the first to know the partition": {
			copied: pos(none, 0, now), want: one, at: pos(none, 0, now),
		},
		"the copy was up to date, long ago": {
			changelog: first, copied: pos(1, 2, old), want: one, at: pos(1, 2, now),
		},
		"the copy is older than tombstones": {
			changelog: second, wipes: 1, copied: pos(1, 2, old), want: both, at: pos(2, 4, now),
		},
		"the copy is old, and the changelog has lost its beginning": {
			changelog: second, cut: 1, doubt: "older than tombstones", copied: pos(1, 2, old),
			want: one, at: pos(1, 2, old),
		},
		"the changelog has lost its beginning, and there is no copy": {
			changelog: first, cut: 1, doubt: "begins at offset 1",
		},
		"the changelog has lost what the copy has": {
			changelog: second, cut: 2, copied: pos(1, 2, now), want: both, at: pos(2, 4, now),
		},
		"the changelog has lost what the copy lacks": {
			changelog: second, cut: 3, doubt: "no longer holds", copied: here, want: one, at: here,
		},
		"the changelog is empty": {
			doubt: "the changelog is empty", copied: here, want: one, at: here,
		},
		"the changelog was made again, and is shorter": {
			changelog: []Message{mark(5)}, doubt: "ends before", copied: here, want: one, at: here,
		},
		"the copy has more than the changelog": {
			changelog: first, doubt: "the copy here is at", copied: pos(7, 2, now),
			want: one, at: pos(7, 2, now),
		},
		"the changelog is another topic": {changelog: first[:1], doubt: "no mark"},
		"the changelog's mark is of a newer version": {
			changelog: []Message{ann, {Key: markKey, Value: []byte{99}}}, doubt: "(newer-program)",
		},
		"somebody else writes to the changelog": {
			changelog: append(slices.Clone(first), bob), doubt: "without a mark",
			copied: here, want: one, at: here,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			s.now = time.UnixMilli(now)
			s.changelog, s.cut = test.changelog, test.cut
			if test.at == nil {
				test.at = new(Positions)
			}
			if test.copied != nil {
				s.positions, s.found, s.states["ann"] = *test.copied, true, "1"
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var doubt error
			err := Follow(ctx, scriptChangelog{s}, scriptStore{s}, Options{Clock: s},
				func(f Following) {
					if doubt = f.Doubt; doubt != nil || f.At == f.End {
						cancel()
					}
				})
			if err != nil {
				t.Fatal(err)
			}
			if test.doubt == "" && doubt != nil ||
				doubt != nil && !strings.Contains(doubt.Error(), test.doubt) ||
				test.doubt != "" && doubt == nil {
				t.Errorf("it doubts %v, want %q", doubt, test.doubt)
			}
			maps.DeleteFunc(s.states, func(key, value string) bool {
				return value == "" || key == MarkKey
			})
			if n := count(s, "store.wipe"); n != test.wipes || !maps.Equal(s.states, test.want) ||
				s.positions != *test.at {
				t.Errorf("%d wipes, states %v at %+v, want %d, %v at %+v", n, s.states,
					s.positions, test.wipes, test.want, test.at)
			}
		})
	}
}

// smallFetches answers with one record at a time, and sleeps in the first fetches as told.
type smallFetches struct {
	scriptChangelog
	sleeps *[]time.Duration
	whole  bool // it answers with all records after all
}

func (l smallFetches) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	if len(*l.sleeps) > 0 {
		l.s.now = l.s.now.Add((*l.sleeps)[0])
		*l.sleeps = (*l.sleeps)[1:]
	}
	b, err := l.scriptChangelog.Fetch(ctx, offset, wait)
	if len(b.Records) > 1 && !l.whole {
		b.Records, b.Next = b.Records[:1], b.Records[0].Offset+1
	}
	return b, err
}

// TestFollowLargeTransaction: a transaction as large as a task writes it, which comes in many
// answers while the standby is at the end, is no reason to doubt.
func TestFollowLargeTransaction(t *testing.T) {
	s := newScript()
	s.changelog = []Message{{Key: []byte("ann"), Value: []byte("1")}, mark(1)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sleeps []time.Duration
	grown := false
	err := Follow(ctx, smallFetches{scriptChangelog{s}, &sleeps, false}, scriptStore{s},
		Options{Clock: s}, func(f Following) {
			switch {
			case f.Doubt != nil:
				t.Error(f.Doubt)
				cancel()
			case f.At == f.End && grown:
				cancel()
			case f.At == f.End:
				grown = true
				state := make([]byte, 1<<20)
				for i := range (Options{}).withDefaults().MaxBytes >> 20 {
					s.changelog = append(s.changelog,
						Message{Key: fmt.Append(nil, "user", i), Value: state})
				}
				s.changelog = append(s.changelog, mark(9))
			}
		})
	if err != nil || len(s.states["user7"]) != 1<<20 || s.positions.Input != 9 {
		t.Errorf("%v, at %+v", err, s.positions)
	}
}

// TestFollowSleeps: a machine that has slept within a fetch may have missed tombstones, so the copy
// is not taken for one that is up to date.
func TestFollowSleeps(t *testing.T) {
	s := newScript()
	s.now = time.UnixMilli(100 * 3600 * 1000)
	ann, bob := Message{Key: []byte("ann"), Value: []byte("1")}, Message{
		Key: []byte("bob"), Value: []byte("2"),
	}
	s.changelog = []Message{ann, mark(1), bob, mark(2)}
	s.positions, s.found = Positions{Input: 1, Changelog: 2, AppliedMS: s.now.UnixMilli()}, true
	s.states["gone"] = "its tombstone is gone too"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sleeps := []time.Duration{0, 40 * time.Hour} // the first fetch looks for the mark
	err := Follow(ctx, smallFetches{scriptChangelog{s}, &sleeps, true}, scriptStore{s},
		Options{Clock: s}, func(f Following) {
			if f.Doubt == nil && f.At == f.End {
				cancel()
			}
		})
	if err != nil || s.states["gone"] != "" || count(s, "store.wipe") != 1 {
		t.Errorf("%v: %v, %q", err, s.states, s.lines)
	}
}

// TestFollowGivenUp: the changelog was emptied, and somebody has accepted the loss. The older
// copy must not bring the states back: a standby leaves it, and a task says what is lost.
func TestFollowGivenUp(t *testing.T) {
	given := Message{
		Key:   markKey,
		Value: AppendMark(nil, Mark{Input: 1, Origin: 1, Since: 1, Open: true}),
	}
	old := AppendMark(nil, Mark{Input: 1, Origin: 0, Since: 0, Open: true})
	for _, live := range []bool{false, true} {
		s := newScript()
		s.now = time.UnixMilli(100 * 3600 * 1000)
		s.committed = 1
		s.changelog = []Message{
			{Key: []byte("ann"), Value: []byte("1")}, {Key: markKey, Value: old},
		}
		empty := func() { s.changelog, s.cut = append(s.changelog, given), 2 }
		s.positions, s.found = Positions{
			Input: 1, Changelog: 2, AppliedMS: s.now.UnixMilli(),
		}, true
		s.states["ann"], s.states[MarkKey] = "1", string(old)
		if !live {
			empty()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var doubt error
		told := 0
		err := Follow(ctx, scriptChangelog{s}, scriptStore{s}, Options{Clock: s},
			func(f Following) {
				if doubt, told = f.Doubt, told+1; doubt != nil || told == 9 {
					cancel()
				} else if s.cut == 0 {
					empty()
				}
			})
		cancel()
		if err != nil || !errors.Is(doubt, errGivenUp) && !strings.Contains(fmt.Sprint(doubt),
			errGivenUp.Error()) || s.positions.Changelog != 2 {
			t.Errorf("it doubts %v, %v, at %+v", doubt, err, s.positions)
		}
		if err := s.run(t, Options{Doubts: 2}); !errors.Is(err, ErrLost) || s.states["ann"] == "" {
			t.Errorf("a task on the copy ends with %v, %v", err, s.states)
		}
	}
}

// TestFollowForgets: what was removed leaves the store's files, once, when the copy is at the end.
func TestFollowForgets(t *testing.T) {
	s, purges := newScript(), 0
	s.changelog = []Message{{Key: []byte("ann"), Value: []byte("1")}, mark(1)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told []int
	err := Follow(ctx, scriptChangelog{s}, erasingStore{scriptStore{s}, &purges}, Options{Clock: s},
		func(Following) {
			if told = append(told, purges); len(told) == 3 {
				s.changelog = append(s.changelog, Message{Key: []byte("ann")}, mark(1))
			}
			if len(told) == 6 {
				cancel()
			}
		})
	if err != nil || !strings.Contains(strings.Join(s.lines, "\n"), "store.apply 2 changes") {
		t.Fatal(err, s.lines)
	}
	if want := []int{0, 1, 1, 1, 2, 2}; !slices.Equal(told, want) {
		t.Errorf("before each answer there were %v purges, want %v", told, want)
	}
}

// TestFollowEndsWithItsStore: a store that fails ends a standby, as it ends a task; a broker that
// does not answer does not.
func TestFollowEndsWithItsStore(t *testing.T) {
	full := errors.New("disk full")
	for _, call := range []string{"store.positions", "store.apply", "store.wipe"} {
		s := newScript()
		s.changelog = []Message{{Key: []byte("ann"), Value: []byte("1")}, mark(1)}
		s.positions, s.found = Positions{Input: 1, Changelog: none}, call == "store.wipe"
		s.fail[call] = full
		s.fail["changelog.bounds"] = errors.New("away")
		err := Follow(t.Context(), scriptChangelog{s}, scriptStore{s}, Options{Clock: s},
			func(Following) {})
		if !errors.Is(err, full) || !errors.Is(err, ErrStore) || RemedyOf(err) != Fatal {
			t.Errorf("%s fails, and Follow ends with %v", call, err)
		}
	}
}
