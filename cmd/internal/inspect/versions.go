package inspect

import (
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
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
