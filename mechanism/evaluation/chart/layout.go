package chart

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// layout is a figure made ready.
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
			note + " The 0 at the foot of a logarithmic axis, below a gap, is 0 itself.",
		)
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

// panelSize is the width of each column and the height of the rows. Maps keep their shape, and
// leave free what they do not fill: where there is nothing else it is cut off.
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

// tile is where a panel is drawn.
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

// sharedBy is what the panels of lines of a row extend to upwards, together.
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
				// the titles of a row stand in line
				p.Title.Padding, above = p.Title.Padding+above, 0
			}
			l.panels[i][j].draw(
				p,
				draw.Crop(
					tile, around.left[j]-own.left, own.right-around.right[j],
					around.bottom[i]-own.bottom, -above,
				),
			)
		}
	}
	y = c.Min.Y + l.bottom - 4
	for _, line := range l.note {
		c.FillText(noteStyle, vg.Point{X: c.Min.X + margin, Y: y}, line)
		y -= 1.35 * noteStyle.Font.Size
	}
}

// margins are what the panels of each column and row need around their data at most, so that data
// of equal size stand in line.
type margins struct{ left, right, bottom, top []vg.Length }

// panelMargins are one panel's.
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
