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
	Personals  string    `json:"personals,omitempty"`
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
		if id.Personals != (mechanism.ID{}) {
			d.Personals = id.Personals.String()
		}
		d.Missing = !slices.ContainsFunc(known, func(v *engine.Version) bool { return v.ID == id })
		described = append(described, d)
	}
	return described, nil
}

// modelOf finds the version whose model, or whose user's own model, a state is of. Without
// one it is the first version, and ok is false.
func (o Options) modelOf(s *mechanism.State, user string) (m *mobility.Model, ok bool, err error) {
	all := []func() (*engine.Material, error){func() (*engine.Material, error) {
		return &engine.Material{Model: o.Model, Personals: o.Personals}, nil
	}}
	for _, v := range slices.Backward(o.Later) {
		all = append(all, v.Load)
	}
	for _, load := range all {
		material, err := load()
		if err != nil {
			return nil, false, err
		}
		if material.Model.ID() == s.Model.String() {
			return material.Model, true, nil
		}
		if material.Personals == nil {
			continue
		}
		personal, err := material.Personals.Load(user)
		if err != nil {
			return nil, false, err
		}
		if personal != nil && personal.ID() == s.Model.String() {
			return material.Model, true, nil
		}
	}
	return o.Model, false, nil
}
