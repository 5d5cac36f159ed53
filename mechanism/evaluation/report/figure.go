package report

import (
	"errors"
	"fmt"
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
