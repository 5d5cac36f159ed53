package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// inputFlags name files of fixes.
type inputFlags struct {
	paths  []string
	format string
	strict bool
}

func (f *inputFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.paths, "in", nil, "files or folders of traces, `PATH...`; - is standard input")
	flags.StringVar(&f.format, "format", "", "csv, ndjson, geolife or gowalla; empty: seen from the content")
	flags.BoolVar(&f.strict, "strict", false, "stop at the first bad line instead of skipping and counting it")
}

// open opens the flag's paths and those that follow the flags.
func (f *inputFlags) open(more []string, std streams) (*traces.Reader, error) {
	paths := append(f.paths, more...)
	if len(paths) == 0 {
		return nil, usagef("name the traces to read with --in; - is standard input")
	}
	return traces.Open(paths, std.in, traces.Options{Format: traces.Format(f.format), Strict: f.strict})
}

// fixSource is what produce feeds: files or a simulated fleet.
func fixSource(ctx context.Context, f inputFlags, more []string, s simulationFlags, std streams) (iter.Seq2[schemas.Raw, error], error) {
	switch {
	case s.vehicles == 0:
		reader, err := f.open(more, std)
		if err != nil {
			return nil, err
		}
		return reader.Fixes(), nil
	case len(f.paths)+len(more) > 0:
		return nil, usagef("--in and --simulate exclude each other")
	case s.vehicles < 0 || s.steps < 0:
		return nil, usagef("--simulate and --steps must not be negative")
	case s.model == "":
		return nil, usagef("--simulate needs a --model that says how the vehicles move")
	}
	model, err := mobility.ReadModelFile(s.model)
	if err != nil {
		return nil, err
	}
	return newFleet(model, s.vehicles, s.seed).fixes(ctx, s.steps, time.Now()), nil
}

// parseBox reads "south,west,north,east" in degrees.
func parseBox(text string) (grid.Box, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 4 {
		return grid.Box{}, fmt.Errorf("box %q: want four numbers, south,west,north,east in degrees", text)
	}
	var v [4]float64
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil {
			return grid.Box{}, fmt.Errorf("box %q: %q is no number; want south,west,north,east in degrees", text, p)
		}
		v[i] = x
	}
	return grid.Box{South: v[0], West: v[1], North: v[2], East: v[3]}, nil
}

// parseLength reads a length such as 340m or 0.34km and returns metres.
func parseLength(text string) (float64, error) {
	digits, unit := text, 1.0
	switch {
	case strings.HasSuffix(text, "km"):
		digits, unit = strings.TrimSuffix(text, "km"), 1000
	case strings.HasSuffix(text, "m"):
		digits = strings.TrimSuffix(text, "m")
	default:
		return 0, fmt.Errorf("length %q has no unit: write 340m or 0.34km", text)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !(v > 0) {
		return 0, fmt.Errorf("length %q is not a positive number of metres: write 340m or 0.34km", text)
	}
	return v * unit, nil
}
