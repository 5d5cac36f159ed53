package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
)

// endInterval is how often an instance of a replay asks whether all are done.
const endInterval = 500 * time.Millisecond

// Run runs a range of the raw topic through the mechanism once more, into
// another topic, exactly once. States at the range's beginning depend on all that
// came before, so it processes from where the first release began and publishes
// from the beginning of the range on. Several instances, each with a state folder
// of its own, share the work; each ends when the range is done in all partitions,
// and one that was killed goes on where it was when it is run again.
//
// ErrSpend says that it would be a second release, without SpendAgain. The plan
// is what NewPlan gives, its Done true when the range is done; with no error and
// Done false the context has ended before.
func Run(ctx context.Context, o service.Options, r Options) (Plan, error) {
	plan, err := planTwice(ctx, o, r)
	if err == nil && !plan.Done {
		err = plan.replay(ctx, o, r)
	}
	return plan, err
}

// replay runs what a plan has left.
func (p *Plan) replay(ctx context.Context, o service.Options, r Options) error {
	if err := p.Refusal(r); err != nil {
		return err
	}
	replayed, r := r.options(o.WithDefaults())
	settings := o.Fingerprint()
	for _, part := range p.Partitions {
		replayed.Windows = append(replayed.Windows, part.window(settings, r.Output))
	}
	s, err := service.New(replayed)
	if err != nil {
		return err
	}
	if !p.Identical {
		replayed.Logger.Warn("the replay is a second release", "costs", p.Cost.String())
	}
	return p.work(ctx, s, replayed, r.Progress)
}

// work runs a service until the group has committed all windows of the options.
func (p *Plan) work(ctx context.Context, s *service.Service, o service.Options,
	progress func(done, total int64),
) error {
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		done <- p.await(ctx, o, progress)
		cancel() // a clean stop, as at a signal
	}()
	err := s.Run(ctx)
	cancel()
	if ended := <-done; err == nil {
		err = ended
	}
	return err
}

// Refusal is what a replay that is run with these options ends with instead of beginning:
// ErrSpend, the reasons and what a second release can cost, without SpendAgain; or nil.
func (p *Plan) Refusal(r Options) error {
	if p.Identical || p.Done || r.SpendAgain {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrSpend, p.why())
}

// why lists what makes a replay a second release, and what it can cost.
func (p *Plan) why() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, part := range p.Partitions {
		for _, text := range part.Differs {
			if !part.empty() && !seen[text] {
				seen[text] = true
				fmt.Fprintf(&b, "partition %d: %s; ", part.Partition, text)
			}
		}
	}
	return b.String() + "it would cost " + p.Cost.String()
}

// await waits until the group has committed the whole range, in all partitions
// and whatever process did it. A context that ends before is no error.
func (p *Plan) await(
	ctx context.Context, o service.Options, progress func(done, total int64),
) error {
	client := o.Client()
	var total int64
	for i := range p.Partitions {
		if w := o.Windows[i]; !w.Empty() {
			total += w.End - w.Origin
		}
	}
	ticker := time.NewTicker(endInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		at, ok := p.readProgress(ctx, o, client)
		if !ok {
			return nil
		}
		if progress != nil {
			progress(at, total)
		}
		if p.Done {
			return nil
		}
	}
}

// readProgress reads how far each partition is, and returns how many raw records they have
// processed together. It is not ok when the context ends first.
func (p *Plan) readProgress(
	ctx context.Context, o service.Options, client *kafka.Client,
) (processed int64, ok bool) {
	p.Done = true
	for i := range p.Partitions {
		w := o.Windows[i]
		if w.Empty() {
			continue
		}
		committed, found, err := consumer.Committed(ctx, client,
			wire.Options{RetryTimeout: topics.CallPatience}, o.Group, o.Topics.Raw, int32(i))
		if ctx.Err() != nil {
			p.Done = false
			return 0, false
		}
		// An error is one of a broker that is away for a moment: the tasks
		// find out whether it is more, and report it.
		if err == nil && found {
			p.Partitions[i].Committed = committed
			processed += max(0, min(committed, w.End)-w.Origin)
		}
		p.Done = p.Done && err == nil && found && committed >= w.End
	}
	return processed, true
}
