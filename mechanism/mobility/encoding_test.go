package mobility

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

func TestEncodingIsExactAfterRound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var back Distribution
	for _, n := range []int{0, 1, 2, 100, 3000} {
		d := randomDistribution(random, n)
		d.Round()
		data := d.AppendBinary([]byte("before"))
		if !bytes.HasPrefix(data, []byte("before")) {
			t.Fatal("the prefix is gone")
		}
		rest, err := back.DecodeBinary(append(data[6:], "after"...))
		if err != nil || string(rest) != "after" {
			t.Fatalf("rest %q, error %v", rest, err)
		}
		if !slices.Equal(back.Cells, d.Cells) || !slices.Equal(back.P, d.P) {
			t.Fatalf("%d cells did not come back as they were", n)
		}
	}
}

func TestEncodingRoundsAsRoundDoes(t *testing.T) {
	d := Distribution{Cells: []grid.Cell{3, 4, 9}, P: []float64{.1, 1e-60, .9}}
	data := d.AppendBinary(nil)
	d.Round()
	if d.Len() != 2 {
		t.Fatalf("%d cells after Round, want 2: a mass below float32 is dropped", d.Len())
	}
	if !bytes.Equal(data, d.AppendBinary(nil)) {
		t.Error("Round and AppendBinary disagree")
	}
}

// TestEncodingSize pins the size: a compact blob costs about 5 bytes a cell.
func TestEncodingSize(t *testing.T) {
	d := disc(plainGrid(t, 100, 100), 800, 1)
	if size := len(d.AppendBinary(nil)); size > 5*d.Len()+10 {
		t.Errorf("%d bytes for %d cells", size, d.Len())
	}
}

func TestDecodeRefuses(t *testing.T) {
	one := func(bits uint32) []byte {
		return []byte{1, 7, byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)}
	}
	for name, data := range map[string][]byte{
		"nothing":          {},
		"endless count":    bytes.Repeat([]byte{0xff}, 11),
		"huge count":       {0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3},
		"cut in the cells": {2, 7},
		"cut in masses":    {1, 7, 0, 0, 0x80},
		"zero":             one(0),
		"negative":         one(math.Float32bits(-1)),
		"not a number":     one(0x7fc00000),
		"infinite":         one(0x7f800000),
		"cell too large":   {1, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0x80, 0x3f},
		"overflow by sum": {
			2, 0xfe, 0xff, 0xff, 0xff, 0x07, 5, 0, 0, 0x80, 0x3f, 0, 0, 0x80,
			0x3f,
		},
	} {
		d := Distribution{Cells: []grid.Cell{1}, P: []float64{1}}
		if _, err := d.DecodeBinary(data); !errors.Is(err, ErrDistribution) || d.Len() != 0 ||
			len(d.P) != 0 {
			t.Errorf("%s: error %v, %d cells left", name, err, d.Len())
		}
	}
}

func FuzzDecodeDistribution(f *testing.F) {
	random := rand.New(rand.NewPCG(2, 1))
	for _, n := range []int{0, 1, 5} {
		f.Add(randomDistribution(random, n).AppendBinary(nil))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again Distribution
		rest, err := d.DecodeBinary(data)
		if err != nil {
			return
		}
		before := grid.Cell(-1)
		for i, c := range d.Cells {
			if c <= before || !(d.P[i] > 0) || math.IsInf(d.P[i], 1) {
				t.Fatalf("entry %d is not in order", i)
			}
			before = c
		}
		encoded := d.AppendBinary(nil)
		if len(encoded) > len(data)-len(rest) {
			t.Fatalf("%d bytes were read as what takes %d", len(data)-len(rest), len(encoded))
		}
		if _, err := again.DecodeBinary(encoded); err != nil ||
			!slices.Equal(again.Cells, d.Cells) || !slices.Equal(again.P, d.P) {
			t.Fatalf("the encoding of what was decoded differs: %v", err)
		}
	})
}

func randomDistribution(random *rand.Rand, n int) *Distribution {
	d := &Distribution{}
	c := grid.Cell(0)
	for range n {
		c += grid.Cell(random.IntN(300))
		d.Cells = append(d.Cells, c)
		d.P = append(d.P, random.ExpFloat64())
		c++
	}
	d.Normalize()
	return d
}
