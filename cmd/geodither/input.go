package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
)

// inputFlags name files of fixes.
type inputFlags struct {
	paths   []string
	flag    string // that names the paths
	format  string
	columns map[string]string
	strict  bool
}

func (f *inputFlags) register(flags *pflag.FlagSet) { f.registerAs(flags, "in") }

// registerAs calls the paths by another name.
func (f *inputFlags) registerAs(flags *pflag.FlagSet, paths string) {
	f.flag = paths
	// An array, not a slice: a path may hold a comma.
	flags.StringArrayVar(&f.paths, paths, nil, "file or folder of traces, `PATH`; repeat it for several, or name them behind the flags; - is standard input")
	flags.StringVar(&f.format, "format", "", "csv, ndjson, geolife or gowalla; empty: seen from the content")
	flags.StringToStringVar(&f.columns, "columns", nil, "columns of CSV or NDJSON that have other names, `COLUMN=NAME,...`, as in user_id=vehicle,timestamp=ts")
	flags.BoolVar(&f.strict, "strict", false, "stop at the first bad line instead of skipping and counting it")
}

// open opens the flag's paths and those that follow the flags. The
// end of the context ends the reading.
func (f *inputFlags) open(ctx context.Context, more []string, std streams) (*traces.Reader, error) {
	options := traces.Options{Format: traces.Format(f.format), Strict: f.strict, Columns: f.columns}
	if err := options.Validate(); err != nil {
		return nil, usageError{err}
	}
	paths := slices.Concat(f.paths, more)
	if len(paths) == 0 {
		return nil, usagef("name the traces to read with --%s; - is standard input", cmp.Or(f.flag, "in"))
	}
	return traces.Open(ctx, paths, std.in, options)
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
	unit := 1.0
	digits, ok := strings.CutSuffix(text, "km")
	if ok {
		unit = 1000
	} else if digits, ok = strings.CutSuffix(text, "m"); !ok {
		return 0, fmt.Errorf("length %q has no unit: write 340m or 0.34km", text)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, fmt.Errorf("length %q is not a positive number of metres: write 340m or 0.34km", text)
	}
	return v * unit, nil
}
