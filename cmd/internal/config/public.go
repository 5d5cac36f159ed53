package config

import (
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/law"
)

// Public returns what readers of a service's records know: all models that records may name, those
// of the files or else the config's, and the settings of the release. What the config does not say
// the records tell.
func (f *Flags) Public(c File, models []string) (o follow.Public, err error) {
	if o.Models, err = c.Versions(models); err != nil {
		return o, err
	}
	o.TellEpsilon, o.TellDelta = c.Release.Epsilon == nil, c.Release.Delta == nil
	o.TellMechanism = c.Release.Mechanism == ""
	// What the records tell has a value that can be used until they do.
	if o.TellEpsilon {
		c.Release.Epsilon = new(float64)
	}
	if o.TellMechanism {
		c.Release.Mechanism = law.Lattice
	}
	if o.TellDelta && c.Release.Mechanism != law.Codebook {
		c.Release.Delta = new(float64)
	}
	o.Release, err = c.Release.Options(o.Models[0].Step)
	return o, f.Error(err)
}
