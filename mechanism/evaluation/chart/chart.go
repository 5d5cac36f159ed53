// Package chart draws a few kinds of figures with gonum.org/v1/plot: panels of lines with
// confidence bands, and maps of a grid. Readers with any colour vision can distinguish the colours,
// and the series also differ in dashes and markers. The same figure gives the same bytes on one
// machine.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figure is one or more panels with a title above them, one legend for all of them, and a note
// below.
type Figure struct {
	Title string
	// Note is the text below the panels: what the bands are, how much was measured. It is broken
	// into lines.
	Note   string
	Panels []Panel
	// Columns of panels; 0 makes one row of up to three.
	Columns int
	// PanelWidth and PanelHeight are in inches; 0 means 3.6 and 2.7. If all
	// panels are maps, they shrink to what the maps fill.
	PanelWidth, PanelHeight float64
	// SameY gives the panels of lines in a row the same y axis, for rows of one quantity.
	SameY bool
}

// Panel is one chart of a figure: *Lines or *Map.
type Panel interface {
	// prepare returns the panel's plot and the entries that it adds to the legend. A panel of lines
	// takes the shared extent for its y axis, if there is one.
	prepare(styles *styles, shared *extent) (*plot.Plot, []entry, error)
	// draw draws the plot into its tile.
	draw(p *plot.Plot, tile draw.Canvas)
	// describe returns what the panel shows, and the names of its series.
	describe() (what string, names []string)
}

// Format is the file format of a figure.
type Format string

// The formats.
const (
	PNG Format = "png"
	SVG Format = "svg"
)

// dotsPerInch of a PNG: twice what a plain screen shows.
const dotsPerInch = 160

// Write draws the figure. An error is w's, or names what in the figure cannot be drawn.
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

// WriteFile draws the figure to a file, as PNG or SVG by the name's ending; see [Save].
func (f *Figure) WriteFile(path string) error {
	var buf bytes.Buffer
	if err := f.Write(
		&buf, Format(strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")),
	); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return Save(path, buf.Bytes())
}

// Save writes a file that appears whole or not at all, and that only its owner may read. Figures,
// reports and what they are made of are saved so, because they may reveal something about the
// people in the traces.
func Save(path string, data []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".saving-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o600), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// Describe describes the figure for readers who do not see it: the panels with their axes, and the
// names of what is in them.
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

// layout is a figure with the places of its parts.
type layout struct {
	figure        *Figure
	width, height vg.Length
	plots         [][]*plot.Plot
	panels        [][]Panel
	legend        legend
	note          []string
	top, bottom   vg.Length   // of the panels
	columns       []vg.Length // their widths
	row           vg.Length   // the height of each row
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
	var shared *extent
	zeros := false
	for i, panel := range f.Panels {
		if i%columns == 0 && f.SameY {
			shared = sharedBy(f.Panels[i:min(i+columns, len(f.Panels))])
		}
		p, entries, err := panel.prepare(&styles, shared)
		if err != nil {
			return nil, fmt.Errorf("chart: panel %d: %w", i+1, err)
		}
		if i%columns == 0 {
			l.plots = append(l.plots, make([]*plot.Plot, columns))
			l.panels = append(l.panels, make([]Panel, columns))
		}
		l.plots[i/columns][i%columns], l.panels[i/columns][i%columns] = p, panel
		l.legend.add(entries)
		ticks, log := p.Y.Tick.Marker.(logTicks)
		zeros = zeros || log && ticks.zero
	}
	rows := len(l.plots)
	l.columns, l.row = f.panelSize(l.plots, columns)
	l.width = 2*margin + vg.Length(columns-1)*gap
	for _, width := range l.columns {
		l.width += width
	}
	inner := l.width - 2*margin
	note := f.Note
	if zeros {
		note = strings.TrimSpace(
			note + " The 0 at the foot of a logarithmic axis, below a gap, is 0 itself.")
	}
	l.note = wrap(noteStyle, note, inner)
	l.top, l.bottom = margin, margin
	if f.Title != "" {
		l.top += vg.Length(len(wrap(titleStyle, f.Title, inner))) * 1.3 * titleStyle.Font.Size
	}
	l.legend.arrange(inner)
	l.top += l.legend.height()
	if len(l.note) > 0 {
		l.bottom += vg.Length(len(l.note))*1.35*noteStyle.Font.Size + 4
	}
	l.height = l.top + l.bottom + vg.Length(rows)*l.row + vg.Length(rows-1)*gap
	return l, nil
}

// panelSize is the width of each column and the height of the rows. Maps keep their
// shape. If there are only maps, what they do not fill is cut off.
func (f *Figure) panelSize(
	plots [][]*plot.Plot, columns int,
) (widths []vg.Length, height vg.Length) {
	size := func(inches, otherwise float64) vg.Length {
		if inches <= 0 {
			inches = otherwise
		}
		return vg.Length(inches) * vg.Inch
	}
	width, height := size(f.PanelWidth, 3.6), size(f.PanelHeight, 2.7)
	filled := make([]vg.Length, columns)
	var highest vg.Length
	for i, panel := range f.Panels {
		m, ok := panel.(*Map)
		if !ok {
			return slices.Repeat([]vg.Length{width}, columns), height
		}
		w, h := m.filled(plots[i/columns][i%columns], width, height)
		filled[i%columns], highest = max(filled[i%columns], w), max(highest, h)
	}
	return filled, highest
}

// tile returns the place of a panel.
func (l *layout) tile(inner draw.Canvas, i, j int) draw.Canvas {
	left, top := inner.Min.X+vg.Length(j)*gap, inner.Max.Y-vg.Length(i)*(l.row+gap)
	for _, width := range l.columns[:j] {
		left += width
	}
	inner.Rectangle = vg.Rectangle{
		Min: vg.Point{X: left, Y: top - l.row}, Max: vg.Point{X: left + l.columns[j], Y: top},
	}
	return inner
}

// sharedBy returns the common extent of y of the panels of lines in a row.
func sharedBy(row []Panel) *extent {
	var shared extent
	for _, panel := range row {
		if l, ok := panel.(*Lines); ok {
			_, y := l.extents()
			shared.join(y)
		}
	}
	return &shared
}

func (l *layout) draw(c draw.Canvas) {
	y := c.Max.Y - margin
	for _, line := range wrap(titleStyle, l.figure.Title, l.width-2*margin) {
		c.FillText(titleStyle, vg.Point{X: c.Min.X + margin, Y: y}, line)
		y -= 1.3 * titleStyle.Font.Size
	}
	l.legend.draw(c, c.Min.X+margin, y)
	inner := draw.Crop(c, margin, -margin, l.bottom, -l.top)
	around := l.margins(inner)
	for i, row := range l.plots {
		for j, p := range row {
			if p == nil {
				continue
			}
			tile := l.tile(inner, i, j)
			own := marginsOf(p, tile)
			above := around.top[i] - own.top
			if p.Title.Text != "" {
				// the titles of a row are aligned
				p.Title.Padding, above = p.Title.Padding+above, 0
			}
			l.panels[i][j].draw(p, draw.Crop(tile, around.left[j]-own.left,
				own.right-around.right[j], around.bottom[i]-own.bottom, -above))
		}
	}
	y = c.Min.Y + l.bottom - 4
	for _, line := range l.note {
		c.FillText(noteStyle, vg.Point{X: c.Min.X + margin, Y: y}, line)
		y -= 1.35 * noteStyle.Font.Size
	}
}

// margins are the largest margins around the data in each column and row, so that the data of
// panels are aligned.
type margins struct{ left, right, bottom, top []vg.Length }

// panelMargins are the margins of one panel.
type panelMargins struct{ left, right, bottom, top vg.Length }

func marginsOf(p *plot.Plot, tile draw.Canvas) panelMargins {
	data := p.DataCanvas(tile)
	return panelMargins{
		data.Min.X - tile.Min.X, tile.Max.X - data.Max.X, data.Min.Y - tile.Min.Y,
		tile.Max.Y - data.Max.Y,
	}
}

func (l *layout) margins(inner draw.Canvas) margins {
	m := margins{
		left: make([]vg.Length, len(l.columns)), right: make([]vg.Length, len(l.columns)),
		bottom: make([]vg.Length, len(l.plots)), top: make([]vg.Length, len(l.plots)),
	}
	for i, row := range l.plots {
		for j, p := range row {
			if p == nil {
				continue
			}
			own := marginsOf(p, l.tile(inner, i, j))
			m.left[j], m.right[j] = max(m.left[j], own.left), max(m.right[j], own.right)
			m.bottom[i], m.top[i] = max(m.bottom[i], own.bottom), max(m.top[i], own.top)
		}
	}
	return m
}

// legend flows in rows above the panels.
type legend struct {
	entries []entry
	rows    [][]entry
}

func (l *legend) add(entries []entry) {
	for _, e := range entries {
		known := e.name == ""
		for i := range l.entries {
			if old := &l.entries[i]; old.name == e.name {
				known, old.plain = true, old.plain && e.plain
				if old.look.line.Width == 0 {
					old.look.line = e.look.line
				}
			}
		}
		if !known {
			l.entries = append(l.entries, e)
		}
	}
}

func (l *legend) arrange(width vg.Length) {
	var used vg.Length
	for _, e := range l.entries {
		e.name = elide(legendStyle, e.name, width-e.sample()-5)
		if w := e.width(); len(l.rows) == 0 || used+w-legendGap > width {
			l.rows = append(l.rows, nil)
			used = 0
		}
		l.rows[len(l.rows)-1] = append(l.rows[len(l.rows)-1], e)
		used += e.width()
	}
}

func (l *legend) height() vg.Length {
	if len(l.rows) == 0 {
		return 4
	}
	return vg.Length(len(l.rows))*legendRow + 8
}

func (l *legend) draw(c draw.Canvas, left, top vg.Length) {
	y := top - legendRow/2 - 1
	for _, row := range l.rows {
		x := left
		for _, e := range row {
			if e.look.line.Width > 0 {
				c.StrokeLine2(e.look.line, x, y, x+e.sample(), y)
			}
			if e.look.glyph.Shape != nil && !e.plain {
				c.DrawGlyphNoClip(e.look.glyph, vg.Point{X: x + e.sample()/2, Y: y})
			}
			c.FillText(legendStyle, vg.Point{X: x + e.sample() + 5, Y: y}, e.name)
			x += e.width()
		}
		y -= legendRow
	}
}

// svgText matches a text as vgsvg writes it: what comes before its size, the size and the text.
var svgText = regexp.MustCompile(`<text ([^>]*font-size:([0-9.]+)px")>([^<]*)</text>`)

// portable makes a drawing readable on machines without the font of its layout. It names fonts that
// every machine has, and it gives each text its length, because other fonts are wider: without the
// length, titles, legends and notes would run out of the picture. It also corrects the type of
// embedded images.
func portable(svg []byte) []byte {
	svg = svgText.ReplaceAllFunc(svg, func(element []byte) []byte {
		parts := svgText.FindSubmatch(element)
		size, err := strconv.ParseFloat(string(parts[2]), 64)
		if err != nil || len(bytes.TrimSpace(parts[3])) == 0 {
			return element
		}
		style := noteStyle
		style.Font.Size = vg.Length(size)
		length := float64(style.Width(html.UnescapeString(string(parts[3]))))
		fitted := append([]byte("<text "), parts[1]...)
		fitted = append(fitted, ` textLength="`...)
		fitted = strconv.AppendFloat(fitted, length, 'f', 2, 64)
		fitted = append(fitted, `" lengthAdjust="spacingAndGlyphs">`...)
		return append(append(fitted, parts[3]...), "</text>"...)
	})
	svg = bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return bytes.ReplaceAll(svg, []byte("data:image/jpg;"), []byte("data:image/png;"))
}
