package inspect

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/recompute"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
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
	// Window is what each user has spent in the budget's window up to the user's last step, nil if
	// no budget over a window is set.
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

// ReportOptions say whose ledgers to sum up. Required is what Settings and Cluster require.
type ReportOptions struct {
	engine.Settings
	topics.Cluster
	// TempDir is where states go while it works: as large as the service's own store, and as
	// private. Default the system's.
	TempDir string
	Logger  *slog.Logger // default slog.Default()
}

// Ledgers sums up the accounts of all users in the changelog, as of the last transaction that was
// committed when it looks. It reads the changelog once. Its memory grows by 16 bytes a user.
func Ledgers(ctx context.Context, o ReportOptions) (Report, error) {
	if err := errors.Join(o.Cluster.Validate(), o.Settings.Validate()); err != nil {
		return Report{}, err
	}
	o.Settings, o.Cluster = o.Settings.WithDefaults(), o.Cluster.WithDefaults()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	recompute.Sweep(o.TempDir)
	counts, err := admin.Partitions(ctx, o.Client(), wire.Options{}, o.Topics.Changelog)
	if err != nil {
		return Report{}, topics.LostTopic(err, o.Topics.Changelog)
	}
	r := Report{
		Time: time.Now().UTC().Truncate(time.Second), Group: o.Group,
		Settings:          hex.EncodeToString(o.Fingerprint()),
		EpsilonPerRelease: o.Release.Epsilon,
	}
	var s sums
	for p := range int32(counts[o.Topics.Changelog]) {
		if err := o.partition(ctx, p, &r, &s); err != nil {
			return Report{}, fmt.Errorf("partition %d: %w", p, err)
		}
	}
	budget := o.Release.Budget
	r.Users = int64(len(s.lifetime))
	r.Lifetime = spending(s.lifetime, budget.Lifetime, o.Release.Epsilon)
	if budget.WindowSteps > 0 {
		window := spending(s.window, budget.Epsilon, o.Release.Epsilon)
		r.Window = &window
		r.WindowSeconds = (time.Duration(budget.WindowSteps) * o.Model.Step).Seconds()
	}
	return r, nil
}

// sums are what each user has spent.
type sums struct{ window, lifetime []ledger.Billionths }

// partition adds the users of one partition.
func (o ReportOptions) partition(ctx context.Context, p int32, r *Report, s *sums) error {
	reader, err := topics.Open(ctx, o.Client(), o.Topics.Changelog, p, consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	folder, err := recompute.NewFolder(o.TempDir, o.Logger)
	if err != nil {
		return err
	}
	states := folder.Map(0)
	changelog, err := recompute.ReadChangelog(ctx, reader, states)
	if err == nil {
		err = states.Flush()
	}
	if err == nil {
		var state mechanism.State
		err = states.Each(func(_ []byte, at int64, value []byte) error {
			if err := state.DecodeBinary(value); err != nil {
				return fmt.Errorf("the changelog's record at offset %d: %w", at, err)
			}
			s.lifetime = append(s.lifetime, state.Ledger.Spent())
			s.window = append(s.window, o.inWindow(&state))
			return nil
		})
	}
	if err = errors.Join(err, folder.Close()); err != nil {
		return err
	}
	for _, kept := range changelog.Erased {
		if len(kept.Account) > 0 {
			r.ErasedAccounts++
		}
	}
	if settings := changelog.Mark.Settings; len(settings) > 0 && !o.SameReleases(settings) {
		r.OtherSettings = append(r.OtherSettings, p)
	}
	return nil
}

// inWindow is what a user has spent in the budget's window that ends with the last step.
func (o ReportOptions) inWindow(s *mechanism.State) ledger.Billionths {
	if s.Step >= math.MaxInt64/max(s.StepMS, 1) || s.Step <= math.MinInt64/max(s.StepMS, 1) {
		return s.Ledger.Spent()
	}
	since := s.Step*s.StepMS -
		int64(o.Release.Budget.WindowSteps-1)*o.Model.Step.Milliseconds()
	return s.Ledger.SpentSince(since)
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
