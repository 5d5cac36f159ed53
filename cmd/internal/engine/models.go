package engine

import (
	"fmt"
	"math"
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
	first  *mobility.Model
	later  []*Version // starts ascending
	build  func(m *mobility.Model) (*mechanism.Sanitizer, error)
	stepMS int64
	lanes  []*lane // last used in front; without the first version's
	base   *lane   // of the first version
}

func newModels(
	first *mobility.Model, later []*Version,
	build func(m *mobility.Model) (*mechanism.Sanitizer, error),
) (*models, error) {
	err := CheckLater(first, later, math.MaxInt)
	if err != nil {
		return nil, err
	}
	m := &models{first: first, later: later, build: build, stepMS: first.Step.Milliseconds()}
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

// at returns the version that counts for a user's record: the last one that starts at or before the
// beginning of the step; nil is the first. The step is the later of the record's and the user's
// last one: a state never goes back to a version that it has left.
func (m *models) at(step int64, state *mechanism.State) *Version {
	if state.Started && state.StepMS == m.stepMS {
		step = max(step, state.Step)
	}
	for _, v := range slices.Backward(m.later) {
		if v.ID.StartMS <= step*m.stepMS {
			return v
		}
	}
	return nil
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
	step   int64
	lateMS int64 // by how much the step begins before the user's last one; else 0
}

// choose picks the version of a fix.
func (m *models) choose(timestampMS int64, state *mechanism.State) (c choice, err error) {
	c.step = m.first.StepAt(timestampMS)
	if state.Started && state.StepMS == m.stepMS {
		c.lateMS = max(0, (state.Step-c.step)*m.stepMS)
	}
	c.lane, err = m.lane(m.at(c.step, state))
	return c, err
}
