package aggregate

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrModel is what Add returns for a public model that is not given, and Finish where no record
	// is of one that is.
	ErrModel = errors.New("a model is missing")
	// ErrMaps is what Add returns where records of windows that are wanted lie on two maps: zones
	// are parts of one.
	ErrMaps = errors.New("aggregate: the records lie on more than one map")
)

// wanted says whether a window is.
func (k *Collector) wanted(window int64) bool {
	length := k.options.WindowSteps * k.stepMS
	return (k.options.FromMS == 0 || window*length >= k.options.FromMS) &&
		(k.options.BeforeMS == 0 || (window+1)*length <= k.options.BeforeMS)
}

// filterOf returns the filter of a record's model, nil if the model is not given. To leave its
// users out would make the fleet another one without a word, so a window that is wanted must not
// have them.
func (k *Collector) filterOf(r Record, wanted bool) (*filter, error) {
	v := k.follower.filters[r.Model]
	if v == nil {
		k.counts.Foreign++
		k.foreign = r.Model
		if wanted {
			return nil, fmt.Errorf("%w: records were made under the model %.16s, which is not "+
				"among those given", ErrModel, r.Model)
		}
		return nil, nil //nolint:nilnil // such a record is left out, which is no error
	}
	v.seen = true
	if !wanted {
		return v, nil
	}
	if k.zones == nil {
		if err := k.flush(); err != nil {
			return nil, err
		}
		return v, k.divide(v)
	}
	if v.grid().ID() != k.zones.grid.ID() {
		return nil, fmt.Errorf("%w: that of the model %.16s, in the window from %s, is not that "+
			"of the records before", ErrMaps, r.Model, k.startOf(r.Step))
	}
	return v, nil
}

// startOf writes when a step's window starts.
func (k *Collector) startOf(step int64) string {
	length := k.options.WindowSteps * k.stepMS
	ms := step * k.stepMS
	return time.UnixMilli(ms - ((ms%length)+length)%length).UTC().Format(time.RFC3339)
}

// divide makes the zones of a model's map.
func (k *Collector) divide(v *filter) error {
	block := max(k.options.Block, 1)
	if k.options.ZoneKM > 0 {
		block = BlockOf(v.grid(), k.options.ZoneKM)
	}
	var err error
	if len(k.options.Areas) > 0 {
		k.zones, err = NewNamedZones(v.grid(), k.options.Areas)
	} else {
		k.zones, err = NewZones(v.grid(), block)
	}
	if err != nil {
		return err
	}
	for _, w := range k.windows {
		w.divide(k.zones)
	}
	for _, h := range k.hands {
		h.zones = k.zones
	}
	return err
}
