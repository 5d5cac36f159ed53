package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// modelFlags say what map and step a model has, and how fixes become it.
type modelFlags struct {
	box   string
	cell  string
	step  time.Duration
	train train.Options
	// personal models go beside the popular one.
	personal personalFlags
}

func (f *modelFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.box, "box", "", "the map's `SOUTH,WEST,NORTH,EAST`, degrees")
	flags.StringVar(&f.cell, "cell", "", "side of a cell, such as 340m or 0.34km")
	flags.DurationVar(&f.step, "step", 0, "time step of the model, such as 60s")
	flags.DurationVar(&f.train.MaxGap, "max-gap", 0, "cut a trace where two fixes are further apart; 0: only consecutive steps count anyway")
	flags.BoolVar(&f.train.EveryFix, "every-fix", false, "count each pair of successive fixes as a transition, whatever the time between (check-ins)")
	flags.IntVar(&f.train.KernelRadius, "kernel-radius", 0, "reach of the smoothing in cells; 0: 5")
	flags.Float64Var(&f.train.Backoff, "backoff", 0, "weight of the smoothing in a row, in transitions; 0: 20")
	flags.BoolVar(&f.train.Interpolate, "interpolate", false, "take the place at the end of each step, on a straight line between fixes at most --max-gap apart, not the step's last fix")
	flags.BoolVar(&f.train.KeepShared, "keep-shared", false, "also count fixes that two users report with the same time and place; else both are dropped")
	calendar := &f.train.Calendar
	flags.IntSliceVar(&calendar.Hours, "hours", nil, "local `HOURS` at which parts of the day begin, such as 6,10,16,20: a matrix for each part")
	flags.BoolVar(&calendar.Weekend, "weekend", false, "matrices of their own for Saturdays and Sundays")
	flags.DurationVar(&calendar.UTCOffset, "utc-offset", 0, "the map's local time less UTC, such as 8h, for --hours and --weekend")
	f.personal.register(flags)
	flags.Float64Var(&f.train.Jumps, "jumps", 0, "share of each row that goes to far cells, so that who was lost is found again; 0: 0.005, negative: none")
	flags.IntVar(&f.train.UserCap, "user-cap", 0, "transitions of one user out of one cell that count; 0: 30; --dp-epsilon has --dp-contribution instead")
}

// trainers returns the map, and what makes a new trainer. It has made one: what
// the flags ask for can be done.
func (f *modelFlags) trainers(source string) (*grid.Grid, func() *train.Trainer, error) {
	g, err := f.grid()
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	if err := f.personal.check(); err != nil {
		return nil, nil, err
	}
	if f.train.Calendar.UTCOffset != 0 && f.train.Calendar.Classes() == 1 {
		return nil, nil, cli.Usagef("--utc-offset says what --hours and --weekend mean: name one of them too")
	}
	o := f.train
	o.Source, o.Tool = source, cli.Tool()
	if _, err := train.New(g, f.step, o); err != nil {
		return nil, nil, cli.Usage(err)
	}
	return g, func() *train.Trainer {
		trainer, err := train.New(g, f.step, o)
		if err != nil {
			panic(err) // the same arguments were fine a moment ago
		}
		return trainer
	}, nil
}

// mapBox returns the box, if a map can be laid over it.
func (f *modelFlags) mapBox() (grid.Box, error) {
	g, err := f.grid()
	if err != nil {
		return grid.Box{}, err
	}
	return g.Box(), nil
}

// grid returns the map, or says what is wrong with the box.
func (f *modelFlags) grid() (*grid.Grid, error) {
	box, err := cli.ParseBox(f.box)
	if err != nil {
		return nil, err
	}
	cellM, err := cli.ParseLength(f.cell)
	if err != nil {
		return nil, err
	}
	g, err := grid.New(box, cellM)
	if err == nil {
		return g, nil
	}
	// Other programs have other orders.
	a, b, c, d := box.South, box.West, box.North, box.East
	for _, meant := range []grid.Box{
		{South: b, West: a, North: d, East: c}, // west, south, east, north
		{South: a, North: b, West: c, East: d}, // south, north, west, east
		{West: a, East: b, South: c, North: d}, // west, east, south, north
		{North: a, West: b, South: c, East: d}, // north, west, south, east
	} {
		if _, other := grid.New(meant, cellM); other == nil {
			return nil, fmt.Errorf("%w; the order is south,west,north,east: is it --box %g,%g,%g,%g?", err, meant.South, meant.West, meant.North, meant.East)
		}
	}
	return nil, err
}
