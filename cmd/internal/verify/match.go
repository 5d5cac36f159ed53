package verify

import (
	"bytes"
	"context"
	"fmt"
)

// window is how far a matcher looks ahead to tell a missing record from one that
// is elsewhere.
const window = 512

// manyViolations ends the search for what is wrong with one topic.
const manyViolations = 10_000

// matcher compares the records that there should be, in order, with those that
// there are. As long as they are the same it holds one of each.
type matcher struct {
	actual   *puller
	keep     func(*entry) bool // of the actual ones; the others are passed over
	required int64             // what is expected of raw offsets from here on may not be there yet
	lost     bool              // retention has removed a beginning of the actual ones
	report   func(kind string, offset int64, detail string)
	topic    string
	raw      string

	want, have []entry
	ended      bool // no more actual ones
	begun      bool // something was the same
	aged       int64
	equal      int64
	found      int // violations
	recent     map[digest]struct{}
	ring       [window]digest
	ringAt     int
	buf        []byte
}

// expect takes the next record that there should be. It keeps none of its memory.
func (m *matcher) expect(ctx context.Context, e *entry) error {
	if len(m.want) == 0 {
		if err := m.fill(ctx, 1); err != nil {
			return err
		}
		if len(m.have) > 0 && m.have[0].same(e) {
			m.matched(e)
			m.have = m.have[1:]
			return nil
		}
	}
	own := entry{
		Offset: e.Offset, Timestamp: e.Timestamp, Key: bytes.Clone(e.Key),
		Value: bytes.Clone(e.Value),
	}
	m.want = append(m.want, own)
	return m.settle(ctx, false)
}

// end compares what is left.
func (m *matcher) end(ctx context.Context) error {
	if err := m.settle(ctx, true); err != nil {
		return err
	}
	for {
		if err := m.fill(ctx, 1); err != nil || len(m.have) == 0 {
			return err
		}
		m.surplus()
	}
}

// settled reports that nothing is left of either side, as far as it is known.
func (m *matcher) settled() bool { return m.ended && len(m.have) == 0 && len(m.want) == 0 }

// settle works off what is expected, until it needs to know more of it.
func (m *matcher) settle(ctx context.Context, final bool) error {
	for len(m.want) > 0 {
		if err := m.fill(ctx, 1); err != nil {
			return err
		}
		switch {
		case len(m.have) == 0:
			if m.want[0].Offset < m.required {
				m.miss()
			}
			m.want = m.want[1:]
		case m.have[0].same(&m.want[0]):
			m.matched(&m.want[0])
			m.have, m.want = m.have[1:], m.want[1:]
		case m.lost && !m.begun:
			m.aged++
			m.want = m.want[1:]
		case len(m.want) < window && !final:
			return nil
		default:
			if err := m.fill(ctx, window); err != nil {
				return err
			}
			m.explain()
		}
	}
	return nil
}

// explain says what is wrong with two records that differ, and removes one of
// them or both. Further wrong ones come again.
func (m *matcher) explain() {
	want, have := &m.want[0], &m.have[0]
	there, due := position(m.have, want), position(m.want, have)
	switch {
	case due >= 0 && there > due:
		late := m.have[there]
		m.say(Order, late.Offset, "this record of %s comes too late: it is that of the fix at "+
			"offset %d of %s", m.topic, want.Offset, m.raw)
		m.remember(&late)
		m.have = append(m.have[:there], m.have[there+1:]...)
		m.want = m.want[1:]
	case due >= 0 && there >= 0:
		m.say(Order, have.Offset,
			"this record of %s comes too early: it is that of the fix at offset %d of %s", m.topic,
			m.want[due].Offset, m.raw)
		m.remember(have)
		m.want = append(m.want[:due], m.want[due+1:]...)
		m.have = m.have[1:]
	case due >= 0:
		m.miss()
		m.want = m.want[1:]
	case there >= 0 || want.Offset >= m.required:
		m.surplus()
	case bytes.Equal(want.Key, have.Key):
		m.say(Different, have.Offset, "this record of %s is not what the fix at offset %d "+
			"of %s gives", m.topic, want.Offset, m.raw)
		m.want, m.have = m.want[1:], m.have[1:]
	default:
		m.miss()
		m.want = m.want[1:]
	}
}

func position(entries []entry, e *entry) int {
	for i := range entries {
		if entries[i].same(e) {
			return i
		}
	}
	return -1
}

func (m *matcher) miss() {
	m.say(Missing, m.want[0].Offset,
		"the record at this offset of %s has no committed answer in %s", m.raw, m.topic)
}

// surplus reports the next actual record as one too many.
func (m *matcher) surplus() {
	have := &m.have[0]
	var d digest
	d, m.buf = have.digest(m.buf)
	if _, ok := m.recent[d]; ok {
		m.say(Duplicate, have.Offset, "this record of %s is there once more shortly before",
			m.topic)
	} else {
		m.say(Extra, have.Offset,
			"this record of %s is the answer to none of %s, or a late second one", m.topic, m.raw)
	}
	m.have = m.have[1:]
}

func (m *matcher) say(kind string, offset int64, format string, args ...any) {
	if m.found++; m.found <= manyViolations {
		m.report(kind, offset, fmt.Sprintf(format, args...))
	}
}

func (m *matcher) matched(e *entry) {
	m.begun = true
	m.equal++
	m.remember(e)
}

// remember keeps the last records that were found, to know them again.
func (m *matcher) remember(e *entry) {
	var d digest
	d, m.buf = e.digest(m.buf)
	delete(m.recent, m.ring[m.ringAt])
	m.ring[m.ringAt] = d
	m.ringAt = (m.ringAt + 1) % window
	m.recent[d] = struct{}{}
}

// fill reads actual records until there are n or no more.
func (m *matcher) fill(ctx context.Context, n int) error {
	for len(m.have) < n && !m.ended {
		e, ok, err := m.actual.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			m.ended = true
		} else if m.keep == nil || m.keep(&e) {
			m.have = append(m.have, e)
		}
	}
	return nil
}
