// Package chart draws figures of few kinds over gonum.org/v1/plot: panels of lines with confidence bands, and maps of a grid. Colours are told apart by
// readers with any colour vision, and series also by their dashes and markers. The same figure gives the same bytes on one machine.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is one or more panels with a title above them, one legend for all of them, and a note below.
type Figure struct {
	Title string
	// Note stands below the panels: what the bands are, how much was measured. Lines are broken where they must be.
	Note   string
	Panels []Panel
	// Columns of panels; 0 makes one row of up to three.
	Columns int
	// PanelWidth and PanelHeight are in inches; 0 means 3.6 and 2.7.
	PanelWidth, PanelHeight float64
}

// Panel is one chart of a figure: *Lines or *Map.
type Panel interface {
	// prepare returns the panel's plot and the entries that it adds to the legend.
	prepare(styles *styles) (*plot.Plot, []entry, error)
	// draw draws the plot into its tile.
	draw(p *plot.Plot, tile draw.Canvas)
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
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(l.width, l.height), vgimg.UseDPI(dotsPerInch))}
	l.draw(draw.New(canvas))
	if _, err := canvas.WriteTo(&buf); err != nil {
		return err
	}
	_, err = w.Write(buf.Bytes())
	return err
}

// WriteFile draws the figure to a file, as PNG or SVG by the name's ending. The file appears whole or not at all.
func (f *Figure) WriteFile(path string) (err error) {
	var buf bytes.Buffer
	if err := f.Write(&buf, Format(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."))); err != nil {
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
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// portable names fonts that a reader without the one the text was laid out with is sure to have, and corrects the type of embedded images.
func portable(svg []byte) []byte {
	svg = bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return bytes.ReplaceAll(svg, []byte("data:image/jpg;"), []byte("data:image/png;"))
}

// layout is a figure made ready.
type layout struct {
	figure        *Figure
	width, height vg.Length
	plots         [][]*plot.Plot
	panels        [][]Panel
	legend        legend
	note          []string
	top, bottom   vg.Length // of the panels
}

const (
	margin    = vg.Length(10)
	gap       = vg.Length(16) // between panels
	mostShort = 3             // columns, if nobody says
)

func (f *Figure) layout() (*layout, error) {
	l := &layout{figure: f}
	columns := f.Columns
	if columns <= 0 {
		columns = min(mostShort, len(f.Panels))
	}
	var styles styles
	for i, panel := range f.Panels {
		p, entries, err := panel.prepare(&styles)
		if err != nil {
			return nil, fmt.Errorf("chart: panel %d: %w", i+1, err)
		}
		if i%columns == 0 {
			l.plots = append(l.plots, make([]*plot.Plot, columns))
			l.panels = append(l.panels, make([]Panel, columns))
		}
		l.plots[i/columns][i%columns], l.panels[i/columns][i%columns] = p, panel
		l.legend.add(entries)
	}
	rows := len(l.plots)
	size := func(inches, otherwise float64) vg.Length {
		if inches <= 0 {
			inches = otherwise
		}
		return vg.Length(inches) * vg.Inch
	}
	l.width = 2*margin + vg.Length(columns)*size(f.PanelWidth, 3.6) + vg.Length(columns-1)*gap
	inner := l.width - 2*margin
	l.note = wrap(noteStyle, f.Note, inner)
	l.top, l.bottom = margin, margin
	if f.Title != "" {
		l.top += vg.Length(len(wrap(titleStyle, f.Title, inner))) * 1.3 * titleStyle.Font.Size
	}
	l.legend.arrange(inner)
	l.top += l.legend.height()
	if len(l.note) > 0 {
		l.bottom += vg.Length(len(l.note))*1.35*noteStyle.Font.Size + 4
	}
	l.height = l.top + l.bottom + vg.Length(rows)*size(f.PanelHeight, 2.7) + vg.Length(rows-1)*gap
	return l, nil
}

func (l *layout) draw(c draw.Canvas) {
	y := c.Max.Y - margin
	for _, line := range wrap(titleStyle, l.figure.Title, l.width-2*margin) {
		c.FillText(titleStyle, vg.Point{X: c.Min.X + margin, Y: y}, line)
		y -= 1.3 * titleStyle.Font.Size
	}
	l.legend.draw(c, c.Min.X+margin, y)
	inner := draw.Crop(c, margin, -margin, l.bottom, -l.top)
	tiles := draw.Tiles{Rows: len(l.plots), Cols: len(l.plots[0]), PadX: gap, PadY: gap}
	around := l.margins(tiles, inner)
	for i, row := range l.plots {
		for j, p := range row {
			if p == nil {
				continue
			}
			tile := tiles.At(inner, j, i)
			own := marginsOf(p, tile)
			l.panels[i][j].draw(p, draw.Crop(tile,
				around.left[j]-own.left, own.right-around.right[j], around.bottom[i]-own.bottom, own.top-around.top[i]))
		}
	}
	y = c.Min.Y + l.bottom - 4
	for _, line := range l.note {
		c.FillText(noteStyle, vg.Point{X: c.Min.X + margin, Y: y}, line)
		y -= 1.35 * noteStyle.Font.Size
	}
}

// margins are what the panels of each column and row need around their data at most, so that data of equal size stand in line.
type margins struct{ left, right, bottom, top []vg.Length }

// panelMargins are one panel's.
type panelMargins struct{ left, right, bottom, top vg.Length }

func marginsOf(p *plot.Plot, tile draw.Canvas) panelMargins {
	data := p.DataCanvas(tile)
	return panelMargins{data.Min.X - tile.Min.X, tile.Max.X - data.Max.X, data.Min.Y - tile.Min.Y, tile.Max.Y - data.Max.Y}
}

func (l *layout) margins(tiles draw.Tiles, inner draw.Canvas) margins {
	m := margins{
		left: make([]vg.Length, tiles.Cols), right: make([]vg.Length, tiles.Cols),
		bottom: make([]vg.Length, tiles.Rows), top: make([]vg.Length, tiles.Rows),
	}
	for i, row := range l.plots {
		for j, p := range row {
			if p == nil {
				continue
			}
			own := marginsOf(p, tiles.At(inner, j, i))
			m.left[j], m.right[j] = max(m.left[j], own.left), max(m.right[j], own.right)
			m.bottom[i], m.top[i] = max(m.bottom[i], own.bottom), max(m.top[i], own.top)
		}
	}
	return m
}
