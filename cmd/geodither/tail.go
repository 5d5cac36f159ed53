package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	kafka "github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// tail reads every partition of a topic from its first offset, or its end. It
// stops at the offsets that were the ends when it began, or with the context if
// it follows.
type tail struct {
	client      *kafka.Client
	topic       string
	uncommitted bool
	fromEnd     bool
	follow      bool
}

// run calls each for every record, one call at a time, in offset order within a
// partition. The record is valid during the call only. An error of each ends it;
// the end of the context is an error unless it follows.
func (t tail) run(ctx context.Context, each func(partition int32, r consumer.Record) error) error {
	var refused error // of each; what else fails when the context ends, fails because of that
	err := t.all(ctx, func(partition int32, r consumer.Record) error {
		refused = each(partition, r)
		return refused
	})
	switch {
	case err == nil || refused != nil || ctx.Err() == nil:
		return err
	case t.follow && errors.Is(ctx.Err(), context.Canceled):
		return nil
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// all reads the partitions at the same time. Once each has failed it is not
// called again, and its error is the answer, whichever partition ends first.
func (t tail) all(ctx context.Context, each func(partition int32, r consumer.Record) error) error {
	counts, err := admin.Partitions(ctx, t.client, wire.Options{}, t.topic)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	var first error
	for p := range int32(counts[t.topic]) {
		group.Go(func() error {
			return t.partition(ctx, p, func(r consumer.Record) error {
				mu.Lock()
				defer mu.Unlock()
				if first != nil {
					return first
				}
				if err := each(p, r); err != nil {
					first = fmt.Errorf("%s/%d at offset %d: %w", t.topic, p, r.Offset, err)
				}
				return first
			})
		})
	}
	return group.Wait()
}

func (t tail) partition(ctx context.Context, p int32, each func(consumer.Record) error) error {
	fetcher, err := consumer.NewFetcher(t.client, t.topic, p, consumer.FetcherOptions{Uncommitted: t.uncommitted})
	if err != nil {
		return err
	}
	offset, end, err := fetcher.Bounds(ctx)
	if err != nil {
		return err
	}
	if t.fromEnd {
		offset = end
	}
	for t.follow || offset < end {
		got, err := fetcher.Fetch(ctx, offset)
		if err != nil {
			return err
		}
		for _, r := range got.Records {
			if !t.follow && r.Offset >= end {
				break
			}
			if err := each(r); err != nil {
				return err
			}
		}
		offset = got.Next
	}
	return nil
}
