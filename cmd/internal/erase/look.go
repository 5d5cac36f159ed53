package erase

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
)

// userFound is what one partition of the changelog has of a user.
type userFound struct {
	state     []byte // empty: none
	tombstone int64  // offset of the last record that removes a state; -1: there is none any more
	kept      []byte // what remains of an earlier erasure
	dropped   int64  // offset of the last record that removes what remained; -1: there is none
	// erasedMS is the time of the last erasure, and input the raw offset of the first mark behind
	// it that the cleaner has left.
	erasedMS, input int64
	request         []byte // that is not carried out yet
	pending         bool   // it was still not carried out when Run gave up
}

// erased reports that nothing is left to do.
func (f *userFound) erased(reset bool) bool {
	if len(f.state) > 0 || len(f.request) > 0 {
		return false
	}
	if !reset {
		return true // what remains is the processor's, in its own format
	}
	kept, err := engine.DecodeKept(f.kept)
	return err == nil && len(kept.Account) == 0
}

// over reports that the user was erased, and that what remained has been removed since.
func (f *userFound) over() bool {
	return len(f.state) == 0 && f.tombstone >= 0 && f.dropped > f.tombstone
}

// looking is a partition of the changelog, read up to an offset.
type looking struct {
	*topics.Reader
	of     *eraser
	found  map[string]*userFound
	behind []*userFound // their erasures have no mark behind them yet
	mark   task.Mark
	marks  int
}

// look reads a partition for the users that are to be erased.
func look(ctx context.Context, e *eraser, p int32) (*looking, error) {
	r, err := topics.Open(ctx, e.client, e.o.Topics.Changelog, p, consumer.FetcherOptions{})
	if err != nil {
		return nil, err
	}
	l := &looking{Reader: r, of: e, found: map[string]*userFound{}}
	return l, l.goOn(ctx)
}

// goOn reads what has been added since.
func (l *looking) goOn(ctx context.Context) error {
	return l.Entries(ctx, func(e task.Entry) error {
		if e.Kind == task.Marked {
			l.mark = e.Mark.Clone()
			l.marks++
			for _, f := range l.behind {
				f.input = l.mark.Input
			}
			l.behind = l.behind[:0]
		} else if user, ok := l.of.wanted[string(e.Key)]; ok {
			l.take(user, e)
		}
		return nil
	})
}

// take takes note of a record of a user.
func (l *looking) take(user string, e task.Entry) {
	f := l.found[user]
	if f == nil {
		f = &userFound{tombstone: -1, dropped: -1}
		l.found[user] = f
	}
	value := bytes.Clone(e.Value)
	switch e.Kind {
	case task.Stated:
		f.state = value
	case task.Tombstone: // a user who is at work may come back at once, so a state may follow
		f.state, f.tombstone = nil, e.Offset
		l.erased(f, e)
	case task.Kept:
		if f.kept = value; len(value) == 0 {
			f.dropped = e.Offset
		} else if f.tombstone < 0 { // the cleaner was there
			l.erased(f, e)
		}
	case task.Requested:
		f.request = value
	case task.Foreign, task.Marked, task.Common: // of no user
	}
}

// erased takes note of an erasure.
func (l *looking) erased(f *userFound, e task.Entry) {
	f.erasedMS = e.Timestamp
	l.behind = append(l.behind, f)
}

// requests is how many users wait for the partition's owner.
func (l *looking) requests() (n int) {
	for _, f := range l.found {
		if len(f.request) > 0 {
			n++
		}
	}
	return n
}

// drop forgets users of whom nothing is left but removed records: those are unknown.
func (l *looking) drop() {
	for user, f := range l.found {
		if len(f.state) == 0 && len(f.kept) == 0 && len(f.request) == 0 && !f.over() {
			delete(l.found, user)
		}
	}
}

// sorted lists the users of a partition in the order in which they were named.
func sorted(found map[string]*userFound, users []string) []string {
	place := map[string]int{}
	for i, user := range users {
		place[user] = i
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Compare(place[a], place[b])
	})
}
