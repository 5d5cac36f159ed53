package gather

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/mobility/train/private"
)

// Training is the making of a model's file.
type Training struct {
	Plan
	From    string          // names the traces in the model's provenance
	Private private.Options // without an ε: learned without differential privacy
	Out     string          // file of the model
	Inputs  []string        // files that Out must not be
}

// Check refuses what cannot be done: now, not after an hour of training. It completes the options
// of a private training.
func (t *Training) Check() error {
	if err := t.checkPrivate(); err != nil {
		return err
	}
	if _, err := t.Into(t.From); err != nil {
		return err
	}
	if t.Out == "-" {
		return cli.Usagef("--out: a model is a file")
	}
	if err := files.CheckTarget(t.Out); err != nil {
		return err
	}
	if info, err := os.Stat(t.Out); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a device or pipe: name a file", t.Out)
	}
	return files.NotAnInput(t.Out, t.Inputs)
}

// private says whether the model is to be learned with differential privacy.
func (t *Training) private() bool { return t.Private.Epsilon != "" }

// contribution is how many transitions of each user count in a private training, unless the cap of
// the smoothing says otherwise. It served best on real traces.
const contribution = 50

func (t *Training) checkPrivate() error {
	if !t.private() {
		return nil
	}
	t.Private.Contribution, t.Train.UserCap = cmp.Or(t.Train.UserCap, contribution), 0
	if err := t.Private.Validate(); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// Trained is what a training has made.
type Trained struct {
	Model *mobility.Model
	From  string // in words: what was read
	Fixes int64  // that were read
}

// Run reads the traces, makes a model of them and writes it. Nothing is written before the model is
// complete. It logs what was left out, and what makes a poor model.
func (t *Training) Run(ctx context.Context, from Source, log io.Writer) (Trained, error) {
	plan := t.Plan
	plan.Train.KeepShared = t.private()
	into, err := plan.Into(t.From)
	if err != nil {
		return Trained{}, err
	}
	bar := cli.NewProgress(log, nil)
	defer bar.Done()
	in, err := from.Read(ctx, into, bar)
	if err != nil {
		return Trained{}, err
	}
	var (
		trainer *train.Trainer
		model   *mobility.Model
		report  mobility.Report
	)
	err = cli.Interruptibly(ctx, func() (err error) {
		trainer = in.Trainer()
		bar.Phase("smoothing", nil)
		model, report, err = t.finish(trainer, bar.Reporter(ctx, ""), log)
		return err
	})
	if err == nil || errors.Is(err, train.ErrNoFixes) {
		err = t.refuse(in.Useless(report, plan.Train), log)
	}
	if err != nil {
		return Trained{}, err
	}
	file, err := files.Prepare(ctx, t.Out, model)
	if err != nil {
		return Trained{}, err
	}
	defer file.Discard()
	if err := file.Commit(); err != nil {
		return Trained{}, err
	}
	bar.Done()
	if in.Skips.Total > 0 {
		fmt.Fprintln(log, &in.Skips)
	}
	for _, warning := range in.Warnings(report, trainer, model) {
		fmt.Fprintln(log, "warning: "+warning)
	}
	fixes, _ := in.Counts()
	return Trained{model, in.From, fixes}, nil
}

// finish turns what was read into a model, unless report returns an error.
func (t *Training) finish(
	trainer *train.Trainer, report func(done, total int64) error, log io.Writer,
) (
	*mobility.Model, mobility.Report, error,
) {
	if !t.private() {
		return trainer.FinishWithProgress(report)
	}
	model, seen, err := private.Train(trainer, t.Private, systemRandom{}, report)
	if err != nil {
		return nil, seen, err
	}
	fmt.Fprintf(log,
		"private: ε = %s for each user id and this model. Every other model of the same users "+
			"adds its own ε, published or not: no program can know of them.\n", t.Private.Epsilon)
	return model, seen, nil
}

// refuse is the error of traces that a model learns nothing from. For a private model it is a
// warning: that there is a model must not depend on the traces.
func (t *Training) refuse(useless error, log io.Writer) error {
	if useless == nil || !t.private() {
		return useless
	}
	fmt.Fprintf(log, "warning: the model is made of noise alone: %v\n", useless)
	return nil
}

// systemRandom is the operating system's generator.
type systemRandom struct{}

// Uint64 never fails: crypto/rand ends the program instead.
func (systemRandom) Uint64() uint64 {
	var word [8]byte
	_, _ = rand.Read(word[:])
	return binary.LittleEndian.Uint64(word[:])
}

// Useless returns an error for traces that a model learns nothing from. It says what may be wrong
// and what to do, in numbers and without places.
func (in *Gathered) Useless(report mobility.Report, o train.Options) error {
	fixes, swapped := in.Counts()
	err := NoneInside(in.From, fixes, report.Fixes, swapped)
	switch {
	case fixes == 0 && in.Skips.Total > 0 && in.Skips.Unit == recordUnit:
		return fmt.Errorf("there is no fix in %s (box-empty); %s", in.From, &in.Skips)
	case err != nil:
	case report.Transitions == 0 && o.EveryFix:
		err = fmt.Errorf("%s of %s in the box, no two of a user in succession: longer traces%s? "+
			"(box-empty)", cli.Quantity(report.Fixes, "fix"), cli.Quantity(report.Users, "user"),
			orGap(o))
	case report.Transitions == 0:
		err = fmt.Errorf("%s of %s in the box, no two of a user in successive steps: longer "+
			"--step%s? (box-empty)", cli.Quantity(report.Fixes, "fix"),
			cli.Quantity(report.Users, "user"), orGap(o))
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
		return fmt.Errorf("there is no fix in %s", from)
	case inside == 0 && swapped > 0:
		return fmt.Errorf("no fix lies inside the box, but %d of %d would if latitude and "+
			"longitude changed places (box-empty)", swapped, fixes)
	case inside == 0:
		return fmt.Errorf("no fix of %d lies inside the box (box-empty)", fixes)
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
