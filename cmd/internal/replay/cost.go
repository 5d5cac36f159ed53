package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/recompute"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// Cost is the Σε of second releases. It counts every release, from where
// processing begins, of each user who has a published record: the states at the
// beginning of the range follow from the releases before it, and what is published
// follows from the states. Users without a published record are not in it.
type Cost struct {
	Epsilon float64 `json:"epsilon"` // over all users
	// of that, drawn before --from and not published itself
	BeforeFrom float64 `json:"epsilon_before_from"`
	UserMax    float64 `json:"epsilon_user_max"` // of the user with the most
	Users      int64   `json:"users"`            // with a published record
}

// add joins the cost of other users.
func (c *Cost) add(o Cost) {
	c.Epsilon, c.BeforeFrom = c.Epsilon+o.Epsilon, c.BeforeFrom+o.BeforeFrom
	c.UserMax, c.Users = max(c.UserMax, o.UserMax), c.Users+o.Users
}

// rounded removes what adding floats has left behind the billionths, in which ledgers count.
func (c Cost) rounded() Cost {
	const billion = 1e9
	for _, x := range []*float64{&c.Epsilon, &c.BeforeFrom, &c.UserMax} {
		*x = math.Round(*x*billion) / billion
	}
	return c
}

// bill keeps, on disk and by user, what the second releases of one partition cost. The
// states have the sums themselves: a ledger counts every release since processing began.
type bill struct {
	o      service.Options // of the replay
	part   PartitionPlan
	of     int            // partitions of the raw topic
	states *recompute.Map // user → offset of the last fix, state
	// published name → ε of the published releases, for users with a record
	shown *recompute.Map
	names *engine.Pseudonyms // nil: users are published under their own names
	aged  bool               // retention has removed published records: anybody may have had one

	state mechanism.State // scratch
	name  []byte          // scratch
}

func newBill(o service.Options, part PartitionPlan, of int, folder *recompute.Folder) *bill {
	b := &bill{
		o: o, part: part, of: of,
		states: folder.Map(0), shown: folder.Map(1),
	}
	if o.Publish.User == engine.UserPseudonym {
		b.names = engine.NewPseudonyms(o.Key)
	}
	return b
}

// show books a published record under its name.
func (b *bill) show(name []byte, epsilon float64) error {
	_, value, err := b.shown.Get(name)
	if err != nil {
		return err
	}
	if len(value) >= 8 {
		epsilon += math.Float64frombits(binary.BigEndian.Uint64(value))
	}
	return b.shown.Put(name, 0, binary.BigEndian.AppendUint64(nil, math.Float64bits(epsilon)))
}

// cost adds what is booked to the users' sums over all partitions.
func (b *bill) cost(costs *userCosts, to *recompute.Map) error {
	if err := b.shown.Flush(); err != nil {
		return err
	}
	return b.states.Each(func(user []byte, _ int64, value []byte) error {
		name := user
		if b.names != nil {
			b.name = b.names.Of(b.name[:0], string(user))
			name = b.name
		}
		_, found, err := b.shown.Get(name)
		if err != nil || found == nil && !b.aged {
			return err
		}
		if err := b.state.DecodeBinary(value); err != nil {
			return err
		}
		published := 0.
		if found != nil {
			published = math.Float64frombits(binary.BigEndian.Uint64(found))
		}
		spent := b.state.EpsilonSpent
		return costs.add(to, user, spent, max(0, spent-published))
	})
}

// load books what the replay has committed, from its own changelog and topic, and answers
// with the raw offset up to which that is. The topic is read after the changelog, so that
// nobody who has a record is missing while other instances go on.
func (b *bill) load(ctx context.Context, p *planner) (next int64, err error) {
	own, err := p.committedStates(ctx, b.o, b.part.Partition, b.states)
	if err != nil || !own.Marked {
		return b.part.Origin, err
	}
	t := b.o.Topics
	out, err := topics.OpenDecided(ctx, p.client, t.Sanitized, b.part.Partition, b.o.Patience())
	if err != nil {
		return 0, err
	}
	b.aged = out.First > 0
	codec, err := schemas.NewCodec(b.o.SanitizedEncoding)
	if err != nil {
		return 0, err
	}
	return own.Mark.Input, out.Scan(ctx, out.First, out.End, func(r consumer.Record) error {
		s, err := codec.DecodeSanitized(r.Value)
		if err != nil {
			return fmt.Errorf("%s at offset %d: %w", t.Sanitized, r.Offset, err)
		}
		return b.show(r.Key, s.Epsilon)
	})
}

// run processes the raw records from an offset to the end of the range as the replay will,
// and books what comes of them. It publishes nothing.
func (b *bill) run(ctx context.Context, raw *topics.Reader, from int64,
	progress func(at int64),
) error {
	run, err := recompute.New(recompute.Options{
		Settings:  b.o.Settings,
		Partition: engine.Partition{Topic: b.o.Topics.Raw, Number: b.part.Partition, Of: b.of},
		States:    b.states, Amended: b.part.amended, Progress: progress,
	})
	if err != nil {
		return err
	}
	return run.Read(ctx, raw, from, b.part.To, func(r recompute.Result) error {
		if r.Offset < b.part.From {
			return nil
		}
		for _, m := range r.Output {
			if err := b.show(m.Key, r.Tally.Epsilon); err != nil {
				return err
			}
		}
		return nil
	})
}

// costs reports whether the partition has second releases. Where nothing differs it has the
// first releases again, whatever other partitions have.
func (p PartitionPlan) costs() bool { return p.second && !p.empty() }

// costs fills in what the second releases of a plan cost, and what of that an earlier run
// has spent. It runs the mechanism once over the raw records that are left, so that release
// intervals, budgets and whatever else decides on a release count as they will. It takes
// memory that does not grow with users or records.
func (p *planner) costs(ctx context.Context, plan *Plan) (err error) {
	if plan.Identical {
		return nil
	}
	recompute.Sweep(p.r.TempDir)
	costs, err := p.openCosts()
	if err != nil {
		return fmt.Errorf("the cost of the replay: %w", err)
	}
	defer func() { err = errors.Join(err, costs.close()) }()
	progress := newPlanning(plan, p.r.Planning, PartitionPlan.costs)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), 4)) // each has a store open
	for i, part := range plan.Partitions {
		if !part.costs() {
			continue
		}
		group.Go(func() error {
			err := p.cost(ctx, part, costs, func(offset int64) {
				progress.set(i, offset-part.Origin)
			})
			if err != nil {
				return fmt.Errorf("partition %d: the cost of the replay: %w", part.Partition, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if plan.Spent, err = costs.total(costs.spent); err != nil {
		return err
	}
	plan.Cost, err = costs.total(costs.whole)
	return err
}

// planning adds up how far the partitions of a plan are.
type planning struct {
	tell  func(done, total int64) // may be nil
	total int64

	mu sync.Mutex
	at []int64
}

// newPlanning returns that of the partitions of a plan which count.
func newPlanning(plan *Plan, tell func(done, total int64), counts func(PartitionPlan) bool,
) *planning {
	p := &planning{tell: tell, at: make([]int64, len(plan.Partitions))}
	for _, part := range plan.Partitions {
		if counts(part) {
			p.total += part.To - part.Origin
		}
	}
	return p
}

func (p *planning) set(i int, at int64) {
	if p.tell == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[i] = at
	done := int64(0)
	for _, n := range p.at {
		done += n
	}
	p.tell(done, p.total)
}

// cost books what one partition has cost so far, and what it will have cost at its end.
func (p *planner) cost(ctx context.Context, part PartitionPlan, costs *userCosts,
	progress func(at int64),
) error {
	folder, err := recompute.NewFolder(p.r.TempDir, p.replay.Logger)
	if err != nil {
		return err
	}
	return errors.Join(p.costIn(ctx, folder, part, costs, progress), folder.Close())
}

// costIn is cost with an open folder of the partition's own.
func (p *planner) costIn(ctx context.Context, folder *recompute.Folder, part PartitionPlan,
	costs *userCosts, progress func(at int64),
) error {
	b, next := newBill(p.replay, part, p.partitions, folder), part.Origin
	if part.begun {
		var err error
		if next, err = b.load(ctx, p); err != nil {
			return err
		}
		if err := b.cost(costs, costs.spent); err != nil {
			return err
		}
	}
	if next < part.To {
		raw, err := topics.Open(ctx, p.client, p.first.Topics.Raw, part.Partition,
			consumer.FetcherOptions{})
		if err != nil {
			return err
		}
		if err := b.run(ctx, raw, next, progress); err != nil {
			return err
		}
		progress(part.To)
	}
	return b.cost(costs, costs.whole)
}
