package chart

import (
	"errors"
	"image/color"
	"math"

	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
)

// viridis is the colour map of that name by Smith and van der Walt: even steps of value are even
// steps to the eye, also without colour vision and on paper. Between these samples of it luminance
// grows evenly.
var viridis = []color.Color{
	color.NRGBA{0x44, 0x01, 0x54, 255},
	color.NRGBA{0x48, 0x24, 0x75, 255},
	color.NRGBA{0x41, 0x44, 0x87, 255},
	color.NRGBA{0x35, 0x5f, 0x8d, 255},
	color.NRGBA{0x2a, 0x78, 0x8e, 255},
	color.NRGBA{0x21, 0x91, 0x8c, 255},
	color.NRGBA{0x22, 0xa8, 0x84, 255},
	color.NRGBA{0x44, 0xbf, 0x70, 255},
	color.NRGBA{0x7a, 0xd1, 0x51, 255},
	color.NRGBA{0xbd, 0xdf, 0x26, 255},
	color.NRGBA{0xfd, 0xe7, 0x25, 255},
}

// nothing is the colour of a cell without a value.
var nothing = color.NRGBA{R: 236, G: 236, B: 236, A: 255}

// colouring turns values into colours.
type colouring struct {
	colours   palette.ColorMap
	low, high float64
	log       bool
}

func (m *Map) colouring() (*colouring, error) {
	colours, err := moreland.NewLuminance(viridis)
	if err != nil {
		return nil, err
	}
	e := extent{log: m.Scale.Log}
	e.add(m.Values)
	if !e.any {
		e.min, e.max = 1, 2
	}
	c := &colouring{colours: colours, low: e.min, high: e.max, log: m.Scale.Log}
	if m.Scale.Min != 0 || m.Scale.Max != 0 {
		c.low, c.high = m.Scale.Min, m.Scale.Max
	}
	if m.Scale.Zero && !c.log {
		c.low = min(c.low, 0)
	}
	if c.log && c.low <= 0 {
		return nil, errors.New("a map whose colours go by the logarithm needs ends above 0")
	}
	if !(c.high > c.low) {
		c.high = c.low + max(math.Abs(c.low), 1)
	}
	colours.SetMin(0)
	colours.SetMax(1)
	return c, nil
}

// share returns where a value lies between the ends, from 0 to 1.
func (c *colouring) share(v float64) float64 {
	if c.log {
		return math.Log(v/c.low) / math.Log(c.high/c.low)
	}
	return (v - c.low) / (c.high - c.low)
}

func (c *colouring) at(share float64) color.Color {
	got, err := c.colours.At(min(max(share, 0), 1))
	if err != nil {
		return nothing
	}
	return got
}

func (c *colouring) of(v float64) color.Color {
	if !finite(v) || c.log && v <= 0 {
		return nothing
	}
	return c.at(c.share(v))
}
