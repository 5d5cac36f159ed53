package verify

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/noise"
)

// RerunOptions say what the first run depended on.
type RerunOptions struct {
	engine.Settings
	Partition engine.Partition
	States    *Map            // user → raw offset of the last change, state
	Refused   *engine.Offsets // raw records that were refused for their day; nil: not known
	Erased    Erased          // users who were erased; nil: nobody
	// Misplaced are the raw records before Until that were refused for their partition.
	Misplaced *engine.Offsets
	Until     int64
	// Skip, if set, is asked of each user. One who is skipped counts as new in each record, and has
	// no state.
	Skip func(user []byte) (bool, error)
	// Progress is told now and then which raw record is next.
	Progress func(at int64)
}

// Recomputed is what comes of one raw record. It is valid during the call that shows it.
type Recomputed struct {
	*task.Effects
	Offset  int64 // of the raw record
	Skipped bool  // its user was
	Tally   engine.Tally
}

// Rerun recomputes one partition. Not for concurrent use.
type Rerun struct {
	o         RerunOptions
	processor *engine.Processor
	erasures  *erasures
	fx        task.Effects
}

// NewRerun returns a run that has processed nothing yet.
func NewRerun(o RerunOptions) (*Rerun, error) {
	processor, err := engine.NewProcessor(o.Settings, o.Partition)
	if err != nil {
		return nil, err
	}
	processor.Refuse(o.Refused)
	processor.Misplace(o.Misplaced, o.Until)
	return &Rerun{o: o, processor: processor, erasures: newErasures(o.Key, o.Erased)}, nil
}

// OnePartitioner says whether RerunOptions.Misplaced are what some partitioner refuses, as far as
// the records have been read: see engine.Processor.
func (r *Rerun) OnePartitioner() bool { return r.processor.OnePartitioner() }

// progressEvery is the number of records between two reports of progress.
const progressEvery = 256

// Read processes the raw records of a range and shows what comes of each. An error of show ends the
// reading.
func (r *Rerun) Read(ctx context.Context, raw *topics.Reader, from, to int64,
	show func(Recomputed) error,
) error {
	return raw.Scan(ctx, from, to, func(rec consumer.Record) error {
		if rec.Offset%progressEvery == 0 {
			r.o.Progress(rec.Offset)
		}
		result, err := r.step(topics.Record(rec))
		if err != nil {
			return err
		}
		return show(result)
	})
}

// step processes one raw record on its user's state.
func (r *Rerun) step(record task.Record) (Recomputed, error) {
	result := Recomputed{Offset: record.Offset}
	user, read, err := r.processor.Key(record)
	if err == nil && r.o.Skip != nil {
		result.Skipped, err = r.o.Skip(user)
	}
	if err != nil {
		return result, err
	}
	keep := !result.Skipped
	var before []byte
	var recalled string
	if keep && task.ValidKey(user) {
		before, recalled, err = r.erasures.state(user, record.Offset, r.o.States)
		if err != nil {
			return result, err
		}
	}
	record.Read = read
	r.fx = task.Effects{Output: r.fx.Output[:0], DeadLetters: r.fx.DeadLetters[:0]}
	if err := r.processor.Process(record, before, &r.fx); err != nil {
		return result, err
	}
	result.Effects = &r.fx
	result.Tally, _ = r.processor.Take()
	if !keep || len(r.fx.State) == 0 {
		return result, nil
	}
	if err := r.o.States.Put(user, record.Offset, r.fx.State); err != nil || recalled == "" {
		return result, err
	}
	return result, r.erasures.recalled(recalled)
}

// Finish carries out the erasures up to a raw offset of users without a later record. It returns
// how many of the accounts that a changelog keeps of erased users are not the recomputed ones.
func (r *Rerun) Finish(offset int64, listed Erased) (differ int, err error) {
	e, states := r.erasures, r.o.States
	if e == nil {
		return 0, nil
	}
	if err := states.Flush(); err != nil {
		return 0, err
	}
	var users [][]byte
	err = states.Each(func(user []byte, _ int64, _ []byte) error {
		if _, erased := listed[string(e.names.Kept(user))]; erased {
			users = append(users, bytes.Clone(user))
		}
		return nil
	})
	for _, user := range users {
		if err != nil {
			return 0, err
		}
		var state []byte
		if _, state, err = states.Get(user); err == nil {
			_, err = e.apply(string(e.names.Kept(user)), user, slices.Clone(state), offset, listed,
				states)
		}
	}
	for key, kept := range listed {
		own, problem := engine.DecodeKept(e.kept[key])
		if problem != nil {
			return differ, problem
		}
		if !bytes.Equal(own.Account, kept.Account) {
			differ++
		}
	}
	return differ, err
}

// erasures erases users in a recomputation where they were erased in the first release.
type erasures struct {
	names *engine.Eraser
	all   Erased
	done  map[string]int    // erasures that were carried out, by key
	kept  map[string][]byte // what remains, recomputed
}

// newErasures returns nil if nobody was erased.
func newErasures(key noise.Key, all Erased) *erasures {
	if len(all) == 0 {
		return nil
	}
	return &erasures{
		names: engine.NewEraser(key), all: all, done: map[string]int{}, kept: map[string][]byte{},
	}
}

// state returns the state with which a raw record is processed, and the key under which the account
// of an erased user lies if the state was made from it.
func (e *erasures) state(user []byte, offset int64, states *Map) (state []byte, from string,
	err error,
) {
	_, state, err = states.Get(user)
	if err != nil || e == nil {
		return state, "", err
	}
	key := string(e.names.Kept(user))
	if _, erased := e.all[key]; !erased {
		return state, "", nil
	}
	if state, err = e.apply(key, user, state, offset, e.all, states); err != nil || len(state) > 0 {
		return state, "", err
	}
	state, _, err = e.names.Recall(e.kept[key])
	return state, key, err
}

// apply carries out a user's erasures up to a raw offset, and returns the state then.
func (e *erasures) apply(key string, user, state []byte, offset int64, listed Erased,
	states *Map,
) ([]byte, error) {
	list := listed[key].Erasures
	for e.done[key] < len(list) && list[e.done[key]].Offset <= offset {
		x := list[e.done[key]]
		e.done[key]++
		kept, err := e.names.Erase(task.Request{Key: user, Reset: x.Reset}, x.Offset, state,
			e.kept[key])
		if err == nil {
			err = states.Remove(user)
		}
		if err != nil {
			return nil, err
		}
		e.kept[key], state = bytes.Clone(kept), nil
	}
	return state, nil
}

// recalled notes that an account went over to a new state.
func (e *erasures) recalled(key string) error {
	_, remains, err := e.names.Recall(e.kept[key])
	if len(remains) > 0 {
		e.kept[key] = bytes.Clone(remains)
	}
	return err
}

// Progress adds up how far partitions are that are worked on at the same time.
type Progress struct {
	tell        func(done, total int64)
	mu          sync.Mutex
	done, total []int64 // by partition
}

// NewProgress returns that of partitions with so much to do each. If tell is set, it hears of each
// Set, one call at a time.
func NewProgress(tell func(done, total int64), total []int64) *Progress {
	return &Progress{tell: tell, done: make([]int64, len(total)), total: total}
}

// Set notes how far a partition is, and of how much.
func (p *Progress) Set(partition int, done, total int64) {
	if p.tell == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done[partition], p.total[partition] = done, total
	var sumDone, sumTotal int64
	for i := range p.done {
		sumDone, sumTotal = sumDone+p.done[i], sumTotal+p.total[i]
	}
	p.tell(sumDone, sumTotal)
}
