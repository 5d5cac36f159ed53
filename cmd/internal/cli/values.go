package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
)

// ParseBox reads a box written as "south,west,north,east" in degrees.
func ParseBox(text string) (grid.Box, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 4 {
		return grid.Box{}, fmt.Errorf("box %q: want south,west,north,east in degrees", text)
	}
	var v [4]float64
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSpace(p), 64)
		if err != nil {
			return grid.Box{}, fmt.Errorf("box %q: %q is no number: want south,west,north,east",
				text, p)
		}
		v[i] = x
	}
	return grid.Box{South: v[0], West: v[1], North: v[2], East: v[3]}, nil
}

// ParseLength reads a length such as 340m or 0.34km and returns metres.
func ParseLength(text string) (float64, error) {
	unit := 1.0
	digits, ok := strings.CutSuffix(text, "km")
	if ok {
		unit = 1000
	} else if digits, ok = strings.CutSuffix(text, "m"); !ok {
		return 0, fmt.Errorf("length %q has no unit: write 340m or 0.34km", text)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return 0, fmt.Errorf("length %q is not a positive number of metres", text)
	}
	return v * unit, nil
}

// ParseMap returns the map of a box, south,west,north,east, and the side of a cell. It recognizes a
// box in the order of other programs, and says what to write.
func ParseMap(box, cell string) (*grid.Grid, error) {
	read, err := ParseBox(box)
	if err != nil {
		return nil, err
	}
	cellM, err := ParseLength(cell)
	if err != nil {
		return nil, err
	}
	g, err := grid.New(read, cellM)
	if err == nil {
		return g, nil
	}
	a, b, c, d := read.South, read.West, read.North, read.East
	for _, meant := range []grid.Box{
		{South: b, West: a, North: d, East: c}, // west, south, east, north
		{South: a, North: b, West: c, East: d}, // south, north, west, east
		{West: a, East: b, South: c, North: d}, // west, east, south, north
		{North: a, West: b, South: c, East: d}, // north, west, south, east
	} {
		if _, other := grid.New(meant, cellM); other == nil {
			return nil, fmt.Errorf("%w (south,west,north,east): is it --box %g,%g,%g,%g?", err,
				meant.South, meant.West, meant.North, meant.East)
		}
	}
	return nil, err
}

// Kilometres reads a length with its unit and returns kilometres; an empty text is 0. Errors start
// with the name, which says what has that length.
func Kilometres(name, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	metres, err := ParseLength(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return metres / 1000, nil
}

// InSteps returns a time in whole steps of a model. Errors start with the name, which says what
// takes that time.
func InSteps(name string, d, step time.Duration) (int, error) {
	switch {
	case d < 0:
		return 0, fmt.Errorf("%s: %v is negative", name, d)
	case d > 0 && d < step:
		return 0, fmt.Errorf("%s: %v is shorter than the model's step of %v", name, d, step)
	case d%step != 0:
		below := d.Truncate(step)
		return 0, fmt.Errorf("%s: %v is no multiple of the step %v: write %v or %v", name, d, step,
			below, below+step)
	}
	return int(d / step), nil
}

// When is a time or a day, as --from and --to of every command take it: --from is inclusive, --to
// is not. The zero When is none.
type When struct {
	Time time.Time // a day starts at midnight, UTC
	text string
}

// Set implements [pflag.Value].
func (w *When) Set(text string) error {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		at, err = time.Parse(time.RFC3339Nano, text)
	}
	if err != nil || at.UnixMilli() == 0 { // 0 stands for none in milliseconds
		return errors.New("it is neither a time nor a day")
	}
	*w = When{at, text}
	return nil
}

// String returns what [When.Set] reads, empty for none.
func (w *When) String() string { return w.text }

// Type names the value in errors.
func (w *When) Type() string { return "time" }

// UnixMilli returns milliseconds since 1970, and 0 for none.
func (w *When) UnixMilli() int64 {
	if w.Time.IsZero() {
		return 0
	}
	return w.Time.UnixMilli()
}

// EmptyRange is the error of a range that holds nothing.
func EmptyRange(from, to string) error {
	return Usagef("--from %s --to %s is an empty range: it ends before %s", from, to, to)
}
