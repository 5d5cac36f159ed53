package counting

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
)

// userState is in which windows a user counts, by day, of days that are not closed. It is what
// counts.Counter says of a log in its order, without places. Bytes, as uvarints:
//
//	version 1 | for each day: days since the one before, or 1970 | n |
//	n × index of the window, less the one before it, from -1 on, and less one
type userState []userDay

type userDay struct {
	date    counts.Date
	windows []uint16 // indexes in Plan.Windows, ascending
}

// on returns a day.
func (u *userState) on(date counts.Date) *userDay {
	at, found := slices.BinarySearchFunc(*u, date, func(d userDay, date counts.Date) int {
		return cmp.Compare(d.date, date)
	})
	if !found {
		*u = slices.Insert(*u, at, userDay{date: date})
	}
	return &(*u)[at]
}

// next says whether a fix counts that comes after all others: it is the first one of its window,
// and the day has room for it.
func (d *userDay) next(window uint16, perDay int) (counted bool) {
	at, found := slices.BinarySearch(d.windows, window)
	if found || len(d.windows) >= perDay {
		return false
	}
	d.windows = slices.Insert(d.windows, at, window)
	return true
}

func (u userState) appendTo(b []byte) []byte {
	b = append(b, version)
	date := counts.Date(0)
	for _, d := range u {
		b = binary.AppendUvarint(b, uint64(d.date-date))
		b = binary.AppendUvarint(b, uint64(len(d.windows)))
		before := -1
		for _, window := range d.windows {
			b = binary.AppendUvarint(b, uint64(int(window)-before-1))
			before = int(window)
		}
		date = d.date
	}
	return b
}

var errUser = errors.New("a user's day cannot be read: the changelog holds something else")

// decodeUser reads a state; no bytes are a user who has not counted.
func decodeUser(b []byte) (u userState, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	r, date := readerOf(b), uint64(0)
	r.version()
	for len(r.Rest) > 0 {
		later, n := r.Uvarint(), r.Uvarint()
		if later == 0 || later > math.MaxInt32-date || n == 0 || n > counts.MaxPerDay {
			return nil, errUser
		}
		date += later
		day, window := userDay{date: counts.Date(date)}, uint64(0)
		for range n {
			window += r.Uvarint() + 1
			if window > counts.MaxPerDay {
				return nil, errUser
			}
			day.windows = append(day.windows, uint16(window-1))
		}
		u = append(u, day)
	}
	if r.Short {
		return nil, errUser
	}
	return u, nil
}

// Eraser is task.Eraser for users' days. An erased user's day stays until it is closed, without a
// place: without it the user would count once more that day. It stays also where an account of ε is
// dropped, because that is no matter of the counts. Windows removes it with the states of all users
// of that day (Partitioned.Expires).
//
// Names have no key, as those of engine.SmoothEraser: the changelog has ids until a day is closed.
type Eraser struct{ engine.SmoothEraser }

// Erase implements task.Eraser.
func (*Eraser) Erase(_ task.Request, _ int64, state, kept []byte) (remains []byte, err error) {
	if len(state) > 0 {
		return state, nil
	}
	return kept, nil
}

// Recall implements task.Eraser.
func (*Eraser) Recall(kept []byte) (state, remains []byte, err error) { return kept, nil, nil }
