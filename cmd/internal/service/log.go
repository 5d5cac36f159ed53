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
	// appended returns an error if the topic gives records times of their producers. Records that
	// have such a time are left out, for example those from before the topic got those of the
	// brokers. Behind the last end that was checked, they lead to another check. Nil: any time will
	// do.
	appended func(ctx context.Context) error
	leftOut  func(offset int64) // is told the first one that is left out, after each check
	checked  int64
	left     int64 // how many were left out since somebody took the number
	reached  int64 // the offset up to which they were counted
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
		if l.appended != nil && !r.Appended {
			if err := l.check(ctx, r.Offset, got.StableEnd); err != nil {
				return task.Batch{}, err
			}
			if r.Offset >= l.reached {
				l.left++
			}
			continue
		}
		l.records = append(l.records, topics.Record(r))
	}
	l.reached = max(l.reached, got.Next)
	return task.Batch{
		Records: l.records, Next: got.Next, StableEnd: got.StableEnd, End: got.End,
		Epoch: got.Epoch,
	}, nil
}

// check looks at the topic where a record has a time of its producer. The log ended at end before.
func (l *partitionLog) check(ctx context.Context, offset, end int64) error {
	if offset < l.checked {
		return nil
	}
	err := readRemedy(l.appended(ctx))
	switch {
	case err == nil:
		l.checked = end
		l.leftOut(offset)
	case task.RemedyOf(err) == task.Unmarked:
		return task.WithRemedy(err, task.Fatal)
	}
	return err
}

// High implements task.Ended.
func (l *partitionLog) High(ctx context.Context) (end int64, err error) {
	end, err = l.fetcher.High(ctx)
	return end, readRemedy(err)
}

// EpochEnd implements task.Epochs.
func (l *partitionLog) EpochEnd(ctx context.Context, epoch int32) (end int64, err error) {
	end, err = l.fetcher.EpochEnd(ctx, epoch)
	return end, readRemedy(err)
}

// Bounds implements task.Log.
func (l *partitionLog) Bounds(ctx context.Context) (first, end int64, err error) {
	first, end, err = l.fetcher.Bounds(ctx)
	return first, end, readRemedy(err)
}
