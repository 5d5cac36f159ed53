package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/state"
)

// Inspection is one user's state in words that can be read. It is private: it
// says where the user is thought to be.
type Inspection struct {
	User      string `json:"user"`
	Partition int32  `json:"partition"`
	// Offset is that of the changelog's record; -1 in the local store.
	Offset int64 `json:"offset"`
	Bytes  int   `json:"bytes"`

	Step         int64     `json:"step"`      // the last one
	StepTime     time.Time `json:"step_time"` // at which it began
	Releases     uint64    `json:"releases"`
	EpsilonSpent float64   `json:"epsilon_spent"`
	// EpsilonWindow is what the budget's window up to the last step holds; nil: the
	// config has no such budget.
	EpsilonWindow *float64 `json:"epsilon_window,omitempty"`
	// PublishedAs is the name of the user's sanitized records.
	PublishedAs string `json:"published_as"`
	ModelID     string `json:"model_id"`
	OfThisModel bool   `json:"of_this_model"` // of the config's, in one of its versions
	// Versions are the later versions of the model that the user's partition has
	// adopted, in that order; none in the local store, which does not have them.
	Versions []AdoptedVersion `json:"model_versions,omitempty"`

	LastRelease *Place  `json:"last_release,omitempty"` // nil: none that could be repeated
	Estimate    *Place  `json:"estimate,omitempty"`     // nil: the state belongs to another map
	RadiusM     float64 `json:"radius_m"`
	Cells       int     `json:"cells"`        // of the posterior
	EntropyBits float64 `json:"entropy_bits"` // of the posterior

	Top []CellMass `json:"top,omitempty"`
}

// Place is a point in degrees.
type Place struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

// CellMass is one cell of a posterior.
type CellMass struct {
	Cell        int64   `json:"cell"`
	Centre      Place   `json:"centre"`
	Probability float64 `json:"probability"`
}

// ErrNoState says that a user has no state.
var ErrNoState = errors.New("the user has no state: no fix of this user was accepted yet, or the id is written otherwise")

// InspectOptions say where to look and what for.
type InspectOptions struct {
	User  string
	Local bool // in the local store instead of the changelog; no instance may have it open
	Top   int  // how many of the most probable cells to list
}

// Inspect finds a user's state, in the changelog or in the local store, as of the
// last transaction that was committed when it looks. In the changelog it costs
// reading the user's partition, or all of them if the user is in none where Kafka's
// default partitioner would put the key. ErrNoState says that there is none.
func Inspect(ctx context.Context, o Options, q InspectOptions) (Inspection, error) {
	if err := o.Validate(); err != nil {
		return Inspection{}, err
	}
	o = o.withDefaults()
	if !task.ValidKey([]byte(q.User)) {
		return Inspection{}, ErrNoState
	}
	var (
		found stored
		err   error
	)
	if q.Local {
		found, err = findLocal(o, []byte(q.User))
	} else {
		found, err = findInChangelog(ctx, o, []byte(q.User))
	}
	if err != nil {
		return Inspection{}, err
	}
	inspection, err := found.inspect(o, q)
	if err != nil || q.Local {
		return inspection, err
	}
	mark, _, err := (&planner{client: NewClient(o.Brokers)}).lastMark(ctx, o.Topics.Changelog, found.partition)
	if err != nil {
		return inspection, err
	}
	inspection.Versions, err = describe(mark.Amendments, o.Later)
	return inspection, err
}

// stored is a state as it was found.
type stored struct {
	partition int32
	offset    int64
	value     []byte
}

func findLocal(o Options, user []byte) (stored, error) {
	store, err := state.Open(o.StateDir, state.Options{ReadOnly: true, Logger: o.Logger})
	if err != nil {
		return stored{}, err
	}
	found, err := findIn(store, user)
	return found, errors.Join(err, store.Close())
}

func findIn(store *state.Store, user []byte) (stored, error) {
	numbers, err := store.Partitions()
	if err != nil {
		return stored{}, err
	}
	for _, p := range numbers {
		value, err := store.Partition(p).Get(user)
		if err != nil {
			return stored{}, err
		}
		if len(value) > 0 {
			return stored{p, -1, slices.Clone(value)}, nil
		}
	}
	return stored{}, ErrNoState
}

func findInChangelog(ctx context.Context, o Options, user []byte) (stored, error) {
	client := NewClient(o.Brokers)
	counts, err := consumer.Partitions(ctx, client, consumer.Options{}, o.Topics.Changelog)
	if err != nil {
		return stored{}, err
	}
	n := counts[o.Topics.Changelog]
	likely := producer.Partition(user, n)
	order := []int32{likely}
	for p := range int32(n) {
		if p != likely {
			order = append(order, p)
		}
	}
	for _, p := range order {
		found, err := lastValue(ctx, client, o.Topics.Changelog, p, user)
		if err != nil || found.value != nil {
			return found, err
		}
	}
	return stored{}, ErrNoState
}

// lastValue reads a partition of the changelog for one key.
func lastValue(ctx context.Context, client *kafka.Client, topic string, p int32, key []byte) (stored, error) {
	f, err := consumer.NewFetcher(client, topic, p, consumer.FetcherOptions{})
	if err != nil {
		return stored{}, err
	}
	first, end, err := f.Bounds(ctx)
	if err != nil {
		return stored{}, err
	}
	found := stored{partition: p, offset: -1}
	err = scan(ctx, f, first, end, func(r consumer.Record) error {
		if string(r.Key) == string(key) {
			found.offset, found.value = r.Offset, append(found.value[:0], r.Value...)
		}
		return nil
	})
	if len(found.value) == 0 {
		found.value = nil // a tombstone
	}
	return found, err
}

// inspect decodes a state.
func (f stored) inspect(o Options, q InspectOptions) (Inspection, error) {
	var s mechanism.State
	if err := s.DecodeBinary(f.value); err != nil {
		return Inspection{}, fmt.Errorf("partition %d: %w", f.partition, err)
	}
	model, known, err := o.modelOf(&s, q.User)
	if err != nil {
		return Inspection{}, err
	}
	found := Inspection{
		User: q.User, Partition: f.partition, Offset: f.offset, Bytes: len(f.value),
		Step: s.Step, Releases: s.Releases, EpsilonSpent: s.EpsilonSpent, PublishedAs: q.User,
		ModelID: s.Model.String(), OfThisModel: known,
		RadiusM: s.RadiusKM * 1000, Cells: s.Posterior.Len(),
	}
	if s.Step < math.MaxInt64/max(s.StepMS, 1) && s.Step > math.MinInt64/max(s.StepMS, 1) {
		found.StepTime = time.UnixMilli(s.Step * s.StepMS).UTC()
		if w := o.Release.Budget.WindowSteps; w > 0 {
			// Of steps that end after this the window holds the releases.
			since := found.StepTime.UnixMilli() - int64(w-1)*o.Model.Step.Milliseconds()
			spent := s.Ledger.SpentSince(since)
			found.EpsilonWindow = &spent
		}
	}
	if o.Publish.User == UserPseudonym {
		found.PublishedAs = Pseudonym(o.Key, q.User)
	}
	for _, p := range s.Posterior.P {
		if p > 0 {
			found.EntropyBits -= float64(p * math.Log2(p))
		}
	}
	g := model.Grid
	if s.Grid.String() != g.ID() {
		return found, nil // its points are of a map that is not here
	}
	found.Estimate = degreesOf(g, s.Estimate)
	if s.HasRelease {
		found.LastRelease = degreesOf(g, s.Release)
	}
	order := make([]int, s.Posterior.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Posterior.P[b], s.Posterior.P[a]) })
	for _, i := range order[:min(max(q.Top, 0), len(order))] {
		c := s.Posterior.Cells[i]
		found.Top = append(found.Top, CellMass{Cell: int64(c), Centre: *degreesOf(g, g.Centre(c)), Probability: s.Posterior.P[i]})
	}
	return found, nil
}

func degreesOf(g *grid.Grid, p grid.Point) *Place {
	lat, lon := g.ToDegrees(p)
	return &Place{lat, lon}
}
