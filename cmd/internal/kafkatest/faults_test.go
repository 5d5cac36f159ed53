//go:build kafka

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// kind is a kind of fault.
type kind string

const (
	instanceKill   kind = "instance kill -9"
	instanceWipe   kind = "instance kill -9, state deleted"
	instanceFreeze kind = "instance SIGSTOP beyond the session timeout"
	instanceRoll   kind = "rolling restart (SIGTERM)"
	brokerKill     kind = "broker kill -9"
	brokerFreeze   kind = "broker SIGSTOP"
	brokerBounce   kind = "broker restart (SIGTERM)"

	// instanceRestart is the only kind of a soak.
	instanceRestart kind = "instance restart (SIGTERM)"
)

// hard are the kinds that --faults counts, each as often as the bag has it.
var hard = []kind{
	instanceKill, instanceKill, instanceKill, instanceFreeze, instanceFreeze, instanceWipe,
	brokerKill, brokerKill, brokerFreeze, brokerFreeze,
}

var soft = []kind{instanceRoll, brokerBounce}

// softEvery is the number of hard faults for each soft one.
const softEvery = 5

func (k kind) onBroker() bool { return k == brokerKill || k == brokerFreeze || k == brokerBounce }

// fault is one entry of a schedule.
type fault struct {
	kind   kind
	target int           // number of the instance or node, from 0
	at     time.Duration // time since the feed began
	lasts  time.Duration // from the blow to its repair
}

// schedule spreads the faults of a seed over the time of the feed. It draws the kinds from the
// bag in random order, and the moment of each fault within one of equal slots. The last tenth
// of the time has no fault, so that the last faults still take effect under load.
func schedule(s settings) []fault {
	if s.Soak {
		return restarts(s)
	}
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
		f := fault{
			kind: k, at: time.Duration((float64(n) + rng.Float64()) * float64(slot)),
			lasts: lastsFor(k, rng),
		}
		f.target = rng.IntN(s.Instances)
		if k.onBroker() {
			f.target = rng.IntN(s.Nodes)
		}
		faults[n] = f
	}
	return faults
}

// restarts is the schedule of a soak: every so often one instance in turn, but never the first one,
// unless it is alone. The last restart leaves a life that can be judged.
func restarts(s settings) []fault {
	var faults []fault
	for n, at := 0, s.Every; at <= s.Duration-s.Every/2; n, at = n+1, at+s.Every {
		target := 0
		if s.Instances > 1 {
			target = 1 + n%(s.Instances-1)
		}
		faults = append(faults, fault{kind: instanceRestart, target: target, at: at})
	}
	return faults
}

func lastsFor(k kind, rng *rand.Rand) time.Duration {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(most-least)))
	}
	switch k {
	case instanceKill, instanceWipe:
		if rng.IntN(4) == 0 { // long enough for other instances to take its partitions
			return between(sessionTimeout, sessionTimeout+3*time.Second)
		}
		return between(0, 3*time.Second)
	case instanceFreeze:
		return between(sessionTimeout+time.Second, sessionTimeout+4*time.Second)
	case brokerFreeze: // the cluster gives a broker up after 3 s
		return between(4*time.Second, 7*time.Second)
	case brokerKill, brokerBounce:
		return between(0, 3*time.Second)
	case instanceRoll, instanceRestart: // a restart takes as long as it takes
	}
	return 0
}

// breath is the least time between a repair and the next fault, even if the schedule is late:
// to kill a process while it starts shows little.
const breath = 2 * time.Second

// breaker carries out a schedule.
type breaker struct {
	cluster   kafkaDir
	instances []*supervised
	note      func(format string, args ...any)
	feeding   func() bool

	began  time.Time
	mu     sync.Mutex
	counts map[kind]int // faults that were carried out
	idle   int          // hard faults among them that began after the feed had ended
}

// run carries out the schedule of a run. Faults on instances and faults on brokers happen side
// by side, but of either sort only one at a time: no two nodes are ever down together.
func (b *breaker) run(ctx context.Context, s settings) error {
	b.began, b.counts = time.Now(), map[kind]int{}
	var onInstances, onBrokers []fault
	for _, f := range schedule(s) {
		if f.kind.onBroker() {
			onBrokers = append(onBrokers, f)
		} else {
			onInstances = append(onInstances, f)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.strikeAll(ctx, onInstances) })
	group.Go(func() error { return b.strikeAll(ctx, onBrokers) })
	return group.Wait()
}

// strikeAll carries out faults one after the other, each at its time or later.
func (b *breaker) strikeAll(ctx context.Context, faults []fault) error {
	for _, f := range faults {
		if err := pause(ctx, time.Until(b.began.Add(f.at))); err != nil {
			return err
		}
		feeding := b.feeding()
		b.note("%s %d for %v", f.kind, f.target+1, f.lasts.Round(time.Millisecond))
		if err := b.strike(ctx, f); err != nil {
			return fmt.Errorf("%s %d: %w", f.kind, f.target+1, err)
		}
		b.count(f.kind, feeding)
		if err := pause(ctx, breath); err != nil {
			return err
		}
	}
	return nil
}

func (b *breaker) count(k kind, feeding bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[k]++
	if !feeding && slices.Contains(hard, k) {
		b.idle++
	}
}

// strike breaks something, waits, and repairs it.
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
		return b.roll(ctx)
	case instanceRestart:
		if err := i.terminate(); err != nil {
			return err
		}
	case instanceWipe:
		if err := errors.Join(i.kill(), os.RemoveAll(i.stateDir)); err != nil {
			return err
		}
	default:
		if err := i.kill(); err != nil {
			return err
		}
	}
	return errors.Join(pause(ctx, f.lasts), i.start())
}

// roll restarts all instances, one after the other.
func (b *breaker) roll(ctx context.Context) error {
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
}

func (b *breaker) strikeBroker(ctx context.Context, f fault) error {
	blow, repair := "kill", "start"
	switch f.kind {
	case brokerFreeze:
		blow, repair = "stop", "cont"
	case brokerBounce:
		blow = "term"
	default:
	}
	if err := b.cluster.node(ctx, blow, f.target); err != nil {
		return err
	}
	if err := errors.Join(pause(ctx, f.lasts), b.cluster.node(ctx, repair, f.target)); err != nil {
		return err
	}
	return b.ready(ctx)
}

// ready waits until every node answers: the cluster has to take a frozen broker in again.
func (b *breaker) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := b.cluster.call(ctx, "status")
		if err == nil || ctx.Err() != nil {
			return err
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

// pause waits for a while, or until the context ends, whose error it then returns.
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
