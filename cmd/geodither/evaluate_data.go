package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/evaluation/experiment"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// dataFlags name the sets of traces that "geodither evaluate" compares, and say what map and step
// each has: two published ones whose maps are known, the shipped buses, and the user's own.
type dataFlags struct {
	paths           []string // NAME=PATH
	box, cell, step []string // VALUE or NAME=VALUE
	timestamps      []string
}

// register registers the flags.
func (f *dataFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.paths, "data", nil,
		"`NAME=PATH` of a data set, a file or folder of traces; repeatable; default: the buses")
	flags.StringArrayVar(&f.box, "box", nil,
		"`SOUTH,WEST,NORTH,EAST` of the map, in degrees, or NAME=...")
	flags.StringArrayVar(&f.cell, "cell", nil,
		"`LENGTH` of a cell's side, such as 340m, or NAME=340m")
	flags.StringArrayVar(&f.step, "step", nil,
		"time `STEP` of the model, such as 30s, or NAME=30s")
	flags.StringArrayVar(&f.timestamps, "timestamps", nil,
		"`NUMBER` of timestamps in a trace, or NAME=NUMBER; default 500")
}

// dataSet is a data set before it is read.
type dataSet struct {
	definition experiment.Definition
	paths      []string
	format     traces.Format // empty: seen from the content
	sample     bool          // the shipped buses, instead of paths
	model      gather.Plan
}

// sampleName is the name of the shipped buses.
const sampleName = "buses"

// knownSets are the data sets whose maps and steps are known.
func knownSets() []dataSet {
	return []dataSet{
		{
			definition: experiment.Definition{
				Name: "geolife", Title: "Geolife", Timestamps: 500, Least: 500,
				MaxGap: 5 * time.Minute, Folds: 5,
			},
			model: gather.Plan{
				Box: "39.85,116.27,39.97,116.50", Cell: "340m", Step: 5 * time.Second,
			},
		},
		{
			definition: experiment.Definition{
				Name: "gowalla", Title: "Gowalla", Timestamps: 500, Least: 100, Folds: 5,
			},
			format: traces.Gowalla,
			model: gather.Plan{
				Box: "33.70,-118.69,34.34,-118.14", Cell: "890m", Step: time.Hour,
				Train: train.Options{EveryFix: true},
			},
		},
	}
}

func sampleSet() dataSet {
	b := fleet.SampleBox()
	return dataSet{
		definition: experiment.Definition{
			Name: sampleName, Title: "Liverpool buses", Timestamps: 60, Least: 60,
			MaxGap: 5 * time.Minute, Folds: 4, Open: true,
		},
		sample: true,
		model: gather.Plan{
			Box:  fmt.Sprintf("%g,%g,%g,%g", b.South, b.West, b.North, b.East),
			Cell: fmt.Sprintf("%dm", fleet.SampleCellM), Step: fleet.SampleStep,
		},
	}
}

var dataSetName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// read returns the data sets that the flags name, each with all that it needs.
func (f *dataFlags) read() ([]dataSet, error) {
	var sets []dataSet
	for _, text := range f.paths {
		name, path, ok := strings.Cut(text, "=")
		if !ok || !dataSetName.MatchString(name) || path == "" {
			return nil, cli.Usagef("--data %q: write NAME=PATH, with a name of lower-case "+
				"letters, digits and hyphens", text)
		}
		at := slices.IndexFunc(sets, func(s dataSet) bool { return s.definition.Name == name })
		if at < 0 {
			at = len(sets)
			sets = append(sets, newDataSet(name))
		}
		sets[at].paths = append(sets[at].paths, path)
	}
	if len(sets) == 0 {
		sets = append(sets, sampleSet())
	}
	for i := range sets {
		if err := f.amend(&sets[i]); err != nil {
			return nil, err
		}
	}
	return sets, f.strangers(sets)
}

func newDataSet(name string) dataSet {
	for _, set := range knownSets() {
		if set.definition.Name == name {
			return set
		}
	}
	return dataSet{definition: experiment.Definition{
		Name: name, Title: name, Timestamps: 500, Least: 100, MaxGap: 5 * time.Minute, Folds: 5,
	}}
}

// amend gives a set what the flags say of it, or of all.
func (f *dataFlags) amend(set *dataSet) error {
	name := set.definition.Name
	for _, flag := range []struct {
		name   string
		values []string
		to     *string
	}{{"box", f.box, &set.model.Box}, {"cell", f.cell, &set.model.Cell}} {
		if value, ok := valueFor(flag.values, name); ok {
			*flag.to = value
		}
		if *flag.to == "" {
			return cli.Usagef("the data set %s has no --%s: only geolife and gowalla have one "+
				"of their own", name, flag.name)
		}
	}
	if value, ok := valueFor(f.step, name); ok {
		step, err := time.ParseDuration(value)
		if err != nil {
			return cli.Usagef("--step %q is no time: write 30s or 1m", value)
		}
		set.model.Step = step
	}
	if set.model.Step == 0 {
		return cli.Usagef("the data set %s has no --step: choose one in which a vehicle usually "+
			"reports once or twice", name)
	}
	if value, ok := valueFor(f.timestamps, name); ok {
		var n int
		if _, err := fmt.Sscanf(value+"\n", "%d\n", &n); err != nil || n < 2 {
			return cli.Usagef("--timestamps %q is no number of timestamps from 2 on", value)
		}
		set.definition.Timestamps, set.definition.Least = n, min(n, set.definition.Least)
	}
	_, err := set.model.Into("") // so that what cannot be is said before anything is done
	return err
}

// valueFor returns what was said of a data set by name, or else of all.
func valueFor(values []string, name string) (value string, ok bool) {
	for _, text := range values {
		of, v, named := strings.Cut(text, "=")
		switch {
		case named && of == name:
			return v, true
		case !named:
			value, ok = text, true
		}
	}
	return value, ok
}

// strangers refuses settings of a data set that is not there.
func (f *dataFlags) strangers(sets []dataSet) error {
	known := func(name string) bool {
		return slices.ContainsFunc(sets, func(s dataSet) bool { return s.definition.Name == name })
	}
	for _, text := range slices.Concat(f.box, f.cell, f.step, f.timestamps) {
		if name, _, named := strings.Cut(text, "="); named && !known(name) {
			return cli.Usagef("%q is of a data set that no --data names", text)
		}
	}
	return nil
}

// load reads a set's traces.
func (s *dataSet) load(
	ctx context.Context, bar *cli.Progress, std cli.Streams,
) (*experiment.Data, error) {
	into, err := s.model.Into("traces " + s.definition.Name)
	if err != nil {
		return nil, err
	}
	into.Places = s.model.Train.EveryFix
	paths, options, stdin := s.paths, traces.Options{Format: s.format}, std.In
	if s.sample {
		paths, options = []string{"-"}, traces.Options{Format: traces.CSV}
		stdin = fleet.SampleFile()
	}
	reader, err := traces.Open(ctx, paths, stdin, options)
	if err != nil {
		return nil, err
	}
	in, err := gather.Files{Reader: reader, Name: s.definition.Name}.Read(ctx, into, bar)
	bar.Done()
	if err != nil {
		return nil, err
	}
	if in.Skips.Total > 0 {
		fmt.Fprintln(std.Err, &in.Skips)
	}
	data, err := experiment.NewData(s.definition, in.Trainer())
	if err != nil {
		return nil, err
	}
	if points, kept := in.Places(); kept {
		data.Places = experiment.NewPlaces(points)
	}
	return data, nil
}
