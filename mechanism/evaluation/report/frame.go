package report

import "image/color"

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
