package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// modelFlags say what map and step a model has, and how fixes become it.
type modelFlags struct {
	box   string
	cell  string
	step  time.Duration
	train mobility.TrainOptions
}

func (f *modelFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.box, "box", "", "the map's `SOUTH,WEST,NORTH,EAST`, degrees")
	flags.StringVar(&f.cell, "cell", "", "side of a cell, such as 340m or 0.34km")
	flags.DurationVar(&f.step, "step", 0, "time step of the model, such as 60s")
	flags.DurationVar(&f.train.MaxGap, "max-gap", 0, "cut a trace where two fixes are further apart; 0: only consecutive steps count anyway")
	flags.BoolVar(&f.train.EveryFix, "every-fix", false, "count each pair of successive fixes as a transition, whatever the time between (check-ins)")
	flags.IntVar(&f.train.KernelRadius, "kernel-radius", 0, "reach of the smoothing in cells; 0: 5")
	flags.Float64Var(&f.train.Backoff, "backoff", 0, "weight of the smoothing in a row, in transitions; 0: 20")
	flags.IntVar(&f.train.UserCap, "user-cap", 0, "transitions of one user out of one cell that count; 0: 30")
}

// trainers returns what makes a new trainer. It has made one: what the flags
// ask for can be done.
func (f *modelFlags) trainers(source string) (func() *mobility.Trainer, error) {
	box, err := parseBox(f.box)
	if err != nil {
		return nil, usageError{err}
	}
	cellM, err := parseLength(f.cell)
	if err != nil {
		return nil, usageError{err}
	}
	g, err := grid.New(box, cellM)
	if err != nil {
		return nil, usageError{err}
	}
	o := f.train
	o.Source, o.Tool = source, "geodither "+version()
	if _, err := mobility.NewTrainer(g, f.step, o); err != nil {
		return nil, usageError{err}
	}
	return func() *mobility.Trainer {
		trainer, err := mobility.NewTrainer(g, f.step, o)
		if err != nil {
			panic(err) // the same arguments were fine a moment ago
		}
		return trainer
	}, nil
}
