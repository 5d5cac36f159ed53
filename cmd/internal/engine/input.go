package engine

import (
	"cmp"
	"fmt"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// What becomes of a fix that lies outside the map.
const (
	// a dead letter if it is beyond the margin of one cell. The default
	OutsideDeadLetter = "dead_letter"
	// it counts as one in the nearest cell, however far away it is
	OutsideClamp = "clamp"
)

// Input says how raw records are read, and what becomes of sound records whose fix cannot be used
// as it is.
//
// Outside has a price in privacy. With OutsideDeadLetter the readers of the sanitized
// topic can see that a record is missing, and may conclude that the user was outside
// the map: a fact about the place that no noise covers and that costs no ε. With
// OutsideClamp they learn nothing from it, and the estimate claims a place on the map
// for somebody who is not there. mechanism/PROOFS.md says it in full.
type Input struct {
	Outside string // OutsideDeadLetter or OutsideClamp; empty means OutsideDeadLetter
	// Mapping says where the parts of a record are; nil: they are those of raw.avsc.
	Mapping *mapping.Mapping
}

func (i Input) withDefaults() Input {
	i.Outside = cmp.Or(i.Outside, OutsideDeadLetter)
	return i
}

// Validate reports settings that are unknown. Empty ones are the defaults.
func (i Input) Validate() error {
	return oneOf("outside", i.withDefaults().Outside, OutsideDeadLetter, OutsideClamp)
}

// reading is what determines how a raw record is read, beside its encoding; empty where nothing is
// set.
func (i Input) reading() string {
	if i.Mapping == nil {
		return ""
	}
	return i.Mapping.Text()
}

// Encoding names the form of raw records, for status and logs: the preset or the format of the
// mapping, or without a mapping the encoding.
func (i Input) Encoding(raw schemas.Encoding) string {
	if i.Mapping == nil {
		return string(raw)
	}
	return i.Mapping.Name()
}

// Rules are the names of the rules that skip fixes, by their numbers.
func (i Input) Rules() []string {
	if i.Mapping == nil {
		return mapping.BuiltIn()
	}
	return i.Mapping.Rules()
}

// oneOf refuses a setting that is neither of two words.
func oneOf(setting, value, a, b string) error {
	if value == a || value == b {
		return nil
	}
	return fmt.Errorf("%s %q is unknown: choose %s or %s", setting, value, a, b)
}

// Plausible refuses what devices without a fix report, and clocks that were never set:
// its only errors are *schemas.Rejection, with ReasonBeforeGPS or ReasonNullIsland.
func Plausible(fix schemas.Raw) error {
	switch {
	case fix.Timestamp <= schemas.FirstGPSMS:
		return &schemas.Rejection{Reason: schemas.ReasonBeforeGPS}
	case fix.Latitude == 0 && fix.Longitude == 0:
		return &schemas.Rejection{Reason: schemas.ReasonNullIsland}
	}
	return nil
}

// Placement is how a fix lies to the map of its model's version. It comes from the
// truth: count it, on the trusted side, and tell it of nobody.
type Placement struct {
	Outside bool // beyond the cells of the map
	Far     bool // and beyond the margin of one cell
	Swapped bool // and it would lie on the map if latitude and longitude changed places
}

// PlaceOn compares the place of a fix with a map.
func PlaceOn(g *grid.Grid, fix schemas.Raw) Placement {
	beyondKM := g.Beyond(fix.Latitude, fix.Longitude)
	return Placement{
		Outside: beyondKM > 0,
		Far:     beyondKM > g.CellKM(),
		Swapped: beyondKM > 0 && g.Beyond(fix.Longitude, fix.Latitude) == 0,
	}
}
