package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// State is one user's state in words that can be read. It is private: it
// says where the user is thought to be.
type State struct {
	User      string `json:"user"`
	Partition int32  `json:"partition"`
	// Offset is that of the changelog's record.
	Offset int64 `json:"offset"`
	Bytes  int   `json:"bytes"`

	Step         int64     `json:"step"`      // the last one
	StepTime     time.Time `json:"step_time"` // at which it began
	Releases     uint64    `json:"releases"`
	EpsilonSpent float64   `json:"epsilon_spent"`
	// EpsilonWindow is what counts against the budget's limit in the last step; nil: the config has
	// no such budget.
	EpsilonWindow *float64 `json:"epsilon_window,omitempty"`
	// PublishedAs is the name of the user's sanitized records.
	PublishedAs string `json:"published_as"`
	ModelID     string `json:"model_id"`
	OfThisModel bool   `json:"of_this_model"` // of the config's, in one of its versions

	LastRelease *Place  `json:"last_release,omitempty"` // nil: none that could be repeated
	Estimate    *Place  `json:"estimate,omitempty"`     // nil: the state belongs to another map
	RadiusM     float64 `json:"radius_m"`
	// The 1σ ellipse of the posterior, as records have it; 0 where Estimate is nil.
	SigmaMajorM float64 `json:"sigma_major_m,omitempty"`
	SigmaMinorM float64 `json:"sigma_minor_m,omitempty"`
	AzimuthDeg  float64 `json:"azimuth_deg"`
	Cells       int     `json:"cells"`        // of the posterior
	EntropyBits float64 `json:"entropy_bits"` // of the posterior

	// Elsewhere are the user's states in further partitions. There is one where records
	// of the user have lain in two partitions: each has a budget of its own.
	Elsewhere []State `json:"elsewhere,omitempty"`
	// Kept are accounts that were kept when the user was erased and are not in use again. There is
	// one beside a state where the user has come back in another partition.
	Kept []KeptAccount `json:"kept,omitempty"`
	// EpsilonSpentAll and EpsilonWindowAll are sums over all partitions and accounts that are kept,
	// the latter over the budget's window up to the last step in any of them.
	EpsilonSpentAll  float64  `json:"epsilon_spent_all"`
	EpsilonWindowAll *float64 `json:"epsilon_window_all,omitempty"`

	state *mechanism.State // as it was found
}

// KeptAccount is what remains of an erasure.
type KeptAccount struct {
	Partition int32     `json:"partition"`
	ErasedAt  time.Time `json:"erased_at"`
	RawOffset int64     `json:"raw_offset"` // records from there on did not go on with the state
	// Releases and EpsilonSpent are those of the account; 0 if it was dropped.
	Releases     uint64  `json:"releases"`
	EpsilonSpent float64 `json:"epsilon_spent"`

	account State // as far as it can be told; state is nil if it was dropped
}

// Place is a point in degrees.
type Place struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

// ErrNoState says that a user has no state.
var ErrNoState = errors.New("the user has no state: unknown, or the id is written otherwise")

// User finds a user's state in the changelog, as of the last transaction that was committed when it
// looks. It looks into every partition, so it costs reading the whole topic. The partition that the
// configured partitioner gives the user comes first, and what others hold is in Elsewhere.
// ErrNoState says that there is none.
func User(ctx context.Context, o Options, user string) (State, error) {
	o, err := o.prepare()
	if err != nil {
		return State{}, err
	}
	if !task.ValidKey([]byte(user)) {
		return State{}, ErrNoState
	}
	found, kept, err := findInChangelog(ctx, o, user)
	switch {
	case err != nil:
		return State{}, err
	case len(found) == 0 && len(kept) > 0:
		return State{}, &ErasedError{kept}
	case len(found) == 0:
		return State{}, ErrNoState
	}
	// Where the user belongs comes first; the others are in the order of partitions.
	key, known := o.Source().KeyOf(user)
	belongs := func(f stored) bool {
		at, ok := o.Partitioner.Partition(key, f.partitions)
		return ok && known && at == f.partition
	}
	if i := slices.IndexFunc(found, belongs); i > 0 {
		first := found[i]
		found = slices.Insert(slices.Delete(found, i, i+1), 0, first)
	}
	all := make([]State, len(found))
	for i, f := range found {
		if all[i], err = f.inspect(o, user); err != nil {
			return State{}, err
		}
	}
	kept = slices.DeleteFunc(kept, func(k KeptAccount) bool { return k.EpsilonSpent == 0 })
	return total(o, all, kept), nil
}

// total is the first of a user's states with the others and the kept accounts in it, and what all
// have spent.
func total(o Options, all []State, kept []KeptAccount) State {
	spent, window, last := 0.0, 0.0, all[0].StepTime
	accounts := slices.Clone(all)
	for _, k := range kept {
		accounts = append(accounts, k.account)
	}
	for _, s := range accounts {
		spent += s.EpsilonSpent
		if s.StepTime.After(last) {
			last = s.StepTime
		}
	}
	for i := range accounts {
		window += o.spentInWindow(&accounts[i], last)
	}
	for i := range all {
		all[i].EpsilonSpentAll = spent
	}
	if all[0].EpsilonWindow != nil {
		for i := range all {
			all[i].EpsilonWindowAll = &window
		}
	}
	all[0].Elsewhere, all[0].Kept = all[1:], kept
	return all[0]
}

// spentInWindow is what a state has spent in the budget's window that ends with a step.
func (o Options) spentInWindow(s *State, last time.Time) float64 {
	return s.state.Ledger.SpentSince(o.windowSince(last.UnixMilli())).Epsilon()
}

// windowSince returns after which time a step has to end to count against the budget's limit in the
// step at lastMS. Both are Unix milliseconds.
func (o Options) windowSince(lastMS int64) int64 {
	return o.Release.Budget.Since(o.Model.StepAt(lastMS), o.Model.Step.Milliseconds())
}

// stored is a state as it was found.
type stored struct {
	partition  int32
	partitions int // of the topic
	offset     int64
	value      []byte
}

// findInChangelog returns a user's states, and what remains of erasures in partitions without one.
func findInChangelog(ctx context.Context, o Options, user string) (
	found []stored, kept []KeptAccount, err error,
) {
	client := o.Client()
	counts, err := admin.Partitions(ctx, client, wire.Options{}, o.Topics.Changelog)
	if err != nil {
		return nil, nil, topics.LostTopic(err, o.Topics.Changelog)
	}
	n := counts[o.Topics.Changelog]
	for p := range int32(n) {
		value, remains, err := lastValues(ctx, client, o, p, []byte(user))
		if err != nil {
			return nil, nil, err
		}
		if value.value != nil {
			value.partitions = n
			found = append(found, value)
		} else if remains != nil {
			k, err := keptAccount(o, user, p, remains)
			if err != nil {
				return nil, nil, fmt.Errorf("partition %d: %w", p, err)
			}
			kept = append(kept, k)
		}
	}
	return found, kept, nil
}

// keptAccount decodes what remains of an erased user in a partition.
func keptAccount(o Options, user string, p int32, value []byte) (k KeptAccount, err error) {
	kept, err := engine.DecodeKept(value)
	if err != nil {
		return k, err
	}
	k.Partition, k.ErasedAt = p, time.UnixMilli(kept.TimeMS).UTC()
	k.RawOffset = kept.Erasures[len(kept.Erasures)-1].Offset
	if len(kept.Account) > 0 {
		k.account, err = stored{partition: p, value: kept.Account}.inspect(o, user)
		k.Releases, k.EpsilonSpent = k.account.Releases, k.account.EpsilonSpent
	}
	return k, err
}

// ErasedError says that a user was erased, and what is kept. It is an ErrNoState.
type ErasedError struct{ Kept []KeptAccount }

// Error implements error.
func (e *ErasedError) Error() string {
	text := "the user has no state"
	for _, k := range e.Kept {
		text += "; " + k.String()
	}
	return text
}

// String says when the user was erased, and what is kept of the account.
func (k KeptAccount) String() string {
	account := fmt.Sprintf("the account is kept under a keyed hash: %d releases, Σε %g", k.Releases,
		k.EpsilonSpent)
	if k.EpsilonSpent == 0 { // a reset keeps the release number
		account = "no account is kept"
	}
	return fmt.Sprintf("the user was erased on %s, at raw offset %d of partition %d: %s",
		k.ErasedAt.Format(time.RFC3339), k.RawOffset, k.Partition, account)
}

// Is matches ErrNoState.
func (e *ErasedError) Is(target error) bool { return target == ErrNoState }

// lastValues reads a partition of the changelog for a user's state, and for what is kept of it if
// the user was erased.
func lastValues(ctx context.Context, client *kafka.Client, o Options, p int32, key []byte) (
	found stored, kept []byte, err error,
) {
	reader, err := topics.Open(ctx, client, o.Topics.Changelog, p, consumer.FetcherOptions{})
	if err != nil {
		return stored{}, nil, err
	}
	found = stored{partition: p, offset: -1}
	keptKey := string(engine.NewEraser(o.Key).Kept(key))
	err = reader.Entries(ctx, func(e task.Entry) error {
		switch string(e.Key) {
		case string(key):
			found.offset, found.value = e.Offset, bytes.Clone(e.Value)
			if e.Kind == task.Tombstone {
				found.value = nil
			}
		case keptKey:
			kept = bytes.Clone(e.Value)
		}
		return nil
	})
	return found, kept, err
}

// inspect decodes a state.
func (f stored) inspect(o Options, user string) (State, error) {
	var s mechanism.State
	if err := s.DecodeBinary(f.value); err != nil {
		return State{}, fmt.Errorf("partition %d: %w", f.partition, err)
	}
	model, known, err := o.modelOf(&s)
	if err != nil {
		return State{}, err
	}
	found := State{
		User: user, Partition: f.partition, Offset: f.offset, Bytes: len(f.value),
		Step: s.Step, Releases: s.Releases, EpsilonSpent: s.EpsilonSpent, PublishedAs: user,
		ModelID: s.Model.String(), OfThisModel: known,
		RadiusM: s.RadiusKM * 1000, Cells: s.Posterior.Len(), state: &s,
	}
	if s.Step < math.MaxInt64/max(s.StepMS, 1) && s.Step > math.MinInt64/max(s.StepMS, 1) {
		found.StepTime = time.UnixMilli(s.Step * s.StepMS).UTC()
		if o.Release.Budget.WindowSteps > 0 {
			spent := o.spentInWindow(&found, found.StepTime)
			found.EpsilonWindow = &spent
		}
	}
	if o.Publish.User == engine.UserPseudonym {
		found.PublishedAs = engine.Pseudonym(o.Key, user)
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
	ellipse := mechanism.EllipseOf(g, &s.Posterior)
	found.SigmaMajorM, found.SigmaMinorM = ellipse.MajorKM*1000, ellipse.MinorKM*1000
	found.AzimuthDeg = ellipse.AzimuthDeg
	if s.HasRelease {
		found.LastRelease = degreesOf(g, s.Release)
	}
	return found, nil
}

func degreesOf(g *grid.Grid, p grid.Point) *Place {
	lat, lon := g.ToDegrees(p)
	return &Place{lat, lon}
}

// modelOf finds the version whose model a state is of. Without one it is the first version, and ok
// is false.
func (o Options) modelOf(s *mechanism.State) (m *mobility.Model, ok bool, err error) {
	if o.Model.ID() == s.Model.String() {
		return o.Model, true, nil
	}
	for _, v := range o.Later {
		if v.ID.Model != s.Model {
			continue
		}
		model, err := v.Load()
		if err != nil {
			return nil, false, err
		}
		return model, true, nil
	}
	return o.Model, false, nil
}
