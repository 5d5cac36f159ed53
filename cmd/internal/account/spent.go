package account

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/ledger"
)

// Report is what all users of a service have spent, without their ids.
type Report struct {
	Time     time.Time `json:"time"` // at which the changelog was read
	Group    string    `json:"group"`
	Settings string    `json:"settings"` // fingerprint of the config's
	// OtherSettings are the partitions that were last written under other settings. Their users are
	// counted all the same, against the config's limits.
	OtherSettings []int32 `json:"other_settings,omitempty"`
	// EpsilonPerRelease is what the next release costs under the config.
	EpsilonPerRelease float64 `json:"epsilon_per_release"`
	// Users have a state and an account. A user with states in two partitions counts twice, since
	// each has a budget of its own.
	Users int64 `json:"users"`
	// ErasedAccounts are accounts of erased users that are kept. They are in no other figure.
	ErasedAccounts int64 `json:"erased_accounts"`
	// Window is what counts against the budget's limit in each user's last step, nil if no budget
	// over a window is set.
	Window        *Spending `json:"window,omitempty"`
	WindowSeconds float64   `json:"window_seconds,omitempty"`
	Lifetime      Spending  `json:"lifetime"`
}

// Spending says how Σε is distributed over users.
type Spending struct {
	Limit *float64 `json:"limit"` // of the budget; nil: none
	// AtLimit is how many users have no release left, which the next one would exceed.
	AtLimit int64 `json:"users_at_limit"`
	// P50, P90 and P99 are the least Σε such that so many percent of users have spent no more.
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Accounts sums up the accounts of all users in the changelog, as of the last transaction that was
// committed when it looks. It reads the changelog once. Its memory grows by some 60 bytes a user.
func Accounts(ctx context.Context, o Options) (Report, error) {
	o, err := o.prepare()
	if err != nil {
		return Report{}, err
	}
	counts, err := admin.Partitions(ctx, o.Client(), wire.Options{}, o.Topics.Changelog)
	if err != nil {
		return Report{}, topics.LostTopic(err, o.Topics.Changelog)
	}
	r := Report{
		Time: time.Now().UTC().Truncate(time.Second), Group: o.Group,
		Settings:          hex.EncodeToString(o.Fingerprint()),
		EpsilonPerRelease: o.Release.Epsilon,
	}
	var lifetime, window []ledger.Billionths
	for p := range int32(counts[o.Topics.Changelog]) {
		users, err := accounts(ctx, o, p, &r)
		if err != nil {
			return Report{}, fmt.Errorf("partition %d: %w", p, err)
		}
		for _, u := range users {
			lifetime, window = append(lifetime, u.lifetime), append(window, u.window)
		}
	}
	budget := o.Release.Budget
	r.Users = int64(len(lifetime))
	r.Lifetime = spending(lifetime, budget.Lifetime, o.Release.Epsilon)
	if budget.WindowSteps > 0 {
		in := spending(window, budget.Epsilon, o.Release.Epsilon)
		r.Window = &in
		r.WindowSeconds = (time.Duration(budget.WindowSteps) * o.Model.Step).Seconds()
	}
	return r, nil
}

// account is what a user has spent.
type account struct{ lifetime, window ledger.Billionths }

// accounts reads what the users of one partition have spent, by a hash of their ids: ids take many
// times the memory.
func accounts(ctx context.Context, o Options, p int32, r *Report) (map[uint64]account, error) {
	reader, err := topics.Open(ctx, o.Client(), o.Topics.Changelog, p, consumer.FetcherOptions{})
	if err != nil {
		return nil, err
	}
	seed := maphash.MakeSeed()
	users, kept := map[uint64]account{}, map[string]bool{}
	var settings []byte
	var state mechanism.State
	err = reader.Entries(ctx, func(e task.Entry) (err error) {
		switch user := maphash.Bytes(seed, e.Key); e.Kind {
		case task.Marked:
			settings = bytes.Clone(e.Mark.Settings)
		case task.Tombstone:
			delete(users, user)
		case task.Stated:
			err = state.DecodeBinary(e.Value)
			users[user] = account{state.Ledger.Spent(), inWindow(o, &state)}
		case task.Kept:
			var k engine.Kept
			var spent float64
			if k, err = engine.DecodeKept(e.Value); err == nil {
				spent, err = k.Spent()
			}
			kept[string(e.Key)] = spent > 0
		case task.Foreign, task.Requested, task.Common: // no account
		}
		if err != nil {
			return fmt.Errorf("the changelog's record at offset %d: %w", e.Offset, err)
		}
		return nil
	})
	for _, is := range kept {
		if is {
			r.ErasedAccounts++
		}
	}
	if len(settings) > 0 && !o.SameReleases(settings) {
		r.OtherSettings = append(r.OtherSettings, p)
	}
	return users, err
}

// inWindow is what counts against the budget's limit in a user's last step.
func inWindow(o Options, s *mechanism.State) ledger.Billionths {
	if s.Step >= math.MaxInt64/max(s.StepMS, 1) || s.Step <= math.MinInt64/max(s.StepMS, 1) {
		return s.Ledger.Spent()
	}
	return s.Ledger.SpentSince(o.windowSince(s.Step * s.StepMS))
}

// spending sums up what users have spent, of which it changes the order. A limit of 0 is none.
func spending(spent []ledger.Billionths, limit, epsilon float64) Spending {
	var s Spending
	slices.Sort(spent)
	n := len(spent)
	if limit > 0 {
		s.Limit = &limit
		for _, x := range spent {
			if x.Plus(ledger.CostOf(epsilon)) > ledger.LimitOf(limit) {
				s.AtLimit++
			}
		}
	}
	if n == 0 {
		return s
	}
	quantile := func(percent int) float64 { return spent[(n*percent+99)/100-1].Epsilon() }
	s.P50, s.P90, s.P99, s.Max = quantile(50), quantile(90), quantile(99), quantile(100)
	for _, x := range spent {
		s.Mean += x.Epsilon() / float64(n)
	}
	return s
}
