package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// kind is what a fault does.
type kind string

const (
	instanceKill   kind = "instance kill -9"
	instanceWipe   kind = "instance kill -9, state deleted"
	instanceFreeze kind = "instance SIGSTOP beyond the session timeout"
	instanceRoll   kind = "rolling restart (SIGTERM)"
	brokerKill     kind = "broker kill -9"
	brokerFreeze   kind = "broker SIGSTOP"
	brokerBounce   kind = "broker restart (SIGTERM)"
)

// hard are the kinds that --faults counts, as often as they are in the bag.
var hard = []kind{
	instanceKill, instanceKill, instanceKill, instanceFreeze, instanceFreeze, instanceWipe,
	brokerKill, brokerKill, brokerFreeze, brokerFreeze,
}

var soft = []kind{instanceRoll, brokerBounce}

// softEvery is how many hard faults go with a soft one.
const softEvery = 5

func (k kind) onBroker() bool { return k == brokerKill || k == brokerFreeze || k == brokerBounce }

// fault is one entry of a schedule.
type fault struct {
	kind   kind
	target int           // number of the instance or node, from 0
	at     time.Duration // after the feed has begun
	lasts  time.Duration // from the blow to the remedy
}

// schedule deals the faults of a seed over the time of the feed: each kind as
// often as the bag holds it, in random order, at random moments of equal slots.
// The last tenth is left for the last ones to take effect under load.
func schedule(s settings) []fault {
	rng := rand.New(rand.NewPCG(s.Seed, 0x6368616f73)) // any second word
	kinds := make([]kind, 0, s.Faults+s.Faults/softEvery)
	var bag []kind
	for n := range s.Faults {
		if len(bag) == 0 {
			bag = slices.Clone(hard)
			rng.Shuffle(len(bag), func(a, b int) { bag[a], bag[b] = bag[b], bag[a] })
		}
		kinds, bag = append(kinds, bag[0]), bag[1:]
		if (n+1)%softEvery == 0 {
			kinds = append(kinds, soft[n/softEvery%len(soft)])
		}
	}
	faults := make([]fault, len(kinds))
	slot := s.Duration * 9 / 10 / time.Duration(max(len(kinds), 1))
	for n, k := range kinds {
		f := fault{kind: k, at: time.Duration((float64(n) + rng.Float64()) * float64(slot)), lasts: lasting(k, rng)}
		f.target = rng.IntN(s.Instances)
		if k.onBroker() {
			f.target = rng.IntN(nodes)
		}
		faults[n] = f
	}
	return faults
}

func lasting(k kind, rng *rand.Rand) time.Duration {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(most-least)))
	}
	switch k {
	case instanceKill, instanceWipe:
		if rng.IntN(4) == 0 { // its partitions go to others
			return between(sessionTimeout, sessionTimeout+3*time.Second)
		}
		return between(0, 3*time.Second)
	case instanceFreeze:
		return between(sessionTimeout+time.Second, sessionTimeout+4*time.Second)
	case brokerFreeze: // a broker is given up after 3 s
		return between(4*time.Second, 7*time.Second)
	case brokerKill, brokerBounce:
		return between(0, 3*time.Second)
	case instanceRoll: // one after the other, at once
	}
	return 0
}

// breath is how long what was mended may work before the next fault, where the
// schedule is late: a process that is killed as it starts shows little.
const breath = 2 * time.Second

// breaker carries a schedule out.
type breaker struct {
	cluster   cluster
	instances []*instance
	note      func(format string, args ...any)
	feeding   func() bool

	began  time.Time
	counts map[kind]int
	idle   int // hard faults that began when nothing was fed any more
}

// run lets the faults on instances and those on brokers take their course side by
// side. Of either sort there is one at a time, so that one node at most is down.
func (b *breaker) run(ctx context.Context, faults []fault) error {
	b.began = time.Now()
	lanes := [2][]fault{}
	for _, f := range faults {
		lane := 0
		if f.kind.onBroker() {
			lane = 1
		}
		lanes[lane] = append(lanes[lane], f)
	}
	done := [2]map[kind]int{{}, {}}
	idle := [2]int{}
	group, ctx := errgroup.WithContext(ctx)
	for lane := range lanes {
		group.Go(func() error {
			for _, f := range lanes[lane] {
				if err := pause(ctx, time.Until(b.began.Add(f.at))); err != nil {
					return err
				}
				if !b.feeding() && slices.Contains(hard, f.kind) {
					idle[lane]++
				}
				b.note("%s %d for %v", f.kind, f.target+1, f.lasts.Round(time.Millisecond))
				if err := b.strike(ctx, f); err != nil {
					return fmt.Errorf("%s %d: %w", f.kind, f.target+1, err)
				}
				done[lane][f.kind]++
				if err := pause(ctx, breath); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	b.counts = done[0]
	for k, n := range done[1] {
		b.counts[k] += n
	}
	b.idle = idle[0] + idle[1]
	return err
}

// strike breaks something, waits, and mends it.
func (b *breaker) strike(ctx context.Context, f fault) error {
	if f.kind.onBroker() {
		return b.strikeBroker(ctx, f)
	}
	i := b.instances[f.target]
	switch f.kind {
	case instanceFreeze:
		if err := i.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		return errors.Join(pause(ctx, f.lasts), i.signal(syscall.SIGCONT))
	case instanceRoll:
		for _, i := range b.instances {
			if err := i.terminate(); err != nil {
				return err
			}
			if err := i.start(); err != nil {
				return err
			}
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
		}
		return nil
	case instanceWipe:
		if err := errors.Join(i.kill(), i.wipe()); err != nil {
			return err
		}
	default:
		if err := i.kill(); err != nil {
			return err
		}
	}
	return errors.Join(pause(ctx, f.lasts), i.start())
}

func (b *breaker) strikeBroker(ctx context.Context, f fault) error {
	blow, remedy := "kill", "start"
	switch f.kind {
	case brokerFreeze:
		blow, remedy = "stop", "cont"
	case brokerBounce:
		blow = "term"
	default:
	}
	if err := b.cluster.node(ctx, blow, f.target); err != nil {
		return err
	}
	if err := errors.Join(pause(ctx, f.lasts), b.cluster.node(ctx, remedy, f.target)); err != nil {
		return err
	}
	return b.cluster.ready(ctx)
}

// pause waits, no longer than the context.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
