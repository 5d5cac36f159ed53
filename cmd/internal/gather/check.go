package gather

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// Useless returns an error for traces that a model learns nothing from. It says what may be wrong
// and what to do, in numbers and without places.
func (in *Gathered) Useless(report mobility.Report, o train.Options) error {
	fixes, swapped := in.Counts()
	err := NoneInside(in.From, fixes, report.Fixes, swapped)
	switch {
	case fixes == 0 && in.Skips.Total > 0 && in.Skips.Unit == recordUnit:
		return fmt.Errorf("there is no fix in %s: try the config on a few of them with "+
			"geodither input test -c FILE MESSAGES; %s", in.From, &in.Skips)
	case err != nil:
	case report.Transitions == 0 && o.EveryFix:
		err = fmt.Errorf("%s of %s in the box, and no two of a user in succession: give longer "+
			"traces%s",
			cli.Quantity(report.Fixes, "fix"), cli.Quantity(report.Users, "user"), orGap(o))
	case report.Transitions == 0:
		err = fmt.Errorf("%s of %s in the box, and no two of a user in two successive steps: "+
			"choose a longer --step%s, or --every-fix for check-ins, which follow no step",
			cli.Quantity(report.Fixes, "fix"), cli.Quantity(report.Users, "user"), orGap(o))
	default:
		return nil
	}
	if in.Skips.Total > 0 {
		return fmt.Errorf("%w; %s", err, &in.Skips)
	}
	return err
}

// NoneInside returns an error if none of so many fixes lies in the box. swapped is how many would
// lie in it if latitude and longitude changed places.
func NoneInside(from string, fixes, inside, swapped int64) error {
	switch {
	case fixes == 0:
		return fmt.Errorf("there is no fix in %s: name other traces", from)
	case inside == 0 && swapped > 0:
		return fmt.Errorf("no fix lies inside the box, but %d of %d would if latitude and "+
			"longitude changed "+
			"places: write --box SOUTH,WEST,NORTH,EAST, or say with --columns which "+
			"column is which",
			swapped, fixes)
	case inside == 0:
		return fmt.Errorf("no fix of %d lies inside the box: is it --box SOUTH,WEST,NORTH,EAST "+
			"of where the "+
			"traces are, and are the columns what they are called?", fixes)
	}
	return nil
}

func orGap(o train.Options) string {
	if !o.Interpolate {
		return ""
	}
	return " or gap of --interpolate"
}

// idleClasses names the classes of a calendar in which no transition was counted. It takes a pass
// over the fixes, unless there is only one class.
func idleClasses(trainer *train.Trainer, c mobility.Calendar) (names []string) {
	if c.Classes() == 1 {
		return nil
	}
	counted := make([]bool, c.Classes())
	step := trainer.Step().Milliseconds()
	for track := range trainer.Tracks(nil) {
		for _, from := range track.Steps[:len(track.Steps)-1] {
			counted[c.ClassAt(from*step)] = true
		}
	}
	for class, some := range counted {
		if !some {
			names = append(names, c.ClassName(class))
		}
	}
	return names
}

// someOf lists names, or the first of many.
func someOf(names []string) string {
	const most = 6
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(names[:most], "; "), more)
	}
	return strings.Join(names, "; ")
}

// Warnings say what makes a poor model of traces that make one.
func (in *Gathered) Warnings(
	report mobility.Report, trainer *train.Trainer, model *mobility.Model,
) (warnings []string) {
	warn := func(when bool, format string, args ...any) {
		if when {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}
	fixes, swapped := in.Counts()
	cells := int64(model.Grid.Cells())
	warn(in.Skips.Total > fixes,
		"more was skipped than read: are these traces, and the columns what they are called?")
	warn(report.OutsideBox > 9*report.Fixes,
		"%d of %d fixes lie outside the box and were left out: is it the right one (south, west, "+
			"north, east)?",
		report.OutsideBox, fixes)
	warn(swapped > report.Fixes,
		"%d of %d fixes would lie in the box if latitude and longitude changed places: "+
			"say with --columns which column is which", swapped, fixes)
	warn(report.Users == 1,
		"all fixes are of one user: the model tells about this one, and fits others badly")
	warn(report.CellsSeen == 1 && cells > 1,
		"all fixes lie in one of %d cells: choose smaller ones with --cell, or give other traces",
		cells)
	warn(report.Transitions < cells,
		"%s for %d cells: the model is little more than its smoothing; "+
			"give more traces, larger cells or a smaller box",
		cli.Quantity(report.Transitions, "transition"), cells)
	idle := idleClasses(trainer, model.Calendar)
	warn(len(idle) > 0,
		"no transition falls into %s of %d that --calendar makes: %s; "+
			"there everybody moves as in all others together: give traces of these times too, or "+
			"make fewer classes",
		cli.Quantity(int64(len(idle)), "class"), model.Calendar.Classes(), someOf(idle))
	return warnings
}
