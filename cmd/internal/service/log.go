package service

import (
	"context"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// partitionLog is task.Log on a fetcher.
type partitionLog struct {
	fetcher *consumer.Fetcher
	records []task.Record     // scratch
	fetched []consumer.Record // the last answer, as long as the fetcher keeps it
	// appended leaves out records that have a time of their producers: those from before the topic
	// got those of the brokers.
	appended bool
}

// Fetch implements task.Log.
func (l *partitionLog) Fetch(ctx context.Context, offset int64, wait time.Duration) (
	task.Batch, error,
) {
	got, err := l.fetcher.Poll(ctx, offset, wait)
	if err != nil {
		return task.Batch{}, readRemedy(err)
	}
	l.records, l.fetched = l.records[:0], got.Records
	for _, r := range got.Records {
		if l.appended && !r.Appended {
			continue
		}
		l.records = append(l.records, topics.Record(r))
	}
	return task.Batch{Records: l.records, Next: got.Next, StableEnd: got.StableEnd}, nil
}

// High implements task.Ended.
func (l *partitionLog) High(ctx context.Context) (end int64, err error) {
	end, err = l.fetcher.High(ctx)
	return end, readRemedy(err)
}

// Bounds implements task.Log.
func (l *partitionLog) Bounds(ctx context.Context) (first, end int64, err error) {
	first, end, err = l.fetcher.Bounds(ctx)
	return first, end, readRemedy(err)
}
