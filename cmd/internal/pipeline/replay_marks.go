package pipeline

import (
	"bytes"
	"context"
	"slices"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// versions finds out which versions of the model count from where: those that the first
// release has adopted, before the end. Under other settings there is no such thing, and
// for what would be another release anyway all count by event time alone.
func (p *planner) versions(part *ReplayPartition, mark task.Mark) error {
	part.amended = FromTheStart(p.first.Later)
	if !bytes.Equal(mark.Settings, p.settings) {
		return nil
	}
	adopted := slices.DeleteFunc(mark.Amendments, func(a task.Amendment) bool { return a.From >= part.To })
	found, err := Resolve(adopted, p.first.Later)
	if err == nil {
		part.amended = found
	}
	return err
}

// shorten makes a partition the one that an earlier run has begun with, and answers false
// if it is another. While that ran, the service may have come further and adopted versions that
// the run knew nothing of. Without an end of its own it then ends before them, as it would
// have, and not before where it has come to.
func (p *planner) shorten(part *ReplayPartition, own task.Mark) bool {
	open := !p.r.To.IsOffset && p.r.To.Time.IsZero()
	for try := *part; ; try.amended = try.amended[:len(try.amended)-1] {
		if n := len(try.amended); n < len(part.amended) {
			try.To = min(try.To, part.amended[n].From)
		}
		if bytes.Equal(own.Settings, try.window(p.settings, p.r.Output).settings) {
			*part = try
			return true
		}
		if n := len(try.amended); n == 0 || !open || try.amended[n-1].From < own.Input {
			return false
		}
	}
}

// lastMark looks for the last mark of a changelog's partition: at the end first.
// A topic that does not exist has none.
func (p *planner) lastMark(ctx context.Context, topic string, n int32) (mark task.Mark, found bool, err error) {
	mark = task.Mark{Origin: -1}
	if there, err := p.exists(ctx, topic); err != nil || !there {
		return mark, false, err
	}
	f, err := consumer.NewFetcher(p.client, topic, n, consumer.FetcherOptions{})
	if err != nil {
		return mark, false, err
	}
	first, end, err := f.Bounds(ctx)
	for step := int64(16); err == nil && end > first && !found; step *= 8 {
		at := max(first, end-step)
		err = scan(ctx, f, at, end, func(r consumer.Record) error {
			if string(r.Key) != task.MarkKey {
				return nil
			}
			m, err := task.DecodeMark(r.Value)
			mark, found = m.Clone(), true
			return err
		})
		end = at
	}
	return mark, found, err
}
