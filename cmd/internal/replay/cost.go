package replay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
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

// sums adds up what the second releases of each user cost over all partitions: under
// topics.partitioner: any, and after a change of the partitioner, one user may have releases in
// several. It knows users by hashes, since ids take many times the memory. Partitions may use it at
// the same time.
type sums struct {
	seed maphash.Seed
	mu   sync.Mutex
	of   map[uint64]Cost
}

func newSums() *sums { return &sums{seed: maphash.MakeSeed(), of: map[uint64]Cost{}} }

// add books what a user's releases in one partition have cost.
func (s *sums) add(user []byte, epsilon, before float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := maphash.Bytes(s.seed, user)
	of := s.of[hash]
	s.of[hash] = Cost{Epsilon: of.Epsilon + epsilon, BeforeFrom: of.BeforeFrom + before}
}

// total is the cost over all users. It is rounded to billionths, in which ledgers count: what the
// order of users has left behind them goes.
func (s *sums) total() Cost {
	var all Cost
	for _, of := range s.of {
		all.Epsilon, all.BeforeFrom = all.Epsilon+of.Epsilon, all.BeforeFrom+of.BeforeFrom
		all.UserMax, all.Users = max(all.UserMax, of.Epsilon), all.Users+1
	}
	const billion = 1e9
	for _, x := range []*float64{&all.Epsilon, &all.BeforeFrom, &all.UserMax} {
		*x = math.Round(*x*billion) / billion
	}
	return all
}

// bill keeps by user what the second releases of one partition cost. The states, which are on disk,
// have the sums themselves: a ledger counts every release since processing began.
type bill struct {
	o      service.Options // of the replay
	part   PartitionPlan
	of     int            // partitions of the raw topic
	states *recompute.Map // user → offset of the last fix, state
	// hash of a published name → ε of the published releases, for users with a record
	shown map[uint64]float64
	seed  maphash.Seed
	names *engine.Pseudonyms // nil: users are published under their own names
	aged  bool               // retention has removed published records: anybody may have had one
}

func newBill(o service.Options, part PartitionPlan, of int, states *recompute.Map) *bill {
	b := &bill{
		o: o, part: part, of: of, states: states,
		shown: map[uint64]float64{}, seed: maphash.MakeSeed(),
	}
	if o.Publish.User == engine.UserPseudonym {
		b.names = engine.NewPseudonyms(o.Key)
	}
	return b
}

// show books a published record under its name.
func (b *bill) show(name []byte, epsilon float64) {
	b.shown[maphash.Bytes(b.seed, name)] += epsilon
}

// cost adds what is booked to the users' sums over all partitions.
func (b *bill) cost(to *sums) error {
	var state mechanism.State
	var name []byte
	return b.states.Each(func(user []byte, _ int64, value []byte) error {
		if name = append(name[:0], user...); b.names != nil {
			name = b.names.Of(name[:0], string(user))
		}
		published, found := b.shown[maphash.Bytes(b.seed, name)]
		if !found && !b.aged {
			return nil
		}
		if err := state.DecodeBinary(value); err != nil {
			return err
		}
		spent := state.EpsilonSpent
		to.add(user, spent, max(0, spent-published))
		return nil
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
		b.show(r.Key, s.Epsilon)
		return nil
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
		States:    b.states, Progress: progress,
	})
	if err != nil {
		return err
	}
	return run.Read(ctx, raw, from, b.part.To, func(r recompute.Result) error {
		if r.Offset < b.part.From {
			return nil
		}
		for _, m := range r.Output {
			b.show(m.Key, r.Tally.Epsilon)
		}
		return nil
	})
}

// costs reports whether the partition has second releases. Where nothing differs it has the
// first releases again, whatever other partitions have.
func (p PartitionPlan) costs() bool { return p.second && !p.empty() }

// costs fills in what the second releases of a plan cost, and what of that an earlier run
// has spent. It runs the mechanism once over the raw records that are left, so that release
// intervals, budgets and whatever else decides on a release count as they will. It takes some 200
// bytes of memory a user.
func (p *planner) costs(ctx context.Context, plan *Plan) (err error) {
	if plan.Identical {
		return nil
	}
	recompute.Sweep(p.r.TempDir)
	spent, whole := newSums(), newSums()
	progress := planning(plan, p.r.Planning, PartitionPlan.costs)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), 4)) // each has a store open
	for i, part := range plan.Partitions {
		if !part.costs() {
			continue
		}
		group.Go(func() error {
			err := p.cost(ctx, part, spent, whole, func(offset int64) {
				progress.Set(i, offset-part.Origin, part.To-part.Origin)
			})
			if err != nil {
				return fmt.Errorf("partition %d: the cost of the replay: %w", part.Partition, err)
			}
			return nil
		})
	}
	err = group.Wait()
	plan.Spent, plan.Cost = spent.total(), whole.total()
	return err
}

// planning is the progress of the partitions of a plan which count.
func planning(plan *Plan, tell func(done, total int64), counts func(PartitionPlan) bool,
) *recompute.Progress {
	total := make([]int64, len(plan.Partitions))
	for i, part := range plan.Partitions {
		if counts(part) {
			total[i] = part.To - part.Origin
		}
	}
	return recompute.NewProgress(tell, total)
}

// cost books what one partition has cost so far, and what it will have cost at its end.
func (p *planner) cost(ctx context.Context, part PartitionPlan, spent, whole *sums,
	progress func(at int64),
) (err error) {
	folder, err := recompute.NewFolder(p.r.TempDir, p.replay.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	b, next := newBill(p.replay, part, p.partitions, folder.Map(0)), part.Origin
	if part.begun {
		if next, err = b.load(ctx, p); err != nil {
			return err
		}
		if err := b.cost(spent); err != nil {
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
	return b.cost(whole)
}
