package gather

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// Records are the committed records of a sanitized topic.
type Records struct {
	Client   *kafka.Client
	Topic    string
	Encoding schemas.Encoding
}

// partition is one partition of a sanitized topic, between the bounds that it had when it was
// opened.
type partition struct {
	name   string
	reader *topics.Reader
	codec  *schemas.Codec
}

func (s Records) open(ctx context.Context) (all []partition, err error) {
	counts, err := admin.Partitions(ctx, s.Client, wire.Options{}, s.Topic)
	if err != nil {
		return nil, err
	}
	for p := range int32(counts[s.Topic]) {
		one := partition{name: fmt.Sprintf("%s/%d", s.Topic, p)}
		if one.codec, err = schemas.NewCodec(s.Encoding); err != nil {
			return nil, err
		}
		one.reader, err = topics.Open(ctx, s.Client, s.Topic, p, consumer.FetcherOptions{})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// scan reads from an offset up to another.
func (p partition) scan(ctx context.Context, from, end int64,
	each func(schemas.Sanitized, string) error,
) error {
	return p.reader.Scan(ctx, from, end, func(r consumer.Record) error {
		where := fmt.Sprintf("%s at offset %d", p.name, r.Offset)
		record, err := p.codec.DecodeSanitized(r.Value)
		if err != nil {
			return fmt.Errorf("%s: %w; is this a sanitized topic?", where, err)
		}
		return each(record, where)
	})
}

// held reads what the partition had when it was opened.
func (p partition) held(ctx context.Context, each func(schemas.Sanitized, string) error) error {
	return p.scan(ctx, p.reader.First, p.reader.End, each)
}

// Held returns a source for each partition, from its first offset to the end that it has now.
func (s Records) Held(ctx context.Context) (held []files.Source, err error) {
	all, err := s.open(ctx)
	for _, p := range all {
		held = append(held, p.held)
	}
	return held, err
}

// Follow calls each for one record at a time until the context ends, which is no error. First come
// the records that the topic has, from all partitions in the order of their steps, because a window
// of the fleet is closed when later ones have come; then those that are written, as they come.
func (s Records) Follow(ctx context.Context, each func(schemas.Sanitized) error) error {
	err := s.follow(ctx, each)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	return err
}

func (s Records) follow(ctx context.Context, each func(schemas.Sanitized) error) error {
	all, err := s.open(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	take := func(record schemas.Sanitized, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		return each(record)
	}
	var held []files.Source
	for _, p := range all {
		held = append(held, p.held)
	}
	if err := files.Merge(ctx, held, take); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range all {
		group.Go(func() error { return p.scan(ctx, p.reader.End, math.MaxInt64, take) })
	}
	return group.Wait()
}
