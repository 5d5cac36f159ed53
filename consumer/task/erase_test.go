package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

const askedMS = 7

// scriptEraser keeps what comes before the first plus sign of a state.
type scriptEraser struct{}

func (scriptEraser) Kept(key []byte) []byte { return fmt.Appendf(nil, "%s:%s", KeptKey, key) }

func (scriptEraser) Erase(r Request, offset int64, state, _ []byte) ([]byte, error) {
	if r.TimeMS == askedMS {
		return nil, errors.New("the time is not that of the erasure")
	}
	if r.Reset {
		return fmt.Appendf(nil, "at %d", offset), nil
	}
	account, _, _ := strings.Cut(strings.TrimPrefix(string(state), "+"), "+")
	return fmt.Appendf(nil, "%s at %d", account, offset), nil
}

func (scriptEraser) Recall(kept []byte) (state, remains []byte, err error) {
	account, rest, _ := strings.Cut(string(kept), "at ")
	if account == "" {
		return nil, nil, nil
	}
	return []byte(account), []byte("at " + rest), nil
}

func (e scriptEraser) Owes(kept []byte) (bool, error) {
	state, _, err := e.Recall(kept)
	return len(state) > 0, err
}

// erasingStore is a script's store that can erase.
type erasingStore struct {
	scriptStore
	purges *int
}

func (x erasingStore) Purge() error {
	*x.purges++
	return x.s.note("store.purge", "")
}

// askedFor is a script whose last worker has committed the first record of ann, and whose changelog
// ends with a request to erase her.
func askedFor(open, reset bool) *script {
	s := newScript()
	last := AppendMark(nil, Mark{Input: 1, Open: open, Settings: []byte("S")})
	s.committed = 1
	s.changelog = []Message{
		{Key: []byte("ann"), Value: []byte("+v0+secret")},
		{Key: markKey, Value: last},
		{
			Key:   []byte(RequestKey + ":ann"),
			Value: AppendRequest(nil, Request{[]byte("ann"), reset, askedMS}),
		},
		{Key: markKey, Value: last},
	}
	return s
}

// TestErase: a request in the changelog is carried out once, where nobody can have seen a result
// that is not committed, and the account is recalled once. It lets every call fail once, at each of
// its first times, by an error that the task recovers from or by one that ends it, after which
// another task goes on. The end is always the same.
func TestErase(t *testing.T) {
	broken, ended := errors.New("no answer"), WithRemedy(errors.New("gone"), Leave)
	calls := strings.Fields("none txn.fence txn.committed txn.produce txn.commit store.apply " +
		"store.purge store.get input.fetch changelog.fetch process")
	for _, test := range []struct {
		open, reset bool
		kept, ann   string // in the end
	}{
		// The record at 2 is ann's. After a clean stop she is erased before it.
		{false, false, "at 1", "v0 +v2"},
		{false, true, "at 1", "+v2"},
		// After a death it may have been seen, so she is erased after it.
		{true, false, "v0 at 3", ""},
		{true, true, "at 3", ""},
	} {
		for _, call := range calls {
			for nth := range 12 {
				for _, err := range []error{broken, ended} {
					s, purges := askedFor(test.open, test.reset), 0
					s.fail[call], s.wait[call] = err, nth
					if runErasing(t, s, &purges) != nil {
						s.fail, s.wait = map[string]error{}, map[string]int{}
						servicesErase(t, s, &purges)
					}
					requireErased(t, s, test.kept, test.ann)
					if purges < 2 {
						t.Errorf("%d purges, want one after the restore and one after the erasure",
							purges)
					}
					if t.Failed() {
						t.Fatalf("%+v, call %d of %s: %v\n%s", test, nth, call, err,
							strings.Join(s.lines, "\n"))
					}
				}
			}
		}
	}
}

// TestEraseBeside: a key is erased with the state that the transaction in flight has for it, which
// the store does not have yet.
func TestEraseBeside(t *testing.T) {
	erase := func(wrap func(Store) Store) (kept string) {
		s, purges := askedFor(true, false), 0
		s.late = true
		s.changelog[0].Value = nil // ann's first state is made by the record at 2
		s.input = append(s.input, Record{Offset: 3, Key: []byte("bob"), Value: []byte("v3")})
		err := s.runWith(t, growing{scriptInput{s}}, Options{Settings: []byte("S"), MaxRecords: 2},
			func(d *Dependencies) {
				d.Store = wrap(erasingStore{scriptStore{s}, &purges})
				d.Eraser = scriptEraser{}
			})
		if err != nil {
			t.Fatal(err)
		}
		return s.states[KeptKey+":ann"]
	}
	if got := erase(func(s Store) Store { return s }); got != "v2 at 3" {
		t.Errorf("what remains is %q", got)
	}
	if got := erase(func(s Store) Store { return &behind{erasingStore: s.(erasingStore)} }); got ==
		"v2 at 3" {
		t.Error("a store without the transaction in flight goes unnoticed")
	}
}

// growing has a fourth record from the first fetch on.
type growing struct{ scriptInput }

func (l growing) Fetch(ctx context.Context, offset int64, wait time.Duration) (Batch, error) {
	l.s.end = 4
	return l.scriptInput.Fetch(ctx, offset, wait)
}

// behind answers as it was before the last Apply.
type behind struct {
	erasingStore
	before map[string]string
}

func (x *behind) Apply(changes []Change, p Positions) error {
	x.before = maps.Clone(x.s.states)
	return x.erasingStore.Apply(changes, p)
}

func (x *behind) Get(key []byte) ([]byte, error) {
	return []byte(x.before[string(key)]), nil
}

// TestRequest: the encoding, and what is none.
func TestRequest(t *testing.T) {
	want := Request{Key: []byte("ann"), Reset: true, TimeMS: -3}
	value := AppendRequest(nil, want)
	got, err := DecodeRequest(value)
	if err != nil || string(got.Key) != "ann" || !got.Reset || got.TimeMS != -3 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]byte{
		nil, value[:10], append([]byte{2}, value[1:]...), append([]byte{1, 2}, value[2:]...),
		AppendRequest(nil, Request{Key: []byte("\x00input")}),
	} {
		if _, err := DecodeRequest(bad); err == nil {
			t.Errorf("%x is read", bad)
		}
	}
}

// servicesErase runs a task that must end well.
func servicesErase(t *testing.T, s *script, purges *int) {
	t.Helper()
	if err := runErasing(t, s, purges); err != nil {
		t.Fatal(err)
	}
}

func runErasing(t *testing.T, s *script, purges *int) error {
	t.Helper()
	return s.runWith(t, scriptInput{s}, Options{Settings: []byte("S")}, func(d *Dependencies) {
		d.Store, d.Eraser = erasingStore{scriptStore{s}, purges}, scriptEraser{}
	})
}

// requireErased looks at what the changelog holds in the end, and that the store has the same.
func requireErased(t *testing.T, s *script, kept, ann string) {
	t.Helper()
	last := map[string]string{}
	for _, m := range s.changelog {
		last[string(m.Key)] = string(m.Value)
	}
	for where, states := range map[string]map[string]string{"changelog": last, "store": s.states} {
		if states[RequestKey+":ann"] != "" || states[KeptKey+":ann"] != kept ||
			states["ann"] != ann {
			t.Errorf("the %s has %q", where, states)
		}
	}
}

// TestEraseNames: under a key that gives other names, or where the mark does not say which key it
// was, a task does not go on where an account is kept that it would not find, unless that was
// accepted, once.
func TestEraseNames(t *testing.T) {
	for _, test := range []struct {
		name, kept, found string
		end               int64 // of the mark: at 3 there is nothing to process
		accept            bool
		want              error
		says              string
	}{
		{"an account", "v0 at 1", "old", 1, false, ErrKept, "it was 6f6c64, now 4b"},
		{"an account, accepted", "v0 at 1", "old", 1, true, nil, ""},
		{"an account, accepted, nothing to do", "v0 at 1", "old", 3, true, nil, ""},
		{"a key that is not known", "v0 at 1", "", 1, false, ErrKept, "none (erased-accounts)"},
		{"no account", "at 1", "old", 1, false, nil, ""},
		{"the same names", "v0 at 1", "K", 1, false, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, purges := newScript(), 0
			s.committed = test.end
			s.changelog = []Message{
				{Key: []byte(KeptKey + ":bob"), Value: []byte(test.kept)},
				{
					Key:   markKey,
					Value: AppendMark(nil, Mark{Input: test.end, Names: []byte(test.found)}),
				},
			}
			start := func(accept bool) error {
				o := Options{Settings: []byte("S"), Names: []byte("K"), AcceptLost: accept}
				return s.runWith(t, scriptInput{s}, o, func(d *Dependencies) {
					d.Store, d.Eraser = erasingStore{scriptStore{s}, &purges}, scriptEraser{}
				})
			}
			err := start(test.accept)
			if !errors.Is(err, test.want) || err != nil && RemedyOf(err) != Fatal {
				t.Fatalf("it ends with %v, want %v", err, test.want)
			}
			if test.want != nil {
				if says := strings.Contains(err.Error(), test.says); !says ||
					len(strings.Fields(err.Error())) >= 30 {
					t.Errorf("%q, want %q in less than 30 words", err, test.says)
				}
				return
			}
			if m := s.lastMark(t); string(m.Names) != "K" {
				t.Errorf("the last mark is %+v", m)
			}
			if err := start(false); err != nil {
				t.Errorf("the next start ends with %v", err)
			}
		})
	}
}
