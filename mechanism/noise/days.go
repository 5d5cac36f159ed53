package noise

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Day is a day in UTC, counted from 1970-01-01, which is day 0. A key has a noise key of its own
// for each day, so that the noise keys of past days can be destroyed. Day 0 also stands for
// everything before it, LastDay for everything after it.
type Day int32

// dayBits is the height of the tree of days, and LastDay its last leaf: 2²¹ days are some 5,700
// years.
const dayBits = 21

// LastDay is 7711-10-22. A step that begins later is on this day too.
const LastDay Day = 1<<dayBits - 1

const (
	dayMS     = 24 * 60 * 60 * 1000
	dayLayout = time.DateOnly
)

// DayAt returns the day of a time in Unix milliseconds. Any time has one.
func DayAt(unixMS int64) Day {
	return Day(min(max(unixMS, 0)/dayMS, int64(LastDay)))
}

// ParseDay reads a day such as 2026-11-21.
func ParseDay(text string) (Day, error) {
	at, err := time.Parse(dayLayout, text)
	if err != nil {
		return 0, fmt.Errorf("%q is no day, as 2026-11-21 is", text)
	}
	day := DayAt(at.UnixMilli())
	if !at.Equal(day.Start()) {
		return 0, fmt.Errorf("the day %s is not %v to %v", text, Day(0), LastDay)
	}
	return day, nil
}

// Start returns the moment at which the day begins.
func (d Day) Start() time.Time { return time.UnixMilli(int64(d) * dayMS).UTC() }

// String returns the day as 2026-11-21.
func (d Day) String() string { return d.Start().Format(dayLayout) }

// KeySize is the length of a key in bytes, and of every secret derived from it.
const KeySize = 32

// The secrets of all days are the leaves of a binary tree (Goldreich, Goldwasser and Micali 1986,
// doi 10.1145/6490.6503): a node gives its two halves by HKDF-Expand-SHA-256 under two labels, and
// nothing leads from a node to its parent or its sibling. A key from a day on holds the fewest
// nodes whose leaves are that day and all later ones, at most one for each level. So the tree is a
// ratchet that goes forward only, like a chain of one secret a day. But a chain takes a step for
// each day: a fix that claims to be from the year 200,000 would cost as many steps as there are
// days until then. The tree takes 21 steps to any day.

// Labels of the derivation. Two labels differ in more than their ends, and none is the beginning of
// another.
const (
	saltKey      = "geodither key 1"
	labelDays    = "geodither 1: all days"
	labelEarlier = "geodither 1: earlier half of these days"
	labelLater   = "geodither 1: later half of these days"
	labelNoise   = "geodither 1: noise of this day"
)

// subtree is the secret of the 2^height days from first on. first is a multiple of 2^height.
type subtree struct {
	first  Day
	height int
	secret [KeySize]byte
}

// last is the last day of a subtree.
func (s *subtree) last() Day { return s.first + 1<<s.height - 1 }

// expand derives a secret from a secret.
func expand(secret []byte, label string) (derived [KeySize]byte) {
	b, err := hkdf.Expand(sha256.New, secret, label, KeySize)
	if err != nil {
		// only lengths above 8,160 bytes are refused
		panic("noise: HKDF refuses 32 bytes: " + err.Error())
	}
	copy(derived[:], b)
	return derived
}

// extract derives a subkey from a whole key.
func extract(master *[KeySize]byte, label string) (derived [KeySize]byte) {
	b, err := hkdf.Key(sha256.New, master[:], []byte(saltKey), label, KeySize)
	if err != nil {
		panic("noise: HKDF refuses 32 bytes: " + err.Error())
	}
	copy(derived[:], b)
	return derived
}

// descend returns the subtree of a height that holds a day, which s must hold.
func (s subtree) descend(day Day, height int) subtree {
	for s.height > height {
		s.height--
		half := Day(1) << s.height
		if day-s.first >= half {
			s.first, s.secret = s.first+half, expand(s.secret[:], labelLater)
		} else {
			s.secret = expand(s.secret[:], labelEarlier)
		}
	}
	return s
}

// coverFrom calls visit with the first day and the height of each of the fewest subtrees that hold
// the days from first to LastDay, in order.
func coverFrom(first Day, visit func(first Day, height int)) {
	for first <= LastDay {
		height := min(bits.TrailingZeros32(uint32(first)), dayBits)
		visit(first, height)
		first += 1 << height
	}
}

// ErrDestroyed is what a DestroyedError wraps.
var ErrDestroyed = errors.New("this day's noise key was destroyed")

// DestroyedError says that a key has no noise for a day.
type DestroyedError struct {
	Day   Day // the day that was asked for
	First Day // the first one that the key has
}

// Error names both days.
func (e *DestroyedError) Error() string {
	return fmt.Sprintf("%v: %v was asked for, and the key begins at %v; only a copy of an older "+
		"key file has that day", ErrDestroyed, e.Day, e.First)
}

// Unwrap returns ErrDestroyed.
func (*DestroyedError) Unwrap() error { return ErrDestroyed }

// within finds the subtree that holds a day.
func within(days []subtree, day Day) (*subtree, error) {
	for i := range days {
		if s := &days[i]; day >= s.first && day <= s.last() {
			return s, nil
		}
	}
	first := LastDay
	if len(days) > 0 {
		first = days[0].first
	}
	return nil, &DestroyedError{Day: day, First: first}
}

// daysFrom returns the subtrees of the days from first on, and of none before.
func daysFrom(days []subtree, first Day) ([]subtree, error) {
	if _, err := within(days, first); err != nil {
		return nil, err
	}
	var kept []subtree
	coverFrom(first, func(start Day, height int) {
		// Each subtree of the cover lies within one of days, which are a cover of earlier days.
		if s, err := within(days, start); err == nil {
			kept = append(kept, s.descend(start, height))
		}
	})
	return kept, nil
}
