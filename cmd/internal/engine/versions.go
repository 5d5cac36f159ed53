package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// VersionID names a version of the mobility model by what it consists of and by
// when it starts. It is what a mark of the changelog has as an amendment's name.
type VersionID struct {
	Model mechanism.ID
	// StartMS is event time in Unix milliseconds: a fix whose step begins at or after
	// it is of this version.
	StartMS int64
}

// String says all of it, for logs and errors.
func (id VersionID) String() string {
	return fmt.Sprintf("model %v, start %s", id.Model, id.Start().Format(time.RFC3339Nano))
}

// Start is StartMS as a time.
func (id VersionID) Start() time.Time { return time.UnixMilli(id.StartMS).UTC() }

// nameVersion is the first byte of an amendment's name.
const nameVersion = 1

// Name is the amendment's name; state/FORMAT.md has the layout.
func (id VersionID) Name() []byte {
	b := append([]byte{nameVersion}, id.Model[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(id.StartMS))
}

var errName = errors.New("the changelog's mark has an amendment that this version of geodither " +
	"does not know: run the newer one")

// ParseVersionID reads an amendment's name.
func ParseVersionID(name []byte) (id VersionID, err error) {
	if len(name) != len(id.Name()) || name[0] != nameVersion {
		return id, errName
	}
	n := 1 + copy(id.Model[:], name[1:])
	id.StartMS = int64(binary.BigEndian.Uint64(name[n:]))
	return id, nil
}

// NewVersionID names a model with a start in Unix milliseconds.
func NewVersionID(m *mobility.Model, startMS int64) (VersionID, error) {
	id, err := mechanism.ParseID(m.ID())
	return VersionID{Model: id, StartMS: startMS}, err
}

// Version is a later version of the mobility model. The model is in memory while
// somebody works with it, and read again when it is needed again: a service may know
// many versions and use two. Any number of goroutines may use it.
type Version struct {
	ID    VersionID
	Where string // the file, for errors

	grid  *grid.Grid
	step  time.Duration
	cells int // with a place in the initial distribution

	mu     sync.Mutex
	open   func() (*mobility.Model, error)
	loaded weak.Pointer[mobility.Model]
}

// NewVersion opens the model of a version to learn what it is. open is called
// again, by any goroutine but one at a time, when the model is needed and no
// longer in memory. The model returned is the one that was opened: while it is
// kept nothing is read twice.
func NewVersion(
	start time.Time, where string, open func() (*mobility.Model, error),
) (*Version, *mobility.Model, error) {
	m, err := open()
	if err != nil {
		return nil, nil, err
	}
	v := &Version{
		Where: where, grid: m.Grid, step: m.Step, cells: m.Initial.Len(),
		open: open, loaded: weak.Make(m),
	}
	if v.ID, err = NewVersionID(m, start.UnixMilli()); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", where, err)
	}
	return v, m, nil
}

// Grid is the version's map.
func (v *Version) Grid() *grid.Grid { return v.grid }

// GridID is the id of the version's map.
func (v *Version) GridID() string { return v.grid.ID() }

// Load returns the model. An error that says that it cannot be read now is marked
// Rebuild, since a file may be under way; other contents than it had are Fatal, since
// releases are made with it.
func (v *Version) Load() (*mobility.Model, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m := v.loaded.Value(); m != nil {
		return m, nil
	}
	m, err := v.open()
	if err != nil {
		return nil, task.WithRemedy(fmt.Errorf("%v is needed again: %w", v.ID, err), task.Rebuild)
	}
	id, err := NewVersionID(m, v.ID.StartMS)
	if err == nil && id != v.ID {
		err = fmt.Errorf("%s holds another model now, %v, and %v is in use: put that one back; "+
			"a new model gets a file and a start of its own", v.Where, id, v.ID)
	}
	if err != nil {
		return nil, task.WithRemedy(err, task.Fatal)
	}
	v.loaded = weak.Make(m)
	return m, nil
}

// Amended is a version and the offset of the raw topic from which on it counts.
type Amended struct {
	From    int64
	Version *Version
}

// FromTheStart are versions that count whatever the offset: by event time alone.
func FromTheStart(versions []*Version) []Amended {
	list := make([]Amended, len(versions))
	for i, v := range versions {
		list[i].Version = v
	}
	return list
}

// Resolve finds the versions that a mark's amendments name.
func Resolve(list []task.Amendment, versions []*Version) ([]Amended, error) {
	found := make([]Amended, 0, len(list))
	for _, a := range list {
		id, err := ParseVersionID(a.Name)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(versions, func(v *Version) bool { return v.ID == id })
		if i < 0 {
			return nil, missingVersion(id, a.From, versions)
		}
		found = append(found, Amended{a.From, versions[i]})
	}
	return found, nil
}

// ErrVersion says that a version of the model is in use and not in the schedule.
var ErrVersion = errors.New("the schedule of models lacks a version that is in use")

// missingVersion says what to put back.
func missingVersion(id VersionID, from int64, versions []*Version) error {
	at := slices.IndexFunc(versions, func(v *Version) bool { return v.ID.StartMS == id.StartMS })
	if at < 0 {
		return fmt.Errorf("%w: %v, adopted at raw offset %d. Put it back into the schedule, and "+
			"its file into place", ErrVersion, id, from)
	}
	return fmt.Errorf("%w: %v, adopted at raw offset %d; the schedule has %v at that start now: "+
		"put the model %v back, above the other one",
		ErrVersion, id, from, versions[at].ID, id.Model)
}
