package main

import (
	"fmt"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// useless returns an error for traces that a model learns nothing from, with what
// may be wrong and what to do. It tells numbers and no places.
func (in *gathered) useless(report mobility.Report, o train.Options) error {
	fixes, swapped := in.counts()
	err := noneInside(in.from, fixes, report.Fixes, swapped)
	switch {
	case err != nil:
	case report.Transitions == 0 && o.EveryFix:
		err = fmt.Errorf("%s of %s in the box, and no two of a user in succession: give longer traces%s",
			cli.Quantity(report.Fixes, "fix"), cli.Quantity(report.Users, "user"), orGap(o))
	case report.Transitions == 0:
		err = fmt.Errorf("%s of %s in the box, and no two of a user in two successive steps: choose a longer --step%s, "+
			"or --every-fix for check-ins, which follow no step",
			cli.Quantity(report.Fixes, "fix"), cli.Quantity(report.Users, "user"), orGap(o))
	default:
		return nil
	}
	if in.skips.Total > 0 {
		return fmt.Errorf("%w; %s", err, &in.skips)
	}
	return err
}

// noneInside is the error of fixes none of which lies in the box; nil if one does.
// swapped are those that would if latitude and longitude changed places.
func noneInside(from string, fixes, inside, swapped int64) error {
	switch {
	case fixes == 0:
		return fmt.Errorf("there is no fix in %s: name other traces", from)
	case inside == 0 && swapped > 0:
		return fmt.Errorf("no fix lies inside the box, but %d of %d would if latitude and longitude changed places: "+
			"write --box SOUTH,WEST,NORTH,EAST, or say with --columns which column is which", swapped, fixes)
	case inside == 0:
		return fmt.Errorf("no fix of %d lies inside the box: is it --box SOUTH,WEST,NORTH,EAST of where the traces are, "+
			"and are the columns what they are called?", fixes)
	}
	return nil
}

func orGap(o train.Options) string {
	if o.MaxGap == 0 {
		return ""
	}
	return " or --max-gap"
}

// warn says what was left out, and what makes a poor model.
func (in *gathered) warn(report mobility.Report, trainer *train.Trainer, model *mobility.Model, std cli.Streams) {
	if in.skips.Total > 0 {
		fmt.Fprintln(std.Err, &in.skips)
	}
	for _, warning := range in.warnings(report, model) {
		fmt.Fprintln(std.Err, warning)
	}
	if idle := idleClasses(trainer, model.Calendar); len(idle) > 0 {
		fmt.Fprintf(std.Err, "warning: no transition falls into %s of %d that --hours and --weekend make: %s; there everybody moves as in all others together: give traces of these times too, or make fewer classes\n",
			cli.Quantity(int64(len(idle)), "class"), model.Calendar.Classes(), someOf(idle))
	}
}

// idleClasses names the classes of a calendar in which nothing was counted, at the cost
// of a pass over the fixes. It knows none where there is but one class.
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
			names = append(names, className(c, class))
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

// warnings say what makes a poor model of traces that make one.
func (in *gathered) warnings(report mobility.Report, model *mobility.Model) (warnings []string) {
	warn := func(when bool, format string, args ...any) {
		if when {
			warnings = append(warnings, "warning: "+fmt.Sprintf(format, args...))
		}
	}
	fixes, swapped := in.counts()
	cells := int64(model.Grid.Cells())
	warn(in.skips.Total > fixes, "more was skipped than read: is --format right, and the columns what they are called?")
	warn(report.OutsideBox > 9*report.Fixes, "%d of %d fixes lie outside the box and were left out: is it the right one (south, west, north, east)?", report.OutsideBox, fixes)
	warn(swapped > report.Fixes, "%d of %d fixes would lie in the box if latitude and longitude changed places: say with --columns which column is which", swapped, fixes)
	warn(report.Users == 1, "all fixes are of one user: the model tells about this one, and fits others badly")
	warn(report.CellsSeen == 1 && cells > 1, "all fixes lie in one of %d cells: choose smaller ones with --cell, or give other traces", cells)
	warn(report.Transitions < cells, "%s for %d cells: the model is little more than its smoothing; give more traces, larger cells or a smaller box",
		cli.Quantity(report.Transitions, "transition"), cells)
	return warnings
}
