// Package chart draws figures of few kinds over gonum.org/v1/plot: panels of lines with confidence
// bands, and maps of a grid. Colours are told apart by readers with any colour vision, and series
// also by their dashes and markers. The same figure gives the same bytes on one machine.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is one or more panels with a title above them, one legend for all of them, and a note
// below.
type Figure struct {
	Title string
	// Note stands below the panels: what the bands are, how much was measured. Lines are broken
	// where they must be.
	Note   string
	Panels []Panel
	// Columns of panels; 0 makes one row of up to three.
	Columns int
	// PanelWidth and PanelHeight are in inches; 0 means 3.6 and 2.7. Panels of maps alone shrink to
	// what the maps fill.
	PanelWidth, PanelHeight float64
	// SameY gives the panels of lines in a row one scale upwards: for rows of one quantity.
	SameY bool
}

// Panel is one chart of a figure: *Lines or *Map.
type Panel interface {
	// prepare returns the panel's plot and the entries that it adds to the legend. A panel of lines
	// takes the shared extent upwards, if there is one.
	prepare(styles *styles, shared *extent) (*plot.Plot, []entry, error)
	// draw draws the plot into its tile.
	draw(p *plot.Plot, tile draw.Canvas)
	// describe says what the panel shows, and names its series.
	describe() (what string, names []string)
}

// Format is how a figure is written.
type Format string

// The formats.
const (
	PNG Format = "png"
	SVG Format = "svg"
)

// dotsPerInch of a PNG: twice what a plain screen shows.
const dotsPerInch = 160

// Write draws the figure. An error names what in the figure cannot be drawn, or is w's.
func (f *Figure) Write(w io.Writer, format Format) error {
	if format != PNG && format != SVG {
		return fmt.Errorf("chart: format %q is unknown: choose %s or %s", format, PNG, SVG)
	}
	if len(f.Panels) == 0 {
		return errors.New("chart: a figure needs a panel")
	}
	l, err := f.layout()
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if format == SVG {
		canvas := vgsvg.New(l.width, l.height)
		l.draw(draw.New(canvas))
		if _, err := canvas.WriteTo(&buf); err != nil {
			return err
		}
		_, err = w.Write(portable(buf.Bytes()))
		return err
	}
	canvas := vgimg.PngCanvas{
		Canvas: vgimg.NewWith(vgimg.UseWH(l.width, l.height), vgimg.UseDPI(dotsPerInch)),
	}
	l.draw(draw.New(canvas))
	if _, err := canvas.WriteTo(&buf); err != nil {
		return err
	}
	_, err = w.Write(buf.Bytes())
	return err
}

// WriteFile draws the figure to a file, as PNG or SVG by the name's ending. The file appears whole
// or not at all. Only its owner may read it: a figure may tell of the people in the traces.
func (f *Figure) WriteFile(path string) (err error) {
	var buf bytes.Buffer
	if err := f.Write(
		&buf, Format(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")),
	); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".chart-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(buf.Bytes())
	if err = errors.Join(err, file.Chmod(0o600), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// Describe says in words what is drawn, for readers who do not see it: the panels with their axes,
// and the names of what is in them.
func (f *Figure) Describe() string {
	var panels, names []string
	for _, panel := range f.Panels {
		what, of := panel.describe()
		panels = append(panels, what)
		for _, name := range of {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	text := fmt.Sprintf("%s. Panels: %s.", f.Title, strings.Join(panels, "; "))
	if len(names) > 0 {
		text += " Shown: " + strings.Join(names, "; ") + "."
	}
	return text
}
