package inspect

import (
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
)

// AdoptedVersion is a version of the model that a partition has adopted.
type AdoptedVersion struct {
	FromOffset int64     `json:"from_offset"` // of the raw topic
	Start      time.Time `json:"start"`       // event time
	Model      string    `json:"model"`
	// Missing: the config's schedule does not have it.
	Missing bool `json:"missing,omitempty"`
}

// describe puts amendments into words.
func describe(
	list []task.Amendment, known []*engine.Version,
) (described []AdoptedVersion, err error) {
	for _, a := range list {
		id, err := engine.ParseVersionID(a.Name)
		if err != nil {
			return nil, err
		}
		d := AdoptedVersion{FromOffset: a.From, Start: id.Start(), Model: id.Model.String()}
		d.Missing = !slices.ContainsFunc(known, func(v *engine.Version) bool { return v.ID == id })
		described = append(described, d)
	}
	return described, nil
}

// modelOf finds the version whose model a state is of. Without one it is the first version, and ok
// is false.
func (o Options) modelOf(s *mechanism.State) (m *mobility.Model, ok bool, err error) {
	if o.Model.ID() == s.Model.String() {
		return o.Model, true, nil
	}
	for _, v := range o.Later {
		if v.ID.Model != s.Model {
			continue
		}
		model, err := v.Load()
		if err != nil {
			return nil, false, err
		}
		return model, true, nil
	}
	return o.Model, false, nil
}
