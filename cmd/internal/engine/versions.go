package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"weak"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// VersionID names a version of the mobility model by what it consists of and by
// when it starts.
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

// nameVersion is the first byte of a version's name in a mark; state/FORMAT.md has the layout.
const nameVersion = 1

// mark returns the version as a mark of the changelog has it.
func (id VersionID) mark() task.Version {
	return task.Version{From: id.StartMS, Name: append([]byte{nameVersion}, id.Model[:]...)}
}

// ReadVersion reads a version of a mark.
func ReadVersion(v task.Version) (VersionID, error) {
	id := VersionID{StartMS: v.From}
	if len(v.Name) != 1+len(id.Model) || v.Name[0] != nameVersion {
		return id, errors.New("the changelog's mark has an unknown version of a model " +
			"(newer-program)")
	}
	copy(id.Model[:], v.Name[1:])
	return id, nil
}

// Versions are the later versions of the model, as marks of the changelog have them.
func (s Settings) Versions() []task.Version {
	list := make([]task.Version, len(s.Later))
	for i, v := range s.Later {
		list[i] = v.ID.mark()
	}
	return list
}

// CheckVersions returns an error unless every record up to a mark has the same model under both
// lists: see task.CheckVersions.
func (s Settings) CheckVersions(m task.Mark) error {
	return NameVersion(task.CheckVersions(m, s.Versions()))
}

// NameVersion puts into words which version of the model a task.VersionsError is about, and what to
// do. It returns other errors as they are.
func NameVersion(err error) error {
	wrong, ok := errors.AsType[*task.VersionsError](err)
	if !ok {
		return err
	}
	id, unknown := ReadVersion(wrong.Version)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	if wrong.Latest == 0 {
		return fmt.Errorf("models: %w: put %v back into its place (models-list)", err, id)
	}
	return fmt.Errorf("models: %w: give %v a start after %s (models-list)", err, id,
		time.UnixMilli(wrong.Latest).UTC().Format(time.RFC3339Nano))
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
		err = fmt.Errorf("%s holds another model now, %v, and %v is in use (models-list)",
			v.Where, id, v.ID)
	}
	if err != nil {
		return nil, task.WithRemedy(err, task.Fatal)
	}
	v.loaded = weak.Make(m)
	return m, nil
}

// CheckSize refuses a model whose new users' states may not fit into one record: they hold
// the initial distribution, 5 bytes a cell or a few more.
func CheckSize(m *mobility.Model, maxBatch int) error {
	return checkSize(m.Initial.Len(), maxBatch)
}

func checkSize(cells, maxBatch int) error {
	if size := 8 * cells; size >= maxBatch {
		return fmt.Errorf("a new user's state may take %d bytes, over a batch of %d: take larger "+
			"cells", size, maxBatch)
	}
	return nil
}

// CheckLater says what keeps later versions from following a model.
func CheckLater(first *mobility.Model, later []*Version, maxBatch int) error {
	var errs []error
	if len(later) > task.MaxVersions {
		errs = append(errs, fmt.Errorf("models: %d later versions, at most %d fit (models-list)",
			len(later), task.MaxVersions))
	}
	for i, v := range later {
		switch {
		case i > 0 && v.ID.StartMS <= later[i-1].ID.StartMS:
			errs = append(errs, fmt.Errorf("models: %s starts at %v, not after the version before "+
				"it (models-list)", v.Where, v.ID.Start()))
		case v.step != first.Step:
			errs = append(errs, fmt.Errorf("models: %s has a step of %v, the first version one of "+
				"%v (models-list)", v.Where, v.step, first.Step))
		default:
			if err := checkSize(v.cells, maxBatch); err != nil {
				errs = append(errs, fmt.Errorf("models: %s: %w", v.Where, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Try refuses a version that the options of releases cannot be used with, and gets its
// model ready, which costs a pass over it: better here than in the middle of a partition's work.
func (s Settings) Try(v *Version) (*mobility.Model, error) {
	model, err := v.Load()
	if err == nil {
		_, err = mechanism.NewSanitizer(model, noise.NewKeyed(s.Key), s.Release)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", v.Where, err)
	}
	return model, nil
}
