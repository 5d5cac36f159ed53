package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// world is a broker with a group's coordinator, three machines with a store
// each, an operator, and a clock. Tasks run as coroutines that give way at each
// call, one at a time: whatever happens is a function of the seed, or of a plan.
type world struct {
	rng    *rand.Rand
	now    time.Time
	faults int // that may still happen
	// idleFaults may still happen where an idle task passes times: by then the others are used up.
	idleFaults int
	passing    bool    // what was passed last is not known to be committed
	plan       []point // instead of random ones, if not nil
	smooth     bool    // none ever happens
	calls      int
	counts     map[string]int // calls by name
	lives      int

	input, output, dead, changelog simLog
	committed                      int64 // the group's offset, none if there is none
	generation                     int
	epoch                          int
	open                           *node // whose transaction is open
	deciding                       bool  // its commit is decided, but not carried out
	offset                         int64 // what it commits
	stale                          int64 // what Committed still answers, for staleReads calls
	staleReads                     int
	staled                         bool // it has answered so, once at least

	stores [3]*simStore
	nodes  [3]*node // the task that is alive on each machine
	owner  *node    // the one of the current generation; nil: nobody

	// What the operator has set. A task keeps what it was started with.
	settings int
	unnamed  bool // the settings have no name
	accept   bool
	skip     bool
	end      int64

	logID      int     // of the changelog; another one each time that it is made
	backup     *simLog // the changelog as it was before it was lost; nil: it is not
	acceptLost bool    // the operator lets the next tasks go on without it
	emptied    []int64 // input offsets at which the states began empty, accepted

	mark      Mark // the last committed one
	marked    bool
	versions  []Version // the operator's list
	put       int       // how many were ever put up
	made      []string  // versions that each input record was processed with
	fate      []int     // settings of each input record, or unseen, or skipped
	lost      bool      // the task has skipped lost records
	accepted  bool      // somebody has accepted two releases of a record
	trusting  bool      // a mark's versions are not looked at when it is committed
	done      bool      // the input is used up and its owner is told to stop
	finished  bool      // and has stopped
	violation error     // the first broken invariant
	mutant    mutant
	parted    bool           // the processor has a state of the partition
	quiet     int            // calls for which nothing arrives
	closedBy  map[int]int    // the settings under which each window was closed
	events    map[string]int // how often what happened
	points    func(n *node, name string, f fault)
}

type crashed struct{}

var errAnswer = errors.New("no answer from the broker")

const tombstonesMS = 24 * 3600 * 1000

// Fates of an input record that are not settings.
const (
	unseen  = -1
	skipped = -2
)

func newWorld(seed uint64, faults bool) *world {
	// The input comes from a stream of its own, so that a run without faults
	// has the same one.
	data := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 2)), now: time.UnixMilli(1_700_000_000_000),
		committed: none, stores: [3]*simStore{{}, {}, {}}, events: map[string]int{},
		counts: map[string]int{}, closedBy: map[int]int{},
		parted: rand.New(rand.NewPCG(seed, 3)).IntN(2) == 0,
		points: func(*node, string, fault) {},
	}
	w.output.visible, w.dead.visible, w.changelog.visible = -1, -1, -1
	keys := []string{"a", "b", "c", "dd", "eee", "", "\x00input"}
	for range 15 + data.IntN(40) {
		key := keys[data.IntN(len(keys)-2*data.IntN(2))]
		value := make([]byte, 1+data.IntN(6))
		for i := range value {
			value[i] = byte(data.Uint32())
		}
		m := Message{Key: []byte(key), Value: value, Timestamp: int64(data.IntN(1000))}
		w.input.append([]status{
			plain, plain, plain, plain, plain, plain, aborted,
			control,
		}[data.IntN(8)], m)
		w.fate, w.made = append(w.fate, unseen), append(w.made, "")
	}
	if data.IntN(4) == 0 { // the input begins with aborted transactions
		for i := range data.IntN(12) {
			w.input.entries[i].status = aborted
		}
	}
	if data.IntN(5) == 0 {
		w.end = 1 + data.Int64N(int64(len(w.fate)))
	}
	if faults {
		w.faults, w.idleFaults = w.rng.IntN(18), w.rng.IntN(4)
		w.unnamed = w.rng.IntN(8) == 0
		w.skip = w.rng.IntN(8) == 0
	}
	w.smooth = w.faults+w.idleFaults == 0
	return w
}

func (w *world) violated(format string, args ...any) {
	if w.violation == nil {
		w.violation = fmt.Errorf(format, args...)
	}
}

// background is what goes on whatever the tasks do.
func (w *world) background() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(40)) * time.Millisecond)
	w.arrive(int64(w.rng.IntN(5)))
	if w.deciding && w.rng.IntN(6) == 0 {
		w.complete()
	}
	if w.rng.IntN(200) == 0 {
		w.putUp()
	}
	if w.rng.IntN(8) == 0 {
		w.changelog.compact(w.now.UnixMilli(), tombstonesMS)
		if w.rng.IntN(2) == 0 {
			w.changelog.trim()
		}
	}
	if w.rng.IntN(30) == 0 && !w.smooth {
		w.retain(max(w.committed, 0)) // old records go
	}
	for _, s := range w.stores {
		if w.rng.IntN(10) == 0 {
			s.synced = len(s.applied)
		}
	}
}

// retain removes input records before an offset, at most.
func (w *world) retain(before int64) {
	w.input.first = max(w.input.first, w.rng.Int64N(min(before, w.input.visible)+1))
	w.input.held = w.input.held && w.input.first <= w.input.heldAt
}

// assign makes a new generation and starts a task for it on a free machine. The
// one that ran so far has not heard of it: its member is out, or is in the new
// generation and has yet to learn that it gave the partition away.
func (w *world) assign() {
	var free []int
	for i, n := range w.nodes {
		if n == nil {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return // until a zombie ends
	}
	w.generation++
	w.lives++
	if n := w.owner; n != nil && w.rng.IntN(2) == 0 {
		n.generation, n.replaced = w.generation, true
	}
	w.owner = w.start(free[w.rng.IntN(len(free))])
}

// run lets tasks live and die until the input is used up, and the last zombie
// has ended.
func (w *world) run() error {
	const lives = 100
	for w.violation == nil {
		if w.owner == nil && !w.finished {
			if w.lives++; w.lives > lives {
				w.violated("not done after %d lives", lives)
				break
			}
			w.assign()
		}
		n := w.next()
		if n == nil {
			break
		}
		if n.resume() {
			continue
		}
		w.nodes[n.where] = nil
		err := w.ended(n)
		if err != nil {
			w.violated("Run ended with remedy %v: %w", RemedyOf(err), err)
		}
	}
	for _, n := range w.nodes {
		if n != nil {
			n.kill()
		}
	}
	if w.violation != nil {
		return w.violation
	}
	return w.check()
}

// next is the task that makes the next step; nil if none is alive.
func (w *world) next() *node {
	var alive, awake []*node
	for _, n := range w.nodes {
		if n == nil {
			continue
		}
		alive = append(alive, n)
		if w.finished {
			n.cancel() // the zombies hear of it at last
		}
		if n.paused > 0 && !w.finished {
			n.paused--
			continue
		}
		awake = append(awake, n)
	}
	switch {
	case len(alive) == 0:
		return nil
	case len(awake) == 0:
		awake = alive
	}
	return awake[w.rng.IntN(len(awake))]
}

// ended is what the coordinator and the operator do when a task has ended. It
// answers with an error that must not happen.
func (w *world) ended(n *node) error {
	if w.owner == n {
		w.owner = nil
		w.generation++
		if !n.crash && n.err == nil && (w.done || !n.told) {
			w.finished = true
		}
	}
	if n.crash || n.err == nil || RemedyOf(n.err) == Leave {
		return nil
	}
	switch {
	case RemedyOf(n.err) != Fatal:
	case errors.Is(n.err, ErrStore), errors.Is(n.err, errAnswer):
		return nil
	case errors.Is(n.err, ErrLost):
		return w.recover(n)
	case errors.Is(n.err, ErrDiverged) && n.logID != w.logID:
		// It slept through the loss of its changelog, with doubts from before.
		w.events["lost: another id"]++
		return nil
	case errors.Is(n.err, ErrInputLost):
		w.events["input lost"]++
		w.skip = true
		return nil
	case errors.Is(n.err, ErrVersions):
		w.events["versions refused"]++
		w.versions = w.mark.Versions
		return nil
	case errors.Is(n.err, ErrSettings):
		w.events["settings refused"]++
		if w.rng.IntN(4) == 0 {
			w.accept, w.accepted = true, true
			return nil
		}
		// As the message says: the old ones first.
		w.versions = w.mark.Versions
		if w.unnamed {
			w.events["a version more refused"]++
			return nil
		}
		old, err := strconv.Atoi(string(w.mark.Settings))
		if old == w.settings {
			w.events["a version more refused"]++
		}
		w.settings = old
		return err
	}
	return n.err
}

// complete carries out the commit that is decided, or aborts what is open.
func (w *world) complete() {
	to := aborted
	if w.deciding {
		to = plain
		if w.rng.IntN(4) == 0 && w.faults > 0 && w.logID == 0 {
			w.stale, w.staleReads, w.staled = w.committed, 1+w.rng.IntN(2), true
		}
		w.book()
		w.committed = w.offset
	}
	for _, l := range []*simLog{&w.output, &w.dead, &w.changelog} {
		l.resolve(to)
	}
	if w.backup != nil {
		w.backup.resolve(to)
	}
	w.open, w.deciding, w.offset = nil, false, none
}

// book writes down what a transaction that is being committed has processed, and
// checks its mark.
func (w *world) book() {
	value := w.changelog.pendingMark()
	if value != nil && w.backup != nil {
		w.bookLoss()
	} else if value == nil && w.backup != nil {
		value = w.backup.pendingMark() // it was there when the topic was deleted
	}
	if value == nil {
		w.violated("a transaction without a mark is committed")
		return
	}
	m, err := DecodeMark(value)
	if err != nil || m.Input != w.offset {
		w.violated("the mark says %+v, %v, the transaction commits %d", m, err, w.offset)
		return
	}
	m = m.Clone()
	from := w.mark.Input
	if m.Origin > from && m.Origin != w.mark.Origin {
		if m.Origin > w.input.first {
			w.violated("skipped to %d, the input begins at %d", m.Origin, w.input.first)
		}
		// The states lack what was lost; what comes next may have been seen with it.
		w.accepted = w.accepted || w.mark.Open
		for ; from < m.Origin; from++ {
			w.fate[from] = skipped
		}
		w.lost = w.lost || w.marked
	}
	for at := from; at < min(m.Input, int64(len(w.fate))); at++ {
		w.fate[at] = w.open.settings
	}
	w.bookVersions(m, from)
	w.bookClosed()
	since := max(w.mark.Since, m.Origin)
	if string(m.Settings) != string(w.mark.Settings) {
		// Such a mark is alone, and all after the last mark is made under its settings.
		since = max(from, m.Origin)
		if m.Input > since && !w.marked && !w.lost {
			w.events["aborted input first"]++
		}
	}
	if m.Since != since || m.Since < w.mark.Since {
		w.violated("the mark %+v says since %d, want %d", m, m.Since, since)
	}
	for at := max(m.Since, 0); at < min(m.Input, int64(len(w.fate))); at++ {
		if w.fate[at] != w.open.settings && len(m.Settings) > 0 &&
			w.input.entries[at].status == plain {
			w.violated("the mark %+v says since %d, but %d was made under settings %d", m, m.Since,
				at, w.fate[at])
		}
	}
	if m.Lost != w.lost {
		w.violated("the mark %+v, records were skipped: %v", m, w.lost)
	}
	w.mark, w.marked = m, true
}
