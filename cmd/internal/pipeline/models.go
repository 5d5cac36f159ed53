package pipeline

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

// maxLanes is how many versions of the model a partition works with at a time. Two are
// needed while users move from one to the next; one more for those who are late. What
// is needed beyond that is built anew: that costs time and changes nothing.
const maxLanes = 3

// lane is one version at work: scratch memory of the mechanism under its model.
type lane struct {
	id        VersionID
	material  *Material
	sanitizer *mechanism.Sanitizer
	modelID   string
	gridID    string
}

// models picks for each fix the version of the mobility model, and brings the user's
// state to it. Which version it is follows from the offset, the fix's step, the user's
// state and the list of versions, and from nothing else. For one goroutine.
type models struct {
	first   *Material
	build   func(m *mobility.Model) (*mechanism.Sanitizer, error)
	stepMS  int64
	amended []Amended
	lanes   []*lane // the one used last in front; the first version's is not among them
	base    *lane   // of the first version
}

func newModels(first *Material, build func(m *mobility.Model) (*mechanism.Sanitizer, error)) (*models, error) {
	m := &models{first: first, build: build, stepMS: first.Model.Step.Milliseconds()}
	var err error
	m.base, err = m.newLane(VersionID{}, first)
	return m, err
}

func (m *models) newLane(id VersionID, material *Material) (*lane, error) {
	sanitizer, err := m.build(material.Model)
	if err != nil {
		return nil, err
	}
	return &lane{id: id, material: material, sanitizer: sanitizer, modelID: material.Model.ID(), gridID: material.Model.Grid.ID()}, nil
}

// amend makes a list the one to go by, instead of the one before.
func (m *models) amend(list []Amended) {
	m.amended = list
	m.lanes = slices.DeleteFunc(m.lanes, func(l *lane) bool {
		return !slices.ContainsFunc(list, func(a Amended) bool { return a.Version.ID == l.id })
	})
}

// versionAt is the version of a step, for a record at an offset: of those that count
// there, the one with the last start that is not after the step's begin; nil is the
// first. Starts are as they are, in whatever order the versions were adopted; of two
// with one start the one adopted last counts.
func (m *models) versionAt(offset, step int64) *Version {
	found, _ := m.latest(offset, step, "")
	return found
}

// latest is versionAt among the versions of one map; "" is any. ok is false if there is none.
func (m *models) latest(offset, step int64, gridID string) (found *Version, ok bool) {
	begin := step * m.stepMS
	for _, a := range m.amended {
		if a.From <= offset && a.Version.ID.StartMS <= begin && (found == nil || found.ID.StartMS <= a.Version.ID.StartMS) &&
			(gridID == "" || a.Version.gridID == gridID) {
			found = a.Version
		}
	}
	return found, found != nil || gridID == "" || m.base.gridID == gridID
}

// lane is that of a version.
func (m *models) lane(v *Version) (*lane, error) {
	if v == nil {
		return m.base, nil
	}
	if at := slices.IndexFunc(m.lanes, func(l *lane) bool { return l.id == v.ID }); at >= 0 {
		l := m.lanes[at]
		copy(m.lanes[1:at+1], m.lanes[:at])
		m.lanes[0] = l
		return l, nil
	}
	material, err := v.Load()
	if err != nil {
		return nil, err
	}
	l, err := m.newLane(v.ID, material)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", v.ID, err)
	}
	m.lanes = slices.Insert(m.lanes, 0, l)
	if len(m.lanes) >= maxLanes { // with the first version's
		m.lanes = slices.Delete(m.lanes, maxLanes-1, len(m.lanes))
	}
	return l, nil
}

// choice is what a fix is handled with.
type choice struct {
	*lane
	step     int64
	personal *mobility.Personal // nil: the user has none
}

// choose picks the version of a fix and the user's own model in it. It goes by the later of the
// fix's step and the user's last one: whether a fix is late is for the user's state to say,
// and no state goes back to a version that it has left. A further fix of the user's last
// step stays on that step's map.
func (m *models) choose(offset int64, user string, timestampMS int64, state *mechanism.State) (choice, error) {
	c := choice{step: m.first.Model.StepAt(timestampMS)}
	at := c.step
	if state.Started && state.StepMS == m.stepMS {
		at = max(at, state.Step)
	}
	v := m.versionAt(offset, at)
	var err error
	if c.lane, err = m.lane(v); err != nil {
		return c, err
	}
	if c.step == at && state.Started && state.Step == at && c.gridID != state.Grid.String() {
		// A version of another map came in the middle of the step. What was released of
		// the step is known on the old map alone, and would be released once more.
		if v, ok := m.latest(offset, at, state.Grid.String()); ok {
			if c.lane, err = m.lane(v); err != nil {
				return c, err
			}
		}
	}
	if c.material.Personals != nil {
		c.personal, err = c.material.Personals.Load(user)
	}
	return c, err
}
