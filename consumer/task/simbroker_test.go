package task

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Fence asks the group's coordinator and then the transaction's, as the real one
// does: a zombie may be between the two when it becomes one.
func (n *node) Fence(context.Context) error {
	err := n.call("Transactions.Fence (member?)", func(bool) error {
		if n.generation != n.w.generation || n.replaced && !n.hasty {
			return WithRemedy(errZombie, Leave)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return n.call("Transactions.Fence", func(bool) error {
		// Topic ids tell a changelog that was put back from the one that the store
		// belongs to. The loss itself is seen without them.
		if n.logID != n.w.logID && n.w.backup == nil {
			return WithRemedy(ErrLost, Fatal)
		}
		n.w.epoch++
		n.epoch = n.w.epoch
		n.w.complete()
		if n.replaced && !n.hasty { // between the two calls
			return WithRemedy(errZombie, Leave)
		}
		return nil
	})
}

// Committed may show an old offset for a moment.
func (n *node) Committed(context.Context) (offset int64, found bool, err error) {
	err = n.call("Transactions.Committed", func(bool) error {
		offset = n.w.committed
		if n.w.staleReads > 0 {
			n.w.staleReads--
			offset = n.w.stale
		}
		found = offset != none
		return nil
	})
	return offset, found, err
}

// mine answers what a broker says to an old producer epoch.
func (n *node) mine() error {
	if n.epoch != n.w.epoch {
		return WithRemedy(errors.New("producer fenced"), Leave)
	}
	return nil
}

// Produce checks the epoch alone: a zombie's records may become visible to
// readers of uncommitted data.
func (n *node) Produce(_ context.Context, out Outputs) (end int64, err error) {
	err = n.call("Transactions.Produce", func(lost bool) error {
		if err := n.mine(); err != nil {
			return err
		}
		w := n.w
		w.open = n
		changelog := out.Changelog
		if lost { // perhaps only a part of it has arrived
			changelog = changelog[:w.rng.IntN(len(changelog)+1)]
		}
		if n.generation != w.generation {
			w.events["a zombie writes"]++
		}
		w.output.append(pending, out.Output...)
		w.dead.append(pending, out.DeadLetters...)
		w.changelog.append(pending, changelog...)
		n.produced = int64(len(w.changelog.entries))
		return nil
	})
	return n.produced, err
}

// Commit follows the contract: it may be decided without being carried out.
func (n *node) Commit(_ context.Context, next int64) (end int64, err error) {
	err = n.call("Transactions.Commit", func(lost bool) error {
		w := n.w
		if err := n.mine(); err != nil {
			return err
		}
		if err := n.member(); err != nil {
			return err
		}
		if w.open == nil || w.deciding {
			return WithRemedy(errors.New("the transaction has been aborted by the broker"), Rebuild)
		}
		switch {
		case n == w.owner:
		case n.replaced && w.owner != nil && w.owner.epoch == 0:
			// Its successor has fenced nobody yet, and so has read nothing.
			w.events["a task that was replaced commits"]++
		default:
			w.violated("a zombie commits %d", next)
		}
		w.deciding, w.offset = true, next
		end = n.produced // what the broker has said of the transaction's records
		if !lost || w.rng.IntN(2) == 0 {
			w.complete()
		}
		return nil
	})
	return end, err
}

func (n *node) member() error {
	if n.generation != n.w.generation && !n.blind {
		n.w.events["a zombie is refused"]++
		return WithRemedy(errZombie, Leave)
	}
	return nil
}

// Abort drops what is open.
func (n *node) Abort(context.Context) error {
	return n.call("Transactions.Abort", func(bool) error {
		if err := n.mine(); err != nil {
			return err
		}
		if n.w.deciding {
			return WithRemedy(errors.New("abort after commit"), Leave)
		}
		n.w.complete()
		return nil
	})
}

// simReader is a Log over a simLog.
type simReader struct {
	n    *node
	l    *simLog
	name string
}

func (r simReader) Fetch(ctx context.Context, offset int64, _ time.Duration) (b Batch, err error) {
	n, w := r.n, r.n.w
	for _, rec := range n.lent { // memory of the last batch: nobody may need it now
		for i := range rec.Key {
			rec.Key[i] ^= 0xff
		}
		for i := range rec.Value {
			rec.Value[i] ^= 0xff
		}
	}
	n.lent = nil
	err = n.call(r.name+".Fetch", func(bool) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b, err = r.l.read(offset, 1+w.rng.IntN(12))
		return err
	})
	if err != nil {
		return Batch{}, err
	}
	n.lent = b.Records
	if r.l == &w.input {
		n.idle++
		if len(b.Records) > 0 || b.Next < int64(len(w.input.entries)) {
			n.idle = 0
		}
		if n.idle == w.idles() && n == w.owner {
			w.done = true
			n.cancel()
		}
	}
	return b, nil
}

func (r simReader) Bounds(context.Context) (first, end int64, err error) {
	err = r.n.call(r.name+".Bounds", func(bool) error {
		first, end = r.l.first, r.l.stable()
		return nil
	})
	return first, end, err
}

// High is the end of all records, of open transactions too.
func (r simReader) High(context.Context) (end int64, err error) {
	err = r.n.call(r.name+".High", func(bool) error {
		if end = r.l.high(); r.l.stable() < end {
			r.n.w.events["an idle task waits for open transactions"]++
		}
		return nil
	})
	return end, err
}

type simClock struct{ w *world }

func (c simClock) Now() time.Time { return c.w.now }

func (c simClock) Sleep(ctx context.Context, d time.Duration) error {
	c.w.now = c.w.now.Add(d)
	return ctx.Err()
}

// simProcessor makes outputs that depend on every bit of their arguments, on its settings, and on
// the versions that count at the record's time, and on nothing else. It uses its buffers again and
// spoils them first.
type simProcessor struct {
	settings int
	n        *node  // nil in the oracle
	made     string // of the oracle: the versions
	part     *simPart
	state    []byte
	bufs     [2][]byte
}

func (p *simProcessor) Process(rec Record, state []byte, fx *Effects) error {
	if p.n != nil {
		if err := p.n.call("Processor.Process", func(bool) error { return nil }); err != nil {
			return err
		}
		p.n.beheld(rec.Key)
	}
	made := p.made
	if p.n != nil {
		made = inForce(p.n.versions, rec.Timestamp)
	}
	fx.Time = rec.Timestamp + 1 // from 1
	p.part.closeUpTo(rec, p.settings, fx)
	if p.n != nil && len(fx.Output) > 0 {
		p.n.w.events["closed by a record"]++
	}
	if p.part.expired(state) {
		state = nil
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %q %q %q %q %d %d", p.settings, made, rec.Key, state, rec.Value, rec.Offset,
		rec.Timestamp)
	sum := h.Sum64()
	message := func(i int) Message {
		p.bufs[i] = fmt.Appendf(spoilt(p.bufs[i]), "%d.%d|%x", rec.Offset, i, sum)
		return Message{Key: rec.Key, Value: p.bufs[i], Timestamp: rec.Timestamp}
	}
	p.part.take(rec, sum)
	kind := rec.Value[0] % 16
	if !ValidKey(rec.Key) || kind == 0 {
		fx.DeadLetters = append(fx.DeadLetters, message(0))
		return nil
	}
	if kind == 1 {
		return nil
	}
	fx.Output = append(fx.Output, message(0))
	if kind <= 3 {
		fx.Output = append(fx.Output, message(1))
	}
	if kind <= 5 {
		fx.Forget = true
		return nil
	}
	p.state = spoilt(p.state)
	if p.part != nil {
		p.state = fmt.Appendf(p.state, "%d:", p.part.next)
	}
	p.state = append(p.state, strings.Repeat(fmt.Sprintf("%x", sum), 1+int(sum%3))...)
	fx.State = p.state
	return nil
}

func spoilt(b []byte) []byte {
	for i := range b {
		b[i] = '?'
	}
	return b[:0]
}
