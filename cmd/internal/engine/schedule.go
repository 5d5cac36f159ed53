package engine

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// Schedule is the mobility model in its versions, as somebody finds it by now.
type Schedule struct {
	First VersionID // its start does not matter
	Later []*Version
}

// CheckSize refuses a model whose new users' states may not fit into one record: they hold
// the initial distribution, 5 bytes a cell or a few more.
func CheckSize(m *mobility.Model, maxBatch int) error {
	return checkSize(m.Initial.Len(), maxBatch)
}

func checkSize(cells, maxBatch int) error {
	if size := 8 * cells; size >= maxBatch {
		return fmt.Errorf("a user's state of %d bytes exceeds a batch of %d: use larger cells",
			size, maxBatch)
	}
	return nil
}

// CheckLater says what keeps later versions from following a model. Two of one start may
// follow each other: the last one is what all partitions come to.
func CheckLater(first *mobility.Model, later []*Version, maxBatch int) error {
	var errs []error
	for i, v := range later {
		switch {
		case i > 0 && (v.ID == later[i-1].ID || v.ID.StartMS < later[i-1].ID.StartMS):
			errs = append(errs, fmt.Errorf("models: %s starts at %v, not after the version "+
				"before it", v.Where, v.ID.Start()))
		case v.step != first.Step:
			errs = append(errs, fmt.Errorf("models: %s has a step of %v, and the first version "+
				"one of %v", v.Where, v.step, first.Step))
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
