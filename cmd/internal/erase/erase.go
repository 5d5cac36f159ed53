// Package erase removes what a service has stored of people (GDPR, article 17): their states in the
// changelog, which every state folder then follows, and in the folder on this machine. It keeps
// their accounts of ε under a keyed hash, so that erasing is no way to reset a budget, unless it
// is told to drop them. A receipt without personal data says what was done, and what remains where.
//
// How it is done exactly once beside a running service: the service's DESIGN.md, "Erasing a
// person".
//
// Files: erase.go what is asked for and the order of the work; act.go what the changelog has of a
// user, and one partition's transaction; local.go the folder on this machine; receipt.go.
package erase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// Options are those of the service, and whom to erase. Required is what Settings and Cluster
// require, and Users. The service may be at work or not.
type Options struct {
	engine.Settings
	topics.Cluster
	StateDir string // the state folder on this machine; "": none
	// Counted is the service that counts what this one reads; nil: there is none.
	Counted *Counted
	Users   []string
	// ResetBudget also drops the accounts: a user who comes back starts at Σε = 0, beside what is
	// published already.
	ResetBudget bool
	DryRun      bool // only look, and not into the service that counts
	// Wait is how long to wait for a running service to carry out what it has to. Default 2 min.
	Wait          time.Duration
	MaxBatchBytes int          // size of a record batch that is written; default the producer's
	Logger        *slog.Logger // default slog.Default()
}

// eraser is one call of Run, or its part about another service: then o has the place of that
// service, and the users' names there.
type eraser struct {
	o        Options
	client   *kafka.Client
	names    names
	settings settings
	wanted   map[string]string // key in the changelog → its user
	now      func() time.Time
}

// names are the keys under which the changelog has what is not a state.
type names interface {
	task.Eraser
	RequestKey(user []byte) []byte
}

// settings are compared with those of the changelog's last mark.
type settings interface {
	SameReleases(fingerprint []byte) bool
	Differences(fingerprint []byte) string
}

func newEraser(o Options) (*eraser, error) {
	if err := errors.Join(o.Cluster.Validate(), o.Settings.Validate()); err != nil {
		return nil, err
	}
	o.Settings = o.Settings.WithDefaults()
	return eraserOf(o, engine.NewEraser(o.Key), o.Settings)
}

// eraserOf returns the eraser of a service with these names and settings.
func eraserOf(o Options, names names, settings settings) (*eraser, error) {
	if len(o.Users) == 0 {
		return nil, errors.New("name at least one user to erase")
	}
	o.Cluster = o.Cluster.WithDefaults()
	o.Wait = cmp.Or(o.Wait, 2*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	e := &eraser{
		o: o, client: o.Client(), names: names, settings: settings,
		wanted: map[string]string{}, now: time.Now,
	}
	for i, user := range o.Users {
		if !task.ValidKey([]byte(user)) {
			return nil, fmt.Errorf("user %d is empty or begins with a zero byte, as no user id "+
				"does", i+1)
		}
		if _, twice := e.wanted[user]; twice {
			return nil, fmt.Errorf("user %d is named twice", i+1)
		}
		e.want(user)
	}
	return e, nil
}

// want makes e look for the records of a user.
func (e *eraser) want(user string) {
	key := []byte(user)
	for _, of := range [][]byte{key, e.names.Kept(key), e.names.RequestKey(key)} {
		e.wanted[string(of)] = user
	}
}

// Result is what Run has done.
type Result struct {
	Receipts []Receipt // by partition, and in the order of users
	// Unknown are the places in Options.Users of those of whom nothing is stored.
	Unknown []int
	// Pending are the places of those whose request is in the changelog and not carried out yet.
	Pending []int
	// Stored is how many users have something to erase, with DryRun.
	Stored int
}

// ErrPending says that not all requests were carried out in time.
var ErrPending = errors.New("not everybody is erased yet")

// Run erases users wherever they have a state. It returns when that is done in the changelog, or
// with ErrPending when the service has not carried it out in time: the requests then stay in the
// changelog, and the next owner of the partition carries them out. To repeat it is harmless, and
// gives the receipts.
//
// It reads the changelog once, and again in the partitions where somebody is erased. There it
// fences the running instance, which takes the partition up again within fifteen seconds.
func Run(ctx context.Context, o Options) (Result, error) {
	e, err := newEraser(o)
	if err != nil {
		return Result{}, err
	}
	counts, err := admin.Partitions(ctx, e.client, wire.Options{}, e.o.Topics.Changelog)
	if err != nil {
		return Result{}, topics.LostTopic(err, e.o.Topics.Changelog)
	}
	var counted map[string]Elsewhere
	var notCounted error
	if !o.DryRun {
		counted, notCounted = e.counting(ctx)
	}
	result, err := e.run(ctx, counts[e.o.Topics.Changelog], reporter{e, counted}.receipts)
	return result, errors.Join(err, notCounted)
}

// RunCounted is Run where the service that counts is alone: of o it needs Counted, Key and Users.
// It gives receipts as long as the changelog has a trace of the erasure.
func RunCounted(ctx context.Context, o Options) (Result, error) {
	o.Cluster, o.StateDir, o.ResetBudget = o.Counted.Cluster, o.Counted.StateDir, false
	if err := o.Cluster.Validate(); err != nil {
		return Result{}, err
	}
	e, err := eraserOf(o, new(counting.Eraser), o.Counted)
	if err != nil {
		return Result{}, err
	}
	changelog := e.o.Topics.Changelog
	sizes, err := admin.Partitions(ctx, e.client, wire.Options{}, changelog)
	if err != nil {
		return Result{}, topics.LostTopic(err, changelog)
	}
	return e.run(ctx, sizes[changelog], reporter{eraser: e}.countedReceipts)
}

// run erases users from all partitions of the changelog.
func (e *eraser) run(ctx context.Context, partitions int, receipts receipter) (
	result Result, err error,
) {
	known := map[string]bool{}
	waiting, stored := map[string]bool{}, map[string]bool{}
	for p := range int32(partitions) {
		found, err := e.partition(ctx, p)
		for user, is := range found {
			known[user] = true
			waiting[user] = waiting[user] || is.pending
			if e.o.DryRun && !is.erased(e.o.ResetBudget) {
				stored[user] = true
			}
		}
		if err != nil {
			return result, fmt.Errorf("partition %d: %w", p, err)
		}
		if e.o.DryRun {
			continue
		}
		made, err := receipts(ctx, p, found)
		result.Receipts = append(result.Receipts, made...)
		if err != nil {
			return result, err
		}
	}
	result.Stored = len(stored)
	for i, user := range e.o.Users {
		switch {
		case !known[user]:
			result.Unknown = append(result.Unknown, i)
		case waiting[user]:
			result.Pending = append(result.Pending, i)
		}
	}
	if len(result.Pending) > 0 {
		return result, fmt.Errorf("%w: the requests of %d are in the changelog, and the owner of "+
			"the partition next carries them out. %s", ErrPending, len(result.Pending),
			e.advice(ctx))
	}
	return result, nil
}

// advice says what has to happen for requests to be carried out.
func (e *eraser) advice(ctx context.Context) string {
	if e.members(ctx) == 0 {
		return "No instance of the service is at work, and the last one did not stop cleanly, so " +
			"only the service can erase without a second release of what it had in hand: start " +
			"it, and repeat this command for the receipt"
	}
	return "The service is at work and far behind: repeat this command for the receipt"
}

// members is how many instances the group has, as far as it is known.
func (e *eraser) members(ctx context.Context) int {
	res, err := e.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{
		GroupIDs: []string{e.o.Group},
	})
	if err != nil {
		return 0
	}
	n := 0
	for _, g := range res.Groups {
		if g.GroupState != "" && g.GroupState != "Empty" && g.GroupState != "Dead" {
			n += max(len(g.Members), 1)
		}
	}
	return n
}

// counting erases the users from the service that counts, if there is one. It returns for each what
// a receipt says of it. An error is of that service alone.
func (e *eraser) counting(ctx context.Context) (about map[string]Elsewhere, err error) {
	about = map[string]Elsewhere{}
	for _, user := range e.o.Users {
		about[user] = Elsewhere{Code: noService}
	}
	other := e.o.Counted
	if other == nil {
		return about, nil
	}
	there := *e
	there.o.Cluster, there.o.StateDir, there.o.ResetBudget = other.Cluster, other.StateDir, false
	there.names, there.settings, there.wanted = new(counting.Eraser), other, map[string]string{}
	changelog := there.o.Topics.Changelog
	counts, err := admin.Partitions(ctx, there.client, wire.Options{}, changelog)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return about, nil
	}
	for _, user := range e.o.Users {
		about[user] = Elsewhere{Code: nothingStored}
		there.want(user)
	}
	left := 0
	for p := int32(0); err == nil && p < int32(counts[changelog]); p++ {
		var n int
		n, err = there.countedPartition(ctx, p, about)
		left += n
	}
	if err != nil {
		for user, is := range about {
			if is.Code != removed { // a partition that was not read may have something
				about[user] = Elsewhere{Code: pending}
			}
		}
		return about, fmt.Errorf("the service that counts (group %s): %w", there.o.Group, err)
	}
	if left > 0 {
		err = fmt.Errorf("%w from the service that counts: %d. %s", ErrPending, left,
			there.advice(ctx))
	}
	return about, err
}

// countedPartition erases users from a partition of the service that counts, adds what a receipt
// says of it, and returns how many are not erased yet.
func (e *eraser) countedPartition(
	ctx context.Context, p int32, about map[string]Elsewhere,
) (left int, err error) {
	found, err := e.partition(ctx, p)
	var local said
	if err == nil && len(found) > 0 {
		local, err = folder{e}.erase(ctx, p, found)
	}
	for user, is := range found {
		about[user] = Elsewhere{removed, local.about(user)}
		if is.pending {
			left++
			about[user] = Elsewhere{Code: pending}
		}
	}
	return left, err
}

// Counted is the service that counts by raw partition. Its output, Topics.Sanitized, is the topic
// of partial counts.
type Counted struct {
	topics.Cluster
	StateDir string // its folder on this machine; "": none
	// Published is the topic of what is published in the end, and Open how long a user's day may be
	// open after the erasure. RunCounted alone needs both.
	Published string
	Open      time.Duration
}

// SameReleases implements settings. What remains of a user there has the same name under all
// settings, and no count depends on when the user is erased.
func (*Counted) SameReleases([]byte) bool { return true }

// Differences implements settings.
func (*Counted) Differences([]byte) string { return "" }
