package task

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// status says what became of a record in a simulated log.
type status uint8

const (
	plain     status = iota // not transactional, or the transaction is committed
	pending                 // its transaction is open
	aborted                 // its transaction was aborted
	control                 // a transaction's marker
	compacted               // removed by the cleaner
)

type logEntry struct {
	status    status
	rec       Message
	horizonMS int64 // tombstones: when the cleaner may remove it; 0 not cleaned yet
}

// simLog is one partition of a simulated broker. Offsets are indexes.
type simLog struct {
	entries []logEntry
	first   int64
	visible int64 // entries beyond do not exist yet; -1: all do
	held    bool  // entries from heldAt on belong to open transactions
	heldAt  int64
	history []Message // what was committed, by offset; survives the cleaner
}

var errRange = errors.New("offset out of range")

func (l *simLog) high() int64 {
	if l.visible >= 0 {
		return l.visible
	}
	return int64(len(l.entries))
}

// stable is the last stable offset.
func (l *simLog) stable() int64 {
	end := l.high()
	if l.held {
		end = l.heldAt
	}
	for i := l.first; i < end; i++ {
		if l.entries[i].status == pending {
			return i
		}
	}
	return end
}

func (l *simLog) append(s status, ms ...Message) {
	for _, m := range ms {
		l.entries = append(l.entries, logEntry{status: s, rec: clone(m)})
		l.history = append(l.history, Message{})
	}
}

// resolve ends the open transaction.
func (l *simLog) resolve(to status) {
	touched := false
	for i := range l.entries {
		if e := &l.entries[i]; e.status == pending {
			e.status, touched = to, true
			if to == plain {
				l.history[i] = e.rec
			}
		}
	}
	if touched {
		l.append(control, Message{})
	}
}

// read is Fetch: at most limit entries are looked at.
func (l *simLog) read(offset int64, limit int) (Batch, error) {
	if offset < l.first || offset > l.high() {
		return Batch{}, errRange
	}
	b := Batch{Next: offset, StableEnd: l.stable()}
	for ; b.Next < b.StableEnd && limit > 0; limit-- {
		if e := l.entries[b.Next]; e.status == plain {
			m := clone(e.rec)
			b.Records = append(b.Records,
				Record{Offset: b.Next, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value})
		}
		b.Next++
	}
	return b, nil
}

// compact keeps the last value of each key below the stable end, and removes
// tombstones whose time is up.
func (l *simLog) compact(nowMS, retentionMS int64) {
	last := map[string]int64{}
	end := l.stable()
	for i := l.first; i < end; i++ {
		if l.entries[i].status == plain {
			last[string(l.entries[i].rec.Key)] = i
		}
	}
	for i := l.first; i < end; i++ {
		e := &l.entries[i]
		switch {
		case e.status == aborted:
			e.status = compacted
		case e.status != plain:
		case last[string(e.rec.Key)] != i:
			e.status = compacted
		case len(e.rec.Value) == 0 && e.horizonMS == 0:
			e.horizonMS = nowMS + retentionMS
		case len(e.rec.Value) == 0 && nowMS > e.horizonMS:
			e.status = compacted
		}
	}
}

// trim moves the log start to the first record that is left.
func (l *simLog) trim() {
	for end := l.stable(); l.first < end; l.first++ {
		if s := l.entries[l.first].status; s == plain {
			return
		}
	}
}

// fold is the state that the first n offsets of the changelog amount to.
func (l *simLog) fold(n int64) map[string]string {
	states := map[string]string{}
	for _, m := range l.history[:n] {
		switch {
		case !stated(m.Key):
		case len(m.Value) == 0:
			delete(states, string(m.Key))
		default:
			states[string(m.Key)] = string(m.Value)
		}
	}
	return states
}

// stated reports whether a key has a state: a record's key, or a name of the partition.
func stated(key []byte) bool {
	return ValidKey(key) || bytes.HasPrefix(key, []byte(PartitionKey))
}

// ever reports whether value was committed for key before offset n.
func (l *simLog) ever(key, value string, n int64) bool {
	for _, m := range l.history[:n] {
		if string(m.Key) == key && string(m.Value) == value {
			return true
		}
	}
	return false
}

// committed lists what a read_committed reader sees.
func (l *simLog) committed() (ms []Message) {
	for _, e := range l.entries {
		if e.status == plain {
			ms = append(ms, e.rec)
		}
	}
	return ms
}

func clone(m Message) Message {
	return Message{
		Key: slices.Clone(m.Key), Value: slices.Clone(m.Value), Timestamp: m.Timestamp, To: m.To,
	}
}

// simStore is a store that remembers its applies, to lose some in a crash.
type simStore struct {
	applied []simApply
	synced  int // applies that a crash cannot lose
	// memory handed out by Get, spoilt at the next call
	given []byte
	call  func(name string, effect func()) error // of the task that runs on it
	of    int                                    // the changelog that it is a copy of
}

type simApply struct {
	changes []Message
	at      Positions
	wipe    bool
}

func (s *simStore) spoil() {
	for i := range s.given {
		s.given[i] ^= 0xff
	}
	s.given = nil
}

func (s *simStore) contents() (states map[string]string, at Positions, found bool) {
	states = map[string]string{}
	for _, a := range s.applied {
		if a.wipe {
			clear(states)
			found = false
			continue
		}
		for _, c := range a.changes {
			switch {
			case !stated(c.Key): // the mark
			case len(c.Value) == 0:
				delete(states, string(c.Key))
			default:
				states[string(c.Key)] = string(c.Value)
			}
		}
		at, found = a.at, true
	}
	return states, at, found
}

func (s *simStore) Positions() (Positions, bool, error) {
	s.spoil()
	if err := s.call("Positions", func() {}); err != nil {
		return Positions{}, false, err
	}
	_, at, found := s.contents()
	return at, found, nil
}

func (s *simStore) Get(key []byte) ([]byte, error) {
	s.spoil()
	if err := s.call("Get", func() {}); err != nil {
		return nil, err
	}
	s.given = s.get(key)
	return s.given, nil
}

// get returns the value of a key, of the mark too; nil if there is none.
func (s *simStore) get(key []byte) (value []byte) {
	for _, a := range s.applied {
		if a.wipe {
			value = nil
			continue
		}
		for _, c := range a.changes {
			if bytes.Equal(c.Key, key) {
				value = c.Value
			}
		}
	}
	return bytes.Clone(value)
}

func (s *simStore) Reserved(name string, visit func(key, value []byte) error) error {
	return s.list("Reserved", func(key string) bool { return strings.HasPrefix(key, name) }, visit)
}

func (s *simStore) After(after []byte, visit func(key, value []byte) error) error {
	first := string(after)
	return s.list("After", func(key string) bool {
		return ValidKey([]byte(key)) && key > first
	}, visit)
}

func (s *simStore) list(
	name string, wanted func(key string) bool, visit func(key, value []byte) error,
) error {
	s.spoil()
	if err := s.call(name, func() {}); err != nil {
		return err
	}
	states, _, _ := s.contents()
	for _, key := range slices.Sorted(maps.Keys(states)) {
		if !wanted(key) {
			continue
		}
		k, v := []byte(key), []byte(states[key])
		err := visit(k, v)
		spoilt(k)
		spoilt(v)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *simStore) Apply(changes []Change, at Positions) error {
	s.spoil()
	a := simApply{at: at}
	for _, c := range changes {
		a.changes = append(a.changes, clone(Message{Key: c.Key, Value: c.Value}))
	}
	return s.call("Apply", func() { s.applied = append(s.applied, a) })
}

func (s *simStore) Wipe() error {
	s.spoil()
	return s.call("Wipe", func() { s.applied = append(s.applied, simApply{wipe: true}) })
}

// crash loses a suffix of what was not synced.
func (s *simStore) crash(rng *rand.Rand) {
	if rng.IntN(3) > 0 { // else the process died and the machine did not
		s.applied = s.applied[:s.synced+rng.IntN(len(s.applied)-s.synced+1)]
	}
}
