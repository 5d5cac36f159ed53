package report

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Figure is one or more panels with a title above them, one legend for all of them, and a note
// below. Panels of lines in a row whose y axes have the same label have the same y axis. Its
// caption in a report is its title.
type Figure struct {
	// Name is the name of its files in a report, without an ending: lower-case letters, digits and
	// hyphens.
	Name, Title string
	// Note is the text below the panels: what the bands are, how much was measured. It is broken
	// into lines.
	Note   string
	Panels []Panel
	// Columns of panels; 0 makes one row of up to three.
	Columns int
	// PanelWidth and PanelHeight are in inches; 0 means 3.6 and 2.7. A map is no higher than its
	// shape asks for.
	PanelWidth, PanelHeight float64
}

// Panel is one chart of a figure: *Lines or *Map.
type Panel interface {
	// frame returns what is drawn. Its y axis may depend on the other panels of its row.
	frame(row []Panel) (*frame, error)
}

// draw returns the figure as SVG. An error names what in the figure cannot be drawn.
func (f *Figure) draw() ([]byte, error) {
	l, err := f.layout()
	if err != nil {
		return nil, err
	}
	c := &svg{}
	l.draw(c)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%dpt" height="%dpt" `+
		`viewBox="0 0 %[1]d %[2]d" font-family="Go,Arial,Helvetica,sans-serif">`+"\n"+
		`<rect width="100%%" height="100%%" fill="#fff"/>`+"\n%s</svg>\n",
		int(math.Ceil(l.width)), int(math.Ceil(l.height)), c.Bytes()), nil
}

// WriteFile draws the figure to a file, as SVG; see [Save].
func (f *Figure) WriteFile(path string) error {
	data, err := f.draw()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return Save(path, data)
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

// Lengths, and sizes of text, in points.
const (
	inch               = 72.
	margin             = 10.
	gap                = 16. // between panels
	below              = 34. // a panel's data: the labels of x
	mostShort          = 3   // columns, if nobody says
	titleSize, subSize = 13., 10.
	noteSize, tickSize = 9., 9.
	legendSample       = 28.
	legendRow          = 15.
	legendGap          = 14. // between entries
)

// layout is a figure with the places of its parts.
type layout struct {
	figure        *Figure
	width, height float64
	title, note   []string
	legend        [][]*mark
	frames        []*frame
}

func (f *Figure) layout() (*layout, error) {
	if len(f.Panels) == 0 {
		return nil, errors.New("report: a figure needs a panel")
	}
	l := &layout{figure: f}
	var looks looks
	columns := f.Columns
	if columns <= 0 {
		columns = min(mostShort, len(f.Panels))
	}
	for i, panel := range f.Panels {
		first := i - i%columns
		next, err := panel.frame(f.Panels[first:min(first+columns, len(f.Panels))])
		if err != nil {
			return nil, fmt.Errorf("report: panel %d: %w", i+1, err)
		}
		looks.choose(next.marks)
		l.frames = append(l.frames, next)
	}
	size := func(inches, otherwise float64) float64 {
		if inches <= 0 {
			inches = otherwise
		}
		return inches * inch
	}
	each, high := size(f.PanelWidth, 3.6), size(f.PanelHeight, 2.7)
	inner := float64(columns)*(each+gap) - gap
	l.width = inner + 2*margin
	l.title, l.note = wrap(f.Title, titleSize, inner), wrap(f.Note, noteSize, inner)
	l.arrange(inner)
	l.height = margin + 1.3*titleSize*float64(len(l.title)) + legendRow*float64(len(l.legend)) + 4
	for first := 0; first < len(l.frames); first += columns {
		l.height += placeRow(l.frames, first, min(first+columns, len(l.frames)), columns,
			rect{margin, l.height, margin + each, l.height + high}) + gap
	}
	l.height += 1.35*noteSize*float64(len(l.note)) + margin - gap/2
	return l, nil
}

// looks numbers the names of a figure in the order of their first use.
type looks map[string]int

func (l *looks) choose(marks []*mark) {
	if *l == nil {
		*l = looks{}
	}
	for _, m := range marks {
		number := m.Look - 1
		if m.Look == 0 && !m.Reference && !m.Guide {
			if _, known := (*l)[m.Name]; !known {
				(*l)[m.Name] = len(*l)
			}
			number = (*l)[m.Name]
		}
		m.look(number)
	}
}

func (l *layout) draw(c canvas) {
	y := margin
	for _, line := range l.title {
		c.write(point{margin, y + titleSize}, words{line, titleSize, 0})
		y += 1.3 * titleSize
	}
	for _, row := range l.legend {
		x := margin
		for _, m := range row {
			middle := point{x + legendSample/2, y + legendRow/2}
			if m.width > 0 {
				c.line([]point{{x, middle.y}, {x + legendSample, middle.y}}, m.stroke)
			}
			m.draw(c, middle)
			c.write(point{x + legendSample + 5, y + legendRow/2 + 3.5}, words{m.Name, subSize, 0})
			x += m.room()
		}
		y += legendRow
	}
	for _, f := range l.frames {
		f.draw(c)
	}
	y = l.height - margin - 1.35*noteSize*float64(len(l.note)-1)
	for _, line := range l.note {
		c.write(point{margin, y}, words{line, noteSize, 0})
		y += 1.35 * noteSize
	}
}

// arrange gives each name one entry of the legend, in rows.
func (l *layout) arrange(most float64) {
	used, known := most, map[string]bool{"": true}
	for _, f := range l.frames {
		for _, m := range f.marks {
			if known[m.Name] {
				continue
			}
			known[m.Name] = true
			if used+m.room()-legendGap > most {
				l.legend, used = append(l.legend, nil), 0
			}
			last := len(l.legend) - 1
			l.legend[last], used = append(l.legend[last], m), used+m.room()
		}
	}
}

// together keeps on one line what belongs together: a number and its percent sign, and the two
// sides of an equation.
var together = strings.NewReplacer(" %", "\u00a0%", " = ", "\u00a0=\u00a0")

// wrap breaks text into lines of at most a width, at spaces. It cuts off the end of a word that is
// too wide for a line.
func wrap(text string, size, most float64) (lines []string) {
	for word := range strings.FieldsFuncSeq(
		together.Replace(text), func(r rune) bool { return r == ' ' || r == '\n' },
	) {
		if cut := []rune(word); width(word, size) > most {
			for len(cut) > 0 && width(string(cut)+"…", size) > most {
				cut = cut[:len(cut)-1]
			}
			word = string(cut) + "…"
		}
		last := len(lines) - 1
		if last < 0 || width(lines[last]+" "+word, size) > most {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}

// frame is a panel with its axes and its place.
type frame struct {
	title string
	x, y  *axis
	marks []*mark
	shape float64 // how high data of width 1 are; 0: as high as there is room
	field *field  // of a map, nil without colours
	at    rect    // of the data
}

// left and right are the room beside the data.
func (f *frame) left() (room float64) {
	for _, t := range f.y.ticks() {
		room = max(room, width(t.label, tickSize))
	}
	return room + 8
}

func (f *frame) right() float64 {
	if f.field != nil {
		return fieldRoom
	}
	return 8
}

// placeRow places the panels of a row from a first one on, each to the right of the one before, and
// returns their height. Data of a column are aligned.
func placeRow(all []*frame, first, end, columns int, tile rect) (height float64) {
	top := subSize * 1.4
	for _, f := range all[first:end] {
		if f.title != "" {
			top = subSize * 2.8
		}
	}
	for i, f := range all[first:end] {
		left, right := 0., 8.
		for j := i; j < len(all); j += columns {
			left, right = max(left, all[j].left()), max(right, all[j].right())
		}
		shift := float64(i) * (tile.width() + gap)
		f.at = rect{
			tile.left + shift + left, tile.top + top, tile.right + shift - right,
			tile.bottom - below,
		}
		if f.shape > 0 { // a map keeps its shape
			f.at.bottom = min(f.at.bottom, f.at.top+f.at.width()*f.shape)
			spare := f.at.width() - f.at.height()/f.shape
			f.at.left, f.at.right = f.at.left+spare/2, f.at.right-spare/2
		}
		height = max(height, f.at.bottom+below-tile.top)
	}
	return height
}

// place returns where a value lies.
func (f *frame) place(x, y float64) point {
	return point{
		f.at.left + f.x.share(x)*f.at.width(), f.at.bottom - f.y.share(y)*f.at.height(),
	}
}

var (
	pale = stroke{color.NRGBA{R: 225, G: 225, B: 225, A: 255}, .5, nil}
	thin = stroke{black, .6, nil}
)

func (f *frame) draw(c canvas) {
	at, middle := f.at, (f.at.left+f.at.right)/2
	if f.title != "" {
		c.write(point{middle, at.top - subSize*1.7}, words{f.title, subSize + .5, .5})
	}
	c.write(point{at.left, at.top - 4}, words{f.y.Label, tickSize, 0})
	beside := func(label string) float64 { return width(label, tickSize) + 3 }
	for _, t := range f.x.apart(at.width(), beside) {
		x := at.left + t.share*at.width()
		c.line([]point{{x, at.top}, {x, at.bottom}}, pale)
		c.write(point{x, at.bottom + 12}, words{t.label, tickSize, .5})
	}
	for _, t := range f.y.apart(at.height(), upright) {
		y := at.bottom - t.share*at.height()
		c.line([]point{{at.left, y}, {at.right, y}}, pale)
		c.write(point{at.left - 4, y + 3}, words{t.label, tickSize, 1})
	}
	c.write(point{middle, at.bottom + 25}, words{f.x.Label, subSize - .5, .5})
	c.clip(at)
	if f.field != nil {
		f.field.draw(c, f)
	}
	for _, m := range f.marks { // all bands are drawn before all lines, so no band covers a line
		f.drawBand(c, m)
	}
	for _, m := range f.marks {
		f.drawLine(c, m)
	}
	c.unclip()
	c.line([]point{{at.left, at.top}, {at.left, at.bottom}, {at.right, at.bottom}}, thin)
	if f.field != nil {
		f.field.drawBar(c, at)
	}
}

func (f *frame) drawLine(c canvas, m *mark) {
	for _, run := range runs(m.X, m.Y) {
		var line []point
		for _, i := range run {
			line = append(line, f.place(m.X[i], m.Y[i]))
			m.draw(c, line[len(line)-1])
		}
		if len(line) > 1 && m.width > 0 {
			c.line(line, m.stroke)
		}
	}
}

// Opacities: of a bar, which is only a line, and of the ends of a band, which tell bands apart that
// overlap. Those of bands keep many of them from hiding each other.
const (
	barShade, edgeShade       = 180, 110
	leastShade, allBandsShade = 20, 150
)

func (f *frame) drawBand(c canvas, m *mark) {
	if m.Low == nil {
		return
	}
	shaded := func(opaque int) color.NRGBA {
		colour := m.colour
		colour.A = uint8(opaque)
		return colour
	}
	for _, run := range runs(m.X, m.Low, m.High) {
		var lower, upper []point
		for _, i := range run {
			lower = append(lower, f.place(m.X[i], m.Low[i]))
			upper = append(upper, f.place(m.X[i], m.High[i]))
		}
		if len(run) == 1 { // between breaks: a bar, since a band would have no width
			c.line([]point{lower[0], upper[0]}, stroke{shaded(barShade), 1.5, nil})
			continue
		}
		c.line(lower, stroke{shaded(edgeShade), .5, nil})
		c.line(upper, stroke{shaded(edgeShade), .5, nil})
		for i := len(upper) - 1; i >= 0; i-- {
			lower = append(lower, upper[i])
		}
		c.area(lower, shaded(max(leastShade, allBandsShade/(len(f.marks)+1))))
	}
}

// runs are the numbers of successive points that have a value in every list.
func runs(lists ...[]float64) (all [][]int) {
	broken := true
	for i := range lists[0] {
		ok := true
		for _, list := range lists {
			ok = ok && finite(list[i])
		}
		if ok && broken {
			all = append(all, nil)
		}
		if broken = !ok; ok {
			all[len(all)-1] = append(all[len(all)-1], i)
		}
	}
	return all
}
