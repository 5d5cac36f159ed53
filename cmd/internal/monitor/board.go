package monitor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/consumer/wire"
)

// Phase is where an instance is, or one of its partitions.
type Phase string

// The phases. A partition is joining before its task begins, and after it was lost. Fencing shuts
// out earlier owners, also after a failure. Starting, draining and failed are the instance's
// alone: it looks at its topics, was asked to stop, or ends with an error.
const (
	Starting  Phase = "starting"
	Joining   Phase = "joining"
	Fencing   Phase = "fencing"
	Restoring Phase = "restoring"
	Running   Phase = "running"
	Draining  Phase = "draining"
	Failed    Phase = "failed"
)

// partitionPhases are those that a partition can be in, in their order.
var partitionPhases = []Phase{Joining, Fencing, Restoring, Running}

// Board is what a service writes down of itself while it works, for others to read: its phases, its
// steps, how far it is. Writing is cheap, and nothing on it is of a user or of a single record. It
// is safe for concurrent use.
type Board struct {
	began    time.Time
	now      func() time.Time
	requests *requests
	commits  *commits

	groupStep atomic.Int64 // when the group's member made its last step; see since

	mu         sync.Mutex
	phase      Phase // Starting, Joining, Running (partitions are assigned), Draining or Failed
	generation int32
	assigned   []*Partition        // ascending
	working    map[*Partition]bool // whose tasks have not returned, also earlier ones
	standbys   map[*Standby]bool   // that have not ended
	rebalances int64
	lost       int64
	committed  time.Time
	watch      Watch
}

// Watch is what a board has to ask for. It must be safe for concurrent use.
type Watch struct {
	Away   func() time.Duration // how long Kafka has been away; 0: it is not
	Store  func() Store
	Models func() []Model // versions of the model, the first one first
}

// Store is how the local store of states is.
type Store struct {
	Bytes uint64 `json:"bytes"` // on the disk
	// Users are those with a state in an assigned partition, when they were counted last.
	Users int64 `json:"users"`
	// CountedAt is when Users were counted; zero: not yet. Bytes are those of now.
	CountedAt time.Time `json:"counted_at,omitzero"`
	// CacheHits and CacheMisses are how often a state was found in memory, or not, since the start.
	CacheHits   uint64 `json:"cache_hits"`
	CacheMisses uint64 `json:"cache_misses"`
}

// Model is a version of the model.
type Model struct {
	ID string `json:"id"`
	// From is when it starts, in the time of fixes; missing for the first one.
	From time.Time `json:"from,omitzero"`
}

// NewBoard returns the board of an instance that starts.
func NewBoard() *Board { return newBoard(time.Now) }

func newBoard(now func() time.Time) *Board {
	return &Board{
		began: now(), now: now, requests: newRequests(), commits: newCommits(), phase: Starting,
		working: map[*Partition]bool{}, standbys: map[*Standby]bool{},
		watch: Watch{
			func() time.Duration { return 0 }, func() Store { return Store{} },
			func() []Model { return []Model{} },
		},
	}
}

// Watch gives the board what it has to ask for.
func (b *Board) Watch(w Watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch = w
}

// since is the time since the board began, which no change of the clock moves.
func (b *Board) since() int64 { return int64(b.now().Sub(b.began)) }

// Joining says that the instance asks the group for partitions.
func (b *Board) Joining() {
	b.stepGroup()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Joining)
	for _, p := range b.assigned {
		p.phase = Joining
	}
}

// Assigned says that a generation of the group begins, in which the instance has some partitions.
// Each is in phase joining until Begin, except those whose tasks go on.
func (b *Board) Assigned(generation int32, partitions []int32) {
	b.stepGroup()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Running)
	b.generation = generation
	b.rebalances++
	last := b.assigned
	b.assigned = nil
	for _, n := range partitions {
		p := &Partition{board: b, number: n, phase: Joining}
		for _, old := range last {
			if old.number == n && b.working[old] {
				p = old
			}
		}
		b.assigned = append(b.assigned, p)
	}
	slices.SortFunc(b.assigned, func(x, y *Partition) int { return int(x.number - y.number) })
}

// Draining says that the instance was asked to stop, and ends what it has in hand.
func (b *Board) Draining() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Draining)
}

// Failed says that the instance ends with an error.
func (b *Board) Failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(Failed)
}

// move goes to another phase, unless the instance is about to end.
func (b *Board) move(to Phase) {
	if b.phase != Failed && (b.phase != Draining || to == Failed) {
		b.phase = to
	}
}

// Requested counts a request to a broker.
func (b *Board) Requested(o wire.Outcome) { b.requests.add(o) }

// GroupRequested says that the group's member has made a step: a request was answered, or failed.
func (b *Board) GroupRequested(wire.Outcome) { b.stepGroup() }

func (b *Board) stepGroup() { b.groupStep.Store(b.since()) }

// Lost says that a partition was lost while its task worked: another instance has fenced it, or
// the group has gone on without this one.
func (b *Board) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost++
}

// Begin says that the task of an assigned partition begins. Its caller calls End when the task has
// returned.
func (b *Board) Begin(number int32) *Partition {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.assigned, func(p *Partition) bool { return p.number == number })
	p := &Partition{board: b, number: number, phase: Fencing}
	if i >= 0 { // else the lease is over already
		b.assigned[i] = p
	}
	p.Step()
	b.working[p] = true
	return p
}

// Restored returns the assigned partitions whose states are up to date.
func (b *Board) Restored() (numbers []int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.assigned {
		if p.phase == Running {
			numbers = append(numbers, p.number)
		}
	}
	return numbers
}

// Partition is the part of the board that a partition's task writes.
type Partition struct {
	board  *Board
	number int32
	step   atomic.Int64 // when the task made its last step; see Board.since
	latest atomic.Int64 // Kafka timestamp of the last record processed, in milliseconds; 0: none

	// Under the board's lock.
	phase         Phase
	restoring     bool  // also where the phase is joining
	next, stable  int64 // offsets: where reading goes on, and the last stable one
	fetched       bool  // they are known
	from, at, end int64 // offsets of the changelog, of a restoration
}

// End says that the task has returned. A partition whose task has returned waits for the group.
func (p *Partition) End() {
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.phase = Joining
	delete(p.board.working, p)
}

// Requested says that a request of the task was answered, or has failed.
func (p *Partition) Requested(wire.Outcome) { p.Step() }

// Step says that the task has made a step of whatever sort.
func (p *Partition) Step() { p.step.Store(p.board.since()) }

// Move says in which phase the task is.
func (p *Partition) Move(to Phase) {
	p.Step()
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	if p.phase != Joining { // that of a task that has returned does not matter any more
		p.phase = to
	}
	p.restoring = to == Restoring
	p.from, p.at, p.end = 0, 0, 0
}

// Restoring says how far a restoration is, in offsets of the changelog.
func (p *Partition) Restoring(from, at, end int64) {
	p.Step()
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.from, p.at, p.end = from, at, end
}

// Fetched says at which offset reading goes on, and where the committed records end by now.
func (p *Partition) Fetched(next, stable int64) {
	p.Step()
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.next, p.stable, p.fetched = next, stable, true
}

// Processed says that a record of a Kafka timestamp, in milliseconds, was processed.
func (p *Partition) Processed(timestampMS int64) {
	p.latest.Store(timestampMS)
	p.Step()
}

// Committed says that a transaction is committed: how many records it had, and how long it took
// from the first of them.
func (p *Partition) Committed(records int, took time.Duration) {
	p.Step()
	p.board.commits.add(records, took)
	p.board.mu.Lock()
	defer p.board.mu.Unlock()
	p.board.committed = p.board.now()
}

// Standby is the part of the board that a standby of a partition writes.
type Standby struct {
	board *Board
	view  standbyView // under the board's lock
}

// Standby says that a standby of another instance's partition begins. Its caller calls End when it
// has returned.
func (b *Board) Standby(number int32) *Standby {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &Standby{board: b, view: standbyView{number: number}}
	b.standbys[s] = true
	return s
}

// Following says how far the copy is, and where the changelog ends; and whether the standby leaves
// the copy as it is.
func (s *Standby) Following(at, end int64, waits bool) {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	s.view.lag, s.view.read, s.view.waits = max(0, end-at), s.view.read || !waits, waits
}

// End says that the standby has returned.
func (s *Standby) End() {
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	delete(s.board.standbys, s)
}

// standbyView is what the board says of a standby at one time.
type standbyView struct {
	number int32
	lag    int64 // offsets of the changelog
	read   bool  // the lag is known
	waits  bool
}

// view is what the board says at one time.
type view struct {
	phase            Phase // of the instance as a whole
	ready            bool
	generation       int32
	partitions       []partitionView // ascending
	standbys         []standbyView   // ascending
	rebalances, lost int64
	committed        time.Time // zero: not yet
	away             time.Duration
	store            Store
	models           []Model
}

// partitionView is what the board says of an assigned partition at one time.
type partitionView struct {
	number          int32
	phase           Phase
	next, stable    int64
	lag             int64 // records, at most: offsets
	lagSeconds      float64
	read            bool  // the four above are known, and are about now
	restored, total int64 // offsets of the changelog; 0 outside of a restoration
}

// look returns what the board says now.
func (b *Board) look() view {
	b.mu.Lock()
	w := b.watch
	b.mu.Unlock()
	// Outside of the lock: they may write to the board.
	v := view{away: w.Away(), store: w.Store(), models: w.Models()}
	b.mu.Lock()
	defer b.mu.Unlock()
	v.generation, v.rebalances, v.lost = b.generation, b.rebalances, b.lost
	v.phase, v.committed = b.phase, b.committed
	first := Running // the phase that is furthest from running
	for _, p := range b.assigned {
		at := p.look(b.now())
		v.partitions = append(v.partitions, at)
		if slices.Index(partitionPhases, at.phase) < slices.Index(partitionPhases, first) {
			first = at.phase
		}
	}
	for s := range b.standbys {
		v.standbys = append(v.standbys, s.view)
	}
	slices.SortFunc(v.standbys, func(x, y standbyView) int { return int(x.number - y.number) })
	if v.phase == Running {
		v.phase = first
	}
	v.ready = v.phase == Running && v.away == 0
	return v
}

// look is called under the board's lock.
func (p *Partition) look(now time.Time) partitionView {
	v := partitionView{
		number: p.number, phase: p.phase, restored: p.at - p.from, total: p.end - p.from,
	}
	if p.phase != Running || !p.fetched {
		return v
	}
	v.read, v.next, v.stable = true, p.next, p.stable
	v.lag = max(0, p.stable-p.next)
	if latest := p.latest.Load(); v.lag > 0 && latest > 0 {
		v.lagSeconds = max(0, now.Sub(time.UnixMilli(latest)).Seconds())
	}
	return v
}

// stalled returns who has made no step for a limit, and for how long in seconds: a partition's
// task, by its number, or the group's member. Nobody is stalled while the instance starts, and no
// task while it restores: a restart would begin that again.
func (b *Board) stalled(limit time.Duration) map[string]float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[string]float64{}
	if b.phase == Starting {
		return found
	}
	now := b.since()
	check := func(name string, step int64) {
		if idle := time.Duration(now - step); idle > limit {
			found[name] = idle.Seconds()
		}
	}
	check("group", b.groupStep.Load())
	for p := range b.working {
		if !p.restoring {
			check(fmt.Sprintf("partition %d", p.number), p.step.Load())
		}
	}
	return found
}
