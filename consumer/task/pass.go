package task

import (
	"context"
	"errors"
	"fmt"
)

// pass is what a task does for a Partitioned: it hands its state on, and finds out how far an idle
// partition was read.
//
// A record's append time is that of its broker, whose clock is Options.Skew from this machine's at
// most. So every record with an append time up to T was in the log when this machine's clock showed
// T + Skew, and lies before an end that is asked for after that. It may belong to a transaction
// that was open then, so this end is the whole one, and not the stable one: the task waits until
// such transactions have ended and it has read them.
//
//	clock here:  T ──────► T + Skew ──► asked: the log ends at n ──► read up to n ──► Passed(T)
//	                          ▲
//	            all records up to T are in the log
type pass struct {
	by     Partitioned // nil: there is none
	input  Log
	clock  Clock
	skewMS int64

	askedMS int64 // clock when the end was asked for
	end     int64 // of the input, open transactions included
}

// restored gives the processor the partition's state as it is committed.
func (p *pass) restored(store Store) error {
	if p.by == nil {
		return nil
	}
	p.askedMS, p.end = 0, 0
	state, err := store.Get(partitionKey)
	if err != nil {
		return storeError("read the partition's state", err)
	}
	if err := p.by.Restored(state); err != nil {
		return otherwise(fmt.Errorf("read the partition's state: %w", err), Fatal)
	}
	return nil
}

// addState makes the partition's state part of a transaction, if it has changed.
func (p *pass) addState(o *overlay, timestamp int64) {
	if p.by == nil {
		return
	}
	if state, changed := p.by.State(); changed {
		o.put(partitionKey, state, len(state) == 0, timestamp)
	}
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

// fill adds to a transaction what the processor does about a deadline that was passed.
func (p *pass) fill(fx *Effects, o *overlay) error {
	deadline, _ := p.by.Deadline()
	*fx = Effects{Output: fx.Output[:0], DeadLetters: fx.DeadLetters[:0]}
	if err := p.by.Passed(deadline, fx); err != nil {
		return otherwise(fmt.Errorf("pass a time: %w", err), Fatal)
	}
	later, waits := p.by.Deadline()
	if len(fx.State) > 0 || fx.Forget || waits && later <= deadline {
		return WithRemedy(errors.New("a time was passed, and then a state was set, or the same "+
			"time is due: this is a bug, please report it"), Fatal)
	}
	o.out = o.send(o.out, fx.Output)
	o.dead = o.send(o.dead, fx.DeadLetters)
	return nil
}
