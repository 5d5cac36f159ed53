package engine

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

// maxLanes is how many versions of the model a partition works with at a time. Two are
// needed while users move from one to the next; one more for those who are late. What
// is needed beyond that is built again: that costs time and changes nothing.
const maxLanes = 3

// lane is one version at work: scratch memory of the mechanism under its model.
type lane struct {
	id        VersionID
	model     *mobility.Model
	sanitizer *mechanism.Sanitizer
	modelID   string
}

// models picks for each fix the version of the mobility model, and brings the user's
// state to it. For one goroutine.
type models struct {
	first   *mobility.Model
	build   func(m *mobility.Model) (*mechanism.Sanitizer, error)
	stepMS  int64
	amended []Amended
	lanes   []*lane // last used in front; without the first version's
	base    *lane   // of the first version
}

func newModels(
	first *mobility.Model, build func(m *mobility.Model) (*mechanism.Sanitizer, error),
) (*models, error) {
	m := &models{first: first, build: build, stepMS: first.Step.Milliseconds()}
	var err error
	m.base, err = m.newLane(VersionID{}, first)
	return m, err
}

func (m *models) newLane(id VersionID, model *mobility.Model) (*lane, error) {
	sanitizer, err := m.build(model)
	if err != nil {
		return nil, err
	}
	return &lane{
		id: id, model: model, sanitizer: sanitizer, modelID: model.ID(),
	}, nil
}

// amend makes a list the one to go by, instead of the one before.
func (m *models) amend(list []Amended) {
	m.amended = list
	m.lanes = slices.DeleteFunc(m.lanes, func(l *lane) bool {
		return !slices.ContainsFunc(list, func(a Amended) bool { return a.Version.ID == l.id })
	})
}

// at returns the version that counts for a user's record at an offset; nil is the first:
//
//   - Of the versions known at the offset, the one with the latest start at or before the beginning
//     of the step counts. Of several with the same start, the one that was taken up last counts.
//   - The step is the later of the record's and the user's last one: a state never goes back to a
//     version that it has left.
//   - A further record of the user's last step stays on the map of that step, if a version of that
//     map counts. What was released of the step is known on that map alone; on another map the step
//     would be released, and paid for, once more.
//
// Starts need no order. Cost: one pass over the versions, seldom two.
func (m *models) at(offset, step int64, state *mechanism.State) *Version {
	known, counting := state.Started && state.StepMS == m.stepMS, step
	if known {
		counting = max(step, state.Step)
	}
	found, _ := m.latest(offset, counting, "")
	if known && state.Step == step {
		if on, ok := m.latest(offset, counting, state.Grid.String()); ok {
			return on
		}
	}
	return found
}

// latest applies the first rule to the versions of one map, or of any if gridID is empty. ok is
// false if there is none.
func (m *models) latest(offset, step int64, gridID string) (found *Version, ok bool) {
	for _, a := range m.amended {
		v := a.Version
		counts := a.From <= offset && v.ID.StartMS <= step*m.stepMS &&
			(gridID == "" || v.GridID() == gridID)
		if counts && (found == nil || found.ID.StartMS <= v.ID.StartMS) {
			found = v
		}
	}
	return found, found != nil || gridID == "" || gridID == m.first.Grid.ID()
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
	model, err := v.Load()
	if err != nil {
		return nil, err
	}
	l, err := m.newLane(v.ID, model)
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
	step int64
}

// choose picks the version of a fix. Whether a fix is late is for the user's state to say.
func (m *models) choose(
	offset int64, timestampMS int64, state *mechanism.State,
) (choice, error) {
	c := choice{step: m.first.StepAt(timestampMS)}
	var err error
	c.lane, err = m.lane(m.at(offset, c.step, state))
	return c, err
}
