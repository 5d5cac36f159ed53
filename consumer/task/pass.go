package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// pass is what a task does for a Partitioned: it hands its state on, and finds out how far the
// partition was read.
//
// A record's append time is that of its broker, whose clock is Options.Skew from this machine's at
// most. So every record with an append time up to T was in the log when this machine's clock showed
// T + Skew, and lies before an end that is asked for after that. It may belong to a transaction
// that was open then, so this end is the whole one, and not the stable one: the task waits until
// such transactions have ended and it has read them.
//
// A broker tells the high watermark, behind which lie records that are not replicated yet. So the
// bound holds if clocks and replication together are within Skew: a record has to be replicated
// within Skew, less what the clocks are apart.
//
//	clock here:  T ──────► T + Skew ──► asked: the log ends at n ──► read up to n ──► Passed(T)
//	                          ▲
//	            all records up to T are in the log
type pass struct {
	by     Partitioned // nil: there is none
	input  Log
	store  Store
	clock  Clock
	skewMS int64
	key    []byte // scratch

	startMS int64                   // clock after the fence of this assignment
	expired func(state []byte) bool // nil: there is nothing to sweep
	swept   []byte                  // the last key that was swept

	askedMS int64 // clock when the end was asked for
	end     int64 // of the input, open transactions included
}

// restored gives the processor the partition's states as they are committed.
func (p *pass) restored() error {
	if p.by == nil {
		return nil
	}
	p.askedMS, p.end, p.expired = 0, 0, nil
	p.startMS = p.clock.Now().UnixMilli()
	var states []Change
	err := p.store.Reserved(PartitionKey, func(key, value []byte) error {
		name := bytes.Clone(key[len(PartitionKey):])
		states = append(states, Change{Key: name, Value: bytes.Clone(value)})
		return nil
	})
	if err != nil {
		return storeError("read the partition's states", err)
	}
	if err := p.by.Restored(states); err != nil {
		return otherwise(fmt.Errorf("read the partition's states: %w", err), Fatal)
	}
	return nil
}

// addStates makes the partition's states part of a transaction, where they have changed.
func (p *pass) addStates(o *overlay, timestamp int64) {
	if p.by == nil {
		return
	}
	for _, c := range p.by.Changes() {
		p.key = append(append(p.key[:0], PartitionKey...), c.Key...)
		o.put(p.key, c.Value, len(c.Value) == 0, timestamp)
	}
}

// sweeps reports whether there are states of keys that may have expired.
func (p *pass) sweeps() bool {
	if p.by != nil && p.expired == nil {
		p.expired, p.swept = p.by.Expires(), nil
	}
	return p.expired != nil
}

// sweep adds the removal of some states that have expired to a transaction, and returns of how
// many. The store must have everything that was processed.
func (p *pass) sweep(o *overlay, most int, now int64) (n int, err error) {
	last := bytes.Clone(p.swept)
	visit := func(key, value []byte) error {
		if !p.expired(value) {
			return nil
		}
		if n == most {
			return errEnough
		}
		o.put(key, nil, true, now)
		if n++; ValidKey(key) {
			last = append(last[:0], key...)
		}
		return nil
	}
	err = p.store.After(p.swept, visit)
	p.swept = last
	if err == nil {
		err = p.store.Reserved(KeptKey, visit)
	}
	switch {
	case errors.Is(err, errEnough):
		return n, nil
	case err != nil:
		return n, storeError("look for states that have expired", err)
	}
	p.expired = nil
	return n, nil
}

// isPast reports whether the partition, which was read up to next, was read past the processor's
// deadline.
func (p *pass) isPast(ctx context.Context, next int64, try attempt) (bool, error) {
	if p.by == nil {
		return false, nil
	}
	deadline, waits := p.by.Deadline()
	now := p.clock.Now().UnixMilli()
	if !waits || now <= deadline+p.skewMS {
		return false, nil
	}
	if p.askedMS <= deadline+p.skewMS {
		err := try(ctx, func() (err error) {
			p.end, err = p.input.(Ended).High(ctx)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("read the input's end: %w", err)
		}
		p.askedMS = now
	}
	return next >= p.end, nil
}

// settled reports whether every time was passed that a worker before this one may have passed. That
// worker's clock is at most two skews ahead of this machine's. It was more than a skew beyond such
// a time, before the fence.
func (p *pass) settled() bool {
	deadline, waits := p.by.Deadline()
	return !waits || deadline > p.startMS+p.skewMS
}

// fill adds to a transaction what the processor does about a deadline that was passed.
func (p *pass) fill(fx *Effects, o *overlay) error {
	deadline, _ := p.by.Deadline()
	*fx = Effects{Output: fx.Output[:0], DeadLetters: fx.DeadLetters[:0]}
	if err := p.by.Passed(deadline, fx); err != nil {
		return otherwise(fmt.Errorf("pass a time: %w", err), Fatal)
	}
	later, waits := p.by.Deadline()
	if len(fx.State) > 0 || fx.Forget || waits && later <= deadline {
		return WithRemedy(errors.New("a time was passed, and then a state was set (report-this)"),
			Fatal)
	}
	o.out = o.send(o.out, fx.Output)
	o.dead = o.send(o.dead, fx.DeadLetters)
	return nil
}
