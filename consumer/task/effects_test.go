package task

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// script is a dependency of every kind that writes down each call and answers
// as it is told. It is the smallest world: no faults but those asked for.
type script struct {
	NopObserver
	lines []string
	fail  map[string]error // by call
	wait  map[string]int   // how many calls go well before that

	committed  int64
	changelog  []Message
	pending    []Message
	positions  Positions
	found      bool
	states     map[string]string
	input      []Record
	first, end int64
	cut        int64 // where the changelog begins
	cancel     context.CancelFunc
	now        time.Time
	ends       bool // cancel when the input is used up
	restored   Restore
	key        func(Record) (key []byte, read any, err error)
	read       any // the last record's
	parted     Partitioned
	late       bool // what runs beside the task makes its calls when it is waited for
}

func newScript() *script {
	s := &script{
		fail: map[string]error{}, wait: map[string]int{}, committed: none,
		states: map[string]string{}, now: time.UnixMilli(1_000_000), ends: true,
	}
	for i, key := range []string{"ann", "bob", "ann"} {
		s.input = append(s.input,
			Record{
				Offset: int64(i), Timestamp: int64(100 + i), Key: []byte(key),
				Value: fmt.Appendf(nil, "v%d", i),
			})
	}
	s.end = int64(len(s.input))
	return s
}

func (s *script) note(call, format string, args ...any) error {
	s.lines = append(s.lines, strings.TrimSpace(call+" "+fmt.Sprintf(format, args...)))
	if s.wait[call] > 0 {
		s.wait[call]--
		return nil
	}
	err := s.fail[call]
	delete(s.fail, call)
	return err
}

func (s *script) run(t *testing.T, o Options) error {
	t.Helper()
	return s.runOn(t, scriptInput{s}, o)
}

func (s *script) runOn(t *testing.T, input Log, o Options) error {
	t.Helper()
	return s.runWith(t, input, o, func(*Dependencies) {})
}

// runWith is runOn with other dependencies.
func (s *script) runWith(t *testing.T, input Log, o Options, change func(*Dependencies)) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.cancel = cancel
	o.Name, o.Clock, o.Observer = "raw/0", s, s
	d := Dependencies{
		Input: input, Changelog: scriptChangelog{s}, Transactions: scriptTxn{s},
		Store: scriptStore{s}, Processor: s, Key: s.key,
		Partitioned: s.parted,
	}
	change(&d)
	task, err := New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	task.beside = s.beside
	return task.Run(ctx)
}

// beside makes the calls at once, or late.
func (s *script) beside(work func()) errand {
	e := &scriptErrand{work: work}
	if !s.late {
		e.wait()
	}
	return e
}

type scriptErrand struct{ work func() }

func (e *scriptErrand) done() bool { return e.work == nil }

func (e *scriptErrand) wait() {
	if e.work != nil {
		e.work()
		e.work = nil
	}
}

func (s *script) Now() time.Time { return s.now }

func (s *script) Sleep(ctx context.Context, d time.Duration) error {
	s.now = s.now.Add(d)
	_ = s.note("clock.sleep", "%v", d)
	return ctx.Err()
}

func (s *script) Moved(_, to State) { s.lines = append(s.lines, "-- "+to.String()) }

func (s *script) Restored(r Restore) { s.restored = r }

func (s *script) Process(rec Record, state []byte, fx *Effects) error {
	s.read = rec.Read
	fx.Output = append(fx.Output,
		Message{
			Key: rec.Key, Value: append([]byte("out:"), rec.Value...),
			Timestamp: rec.Timestamp,
		})
	fx.State, fx.Time = fmt.Appendf(nil, "%s+%s", state, rec.Value), rec.Timestamp
	return s.note("process", "%s=%s state %q", rec.Key, rec.Value, state)
}

type scriptInput struct{ s *script }

func (l scriptInput) Bounds(context.Context) (int64, int64, error) {
	return l.s.first, l.s.end, l.s.note("input.bounds", "")
}

func (l scriptInput) Fetch(_ context.Context, offset int64, _ time.Duration) (Batch, error) {
	if err := l.s.note("input.fetch", "%d", offset); err != nil {
		return Batch{}, err
	}
	b := Batch{Next: max(offset, l.s.end), StableEnd: l.s.end}
	for _, rec := range l.s.input {
		if rec.Offset >= offset {
			b.Records = append(b.Records, rec)
		}
	}
	if len(b.Records) == 0 && l.s.ends && offset == max(l.s.committed, 0) {
		l.s.cancel()
	}
	return b, nil
}

type scriptChangelog struct{ s *script }

func (l scriptChangelog) Bounds(context.Context) (int64, int64, error) {
	return l.s.cut, int64(len(l.s.changelog)), l.s.note("changelog.bounds", "")
}

func (l scriptChangelog) Fetch(_ context.Context, offset int64, _ time.Duration) (Batch, error) {
	if err := l.s.note("changelog.fetch", "%d", offset); err != nil {
		return Batch{}, err
	}
	b := Batch{Next: int64(len(l.s.changelog)), StableEnd: int64(len(l.s.changelog))}
	for i := offset; i < b.Next; i++ {
		m := l.s.changelog[i]
		b.Records = append(b.Records, Record{Offset: i, Key: m.Key, Value: m.Value})
	}
	return b, nil
}

// High is the end, and the time that it takes to ask for it.
func (l scriptInput) High(context.Context) (int64, error) {
	defer func() { l.s.now = l.s.now.Add(time.Second) }()
	return l.s.end, l.s.note("input.high", "at %d", l.s.now.UnixMilli())
}

type scriptTxn struct{ s *script }

func (x scriptTxn) Fence(context.Context) error { return x.s.note("txn.fence", "") }
func (x scriptTxn) Abort(context.Context) error { return x.s.note("txn.abort", "") }

func (x scriptTxn) Committed(context.Context) (int64, bool, error) {
	return x.s.committed, x.s.committed != none, x.s.note("txn.committed", "%d", x.s.committed)
}

func (x scriptTxn) Produce(_ context.Context, out Outputs) (int64, error) {
	for _, m := range out.Output {
		x.s.lines = append(x.s.lines,
			fmt.Sprintf("  output %s=%s @%d%s", m.Key, m.Value, m.Timestamp, printTarget(m.To)))
	}
	var changes []Message
	for _, m := range out.Changelog {
		value := fmt.Sprintf("%q", m.Value)
		if string(m.Key) == MarkKey {
			value = printMark(m.Value)
		}
		x.s.lines = append(x.s.lines,
			fmt.Sprintf("  changelog %q=%s @%d", m.Key, value, m.Timestamp))
		changes = append(changes, clone(m))
	}
	if err := x.s.note("txn.produce", ""); err != nil {
		return 0, err
	}
	x.s.pending = changes
	return int64(len(x.s.changelog) + len(changes)), nil
}

func (x scriptTxn) Commit(_ context.Context, next int64) (int64, error) {
	if err := x.s.note("txn.commit", "%d", next); err != nil {
		return 0, err
	}
	x.s.committed = next
	x.s.changelog = append(x.s.changelog, x.s.pending...)
	return int64(len(x.s.changelog)), nil
}

// printTarget says nothing of the input's own number.
func printTarget(to Target) string {
	if to == 0 {
		return ""
	}
	return fmt.Sprintf(" to partition %d", to.Partition(0))
}

func printMark(value []byte) string {
	m, err := DecodeMark(value)
	if err != nil {
		return err.Error()
	}
	state := "closed"
	if m.Open {
		state = "open"
	}
	return fmt.Sprintf("%d %s, %q since %d of %q from %d", m.Input, state, m.Settings, m.Since,
		m.Source, m.Origin) + printVersions(m)
}

func printVersions(m Mark) string {
	var b strings.Builder
	for _, v := range m.Versions {
		fmt.Fprintf(&b, ", %s from %d", v.Name, v.From)
	}
	return b.String()
}

type scriptStore struct{ s *script }

func (x scriptStore) Positions() (Positions, bool, error) {
	return x.s.positions, x.s.found, x.s.note("store.positions", "")
}

func (x scriptStore) Get(key []byte) ([]byte, error) {
	return []byte(x.s.states[string(key)]), x.s.note("store.get", "%s",
		strings.ReplaceAll(string(key), "\x00", `\x00`))
}

func (x scriptStore) Reserved(name string, visit func(key, value []byte) error) error {
	return x.list(visit, func(key string) bool { return strings.HasPrefix(key, name) })
}

func (x scriptStore) After(after []byte, visit func(key, value []byte) error) error {
	return x.list(visit, func(key string) bool {
		return ValidKey([]byte(key)) && key > string(after)
	})
}

func (x scriptStore) list(
	visit func(key, value []byte) error, wanted func(key string) bool,
) error {
	for _, key := range slices.Sorted(maps.Keys(x.s.states)) {
		if value := x.s.states[key]; wanted(key) && value != "" {
			if err := visit([]byte(key), []byte(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x scriptStore) Apply(changes []Change, p Positions) error {
	x.s.positions, x.s.found = p, true
	for _, c := range changes {
		x.s.states[string(c.Key)] = string(c.Value)
	}
	return x.s.note("store.apply", "%d changes, input %d, changelog %d", len(changes), p.Input,
		p.Changelog)
}

func (x scriptStore) Wipe() error {
	clear(x.s.states)
	x.s.found = false
	return x.s.note("store.wipe", "")
}

// scriptPartitioned waits for two times: one that is past a skew before, and one a moment after it.
// Its states are how many were passed, and one by the name of the last one. After the second one
// the states of keys that begin with v0 have expired.
type scriptPartitioned struct {
	*script
	state   string
	changes []Change
	expires bool
}

func (p *scriptPartitioned) Restored(states []Change) error {
	p.state, p.changes = "", nil
	for _, c := range states {
		if len(c.Key) == 0 {
			p.state = string(c.Value)
		}
	}
	p.expires = len(p.state) == 2
	return p.note("partition.restored", "%q", states)
}

func (p *scriptPartitioned) Changes() []Change {
	changes := p.changes
	p.changes = nil
	return changes
}

func (p *scriptPartitioned) Expires() func([]byte) bool {
	if !p.expires {
		return nil
	}
	p.expires = false
	return func(state []byte) bool { return strings.HasPrefix(string(state), "+v0") }
}

func (p *scriptPartitioned) Deadline() (int64, bool) {
	return 1_000_000 - 31_000 + int64(len(p.state))*1500, len(p.state) < 2
}

func (p *scriptPartitioned) Passed(ms int64, fx *Effects) error {
	p.changes = []Change{
		{Value: []byte(p.state + "x")}, {Key: fmt.Append(nil, ms), Value: []byte("last")},
	}
	if p.state != "" {
		p.changes = append(p.changes, Change{Key: fmt.Append(nil, ms-1500)})
	}
	p.state += "x"
	p.expires = len(p.state) == 2
	fx.Output = append(fx.Output, Message{
		Key: []byte("time"), Value: fmt.Append(nil, ms), Timestamp: ms, To: ToPartition(7),
	})
	return p.note("partition.passed", "%d", ms)
}

// TestEffects pins the order of calls in a golden file: a change of the protocol
// has to be seen in review.
func TestEffects(t *testing.T) {
	var b strings.Builder
	scene := func(title string, o Options, s *script) {
		s.lines = nil
		err := s.run(t, o)
		fmt.Fprintf(&b, "== %s\n%s\nrun returns %v (%v)\n\n", title, strings.Join(s.lines, "\n"),
			err, RemedyOf(err))
	}
	s := newScript()
	scene("a first start, one transaction, a clean stop", Options{}, s)
	scene("a start with nothing to do", Options{}, s)
	s.positions.Changelog = 1
	scene("a start with a store that lags", Options{}, s)
	s.found = false
	scene("a start with no store", Options{}, s)

	broken := func(call string, err error) *script {
		s := newScript()
		s.fail[call] = err
		if call != "process" {
			s.wait[call] = 1 // the mark alone goes well
		}
		return s
	}
	lost := errors.New("no answer")
	scene("produce fails once", Options{}, broken("txn.produce", lost))
	scene("produce is to be repeated", Options{}, broken("txn.produce", WithRemedy(lost, Retry)))
	scene("commit fails once", Options{}, broken("txn.commit", lost))
	scene("commit finds the worker fenced", Options{},
		broken("txn.commit", WithRemedy(lost, Leave)))
	full := broken("store.apply", errors.New("no space left on device"))
	full.wait["store.apply"] = 2 // at the end of the restore, and of the mark
	scene("the disk is full at apply", Options{MaxRecords: 1}, full)
	beside := func(s *script) *script {
		s.late = true
		return s
	}
	scene("a transaction beside the next", Options{MaxRecords: 1}, beside(newScript()))
	scene("its commit fails", Options{MaxRecords: 1}, beside(broken("txn.commit", lost)))
	scene("its commit is to be repeated", Options{MaxRecords: 1},
		beside(broken("txn.commit", WithRemedy(lost, Retry))))
	bad := broken("process", errors.New("bad model"))
	bad.wait["process"] = 1
	scene("a record of the next cannot be processed", Options{MaxRecords: 1}, beside(bad))
	scene("a record cannot be processed", Options{}, broken("process", errors.New("bad model")))
	scene("a first start at the latest offset", Options{Start: Latest}, newScript())
	scene("the first mark's commit fails once", Options{}, func() *script {
		s := broken("txn.commit", lost)
		s.wait["txn.commit"] = 0
		return s
	}())
	s = newScript()
	scene("an end", Options{End: 2, Settings: []byte("S"), Source: []byte("T")}, s)
	scene("an end that is reached", Options{End: 2, Settings: []byte("S"), Source: []byte("T")}, s)
	scene("other settings after a clean stop", Options{Settings: []byte("S2"), Source: []byte("T")},
		s)
	full = broken("store.apply", errors.New("no space left on device"))
	full.wait["store.apply"] = 2
	scene("a death under some settings", Options{Settings: []byte("S")}, full)
	scene("other settings after it", Options{Settings: []byte("S2")}, full)
	scene("other settings, accepted", Options{Settings: []byte("S2"), AcceptSettings: true}, full)
	s = newScript()
	versions := []Version{{100, []byte("v2")}, {2000, []byte("v3")}}
	scene("a first start with versions", Options{Settings: []byte("S"), Versions: versions}, s)
	scene("a version that has not begun is taken away",
		Options{Settings: []byte("S"), Versions: versions[:1]}, s)
	scene("a version is added", Options{Settings: []byte("S"), Versions: versions}, s)
	scene("a version is taken away", Options{Settings: []byte("S"), Versions: versions[1:]}, s)
	s = newScript()
	s.parted = &scriptPartitioned{script: s}
	scene("a partition is read past two times", Options{Skew: 30 * time.Second}, s)
	scene("a start with a state of the partition", Options{Skew: 30 * time.Second}, s)
	s = newScript()
	s.committed, s.changelog = 1, v2(Mark{Input: 1, Source: []byte("T")})
	scene("another source", Options{Source: []byte("T2")}, s)

	const golden = "testdata/effects.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("the order of effects has changed; look at it, then run: go test "+
			"./consumer/task -update\n%s", firstDifference(got, string(want)))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			old := "(end)"
			if i < len(w) {
				old = w[i]
			}
			return fmt.Sprintf("line %d: %s\nwant:   %s", i+1, g[i], old)
		}
	}
	return "the golden file goes on"
}
