package countfiles

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
)

// Request is what a user wants counted.
type Request struct {
	Config   config.File             // the section counts, with flags in the place of some settings
	Name     func(key string) string // names a key of the section for errors
	From, To string                  // the first and the last day

	// Choose has several zones and windows compared, and nothing published. The rest is for
	// counts that are published.
	Choose      bool
	Key         noise.Key
	KeyFile     string // "": Key is a fresh one
	Out, Format string
}

// options say what to count.
type options struct {
	settings counts.Settings
	plan     *counts.Plan
	days     [][]counts.Window
	zones    *counts.Zones
}

// options reads the request. An error is one of the user's.
func (q Request) options() (o options, err error) {
	counted, err := q.Config.Counted(q.Name)
	if err != nil {
		return o, err
	}
	o.settings, o.plan, o.zones = counted.Settings, counted.Plan, counted.Zones
	if q.From == "" || q.To == "" {
		return o, errors.New("name the days to publish, --from DAY and --to DAY: which they are " +
			"must not depend on the fixes")
	}
	first, err := counts.ParseDate(q.From)
	if err != nil {
		return o, fmt.Errorf("--from: %w", err)
	}
	last, err := counts.ParseDate(q.To)
	if err != nil {
		return o, fmt.Errorf("--to: %w", err)
	}
	o.days, err = o.plan.Between(first, last)
	return o, err
}
