package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Result is what Run has done.
type Result struct {
	Receipts []Receipt // by partition, and in the order of users
	// Unknown are the places in Options.Users of those of whom nothing is stored.
	Unknown []int
	// Pending are the places of those whose request is in the changelog and not carried out yet.
	Pending []int
}

// ErrPending says that not all requests were carried out in time.
var ErrPending = errors.New("not everybody is erased yet")

// Run erases users wherever they have a state. It returns when that is done in the changelog, or
// with ErrPending when the service has not carried it out in time: the requests then stay in the
// changelog, and the next owner of the partition carries them out. To repeat it is harmless, and
// gives the receipts.
//
// It reads the changelog once, and again in the partitions where somebody is erased. There it
// fences the running instance, which takes the partition up again: within seconds, or half a minute
// if the partition is idle.
func Run(ctx context.Context, o Options) (Result, error) {
	e, err := newEraser(o)
	if err != nil {
		return Result{}, err
	}
	counts, err := admin.Partitions(ctx, e.client, wire.Options{}, e.o.Topics.Changelog)
	if err != nil {
		return Result{}, topics.LostTopic(err, e.o.Topics.Changelog)
	}
	var result Result
	known := map[string]bool{}
	pending := map[string]bool{}
	for p := range int32(counts[e.o.Topics.Changelog]) {
		found, err := e.partition(ctx, p)
		for user, is := range found {
			known[user] = true
			pending[user] = pending[user] || is.pending
		}
		if err != nil {
			return result, fmt.Errorf("partition %d: %w", p, err)
		}
		made, err := (reporter{e}).receipts(ctx, p, found)
		result.Receipts = append(result.Receipts, made...)
		if err != nil {
			return result, err
		}
	}
	for i, user := range e.o.Users {
		switch {
		case !known[user]:
			result.Unknown = append(result.Unknown, i)
		case pending[user]:
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
