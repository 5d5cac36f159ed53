package explore

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestFleet: the windows of all users have the truth beside two estimates, and each sums to the
// vehicles. Where ε is large the estimate is better than the model alone, and close.
func TestFleet(t *testing.T) {
	truth := sampleTruth(t)
	s := Settings{Mechanism: law.Codebook, Epsilon: 10, Interval: 1, Seed: 1}
	k := newCrowdsOf(truth)
	c, err := k.crowds(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.crowds(t.Context(), s)
	if err != nil || again != c {
		t.Errorf("the same fleet was computed twice: %v", err)
	}
	if side := c.zones.SideKM(); math.Abs(side-.75) > 1e-9 { // of 1 km there would be 54 zones
		t.Errorf("zones of the buses' map are %g km", side)
	}
	fitted, blind, seen := 0., 0., 0
	for i, w := range c.spans().Windows {
		one, err := c.at(w.StartMS)
		if err != nil || one.CrowdSpan != w || w.EndMS-w.StartMS != crowdWindow.Milliseconds() {
			t.Fatalf("window %d: %v, %+v", i, err, w)
		}
		for name, f := range map[string]*Field{
			"fitted": one.Fitted, "blind": one.Blind, "truth": one.Truth,
		} {
			total := 0.
			for _, x := range values(t, f) {
				total += x
			}
			if math.Abs(total-float64(w.Vehicles)) > .01*float64(w.Vehicles) {
				t.Errorf("window %d: %g vehicles in %s, want %d", i, total, name, w.Vehicles)
			}
		}
		fitted, blind, seen = fitted+w.FittedOff, blind+w.BlindOff, seen+w.Vehicles
	}
	if n := float64(len(c.windows)); n < 5 || seen < 20 || fitted/n > .3 || fitted > blind/2 {
		t.Errorf("%g windows of %d vehicles: the records are off by %g, the model by %g", n, seen,
			fitted/n, blind/n)
	}
}

// TestFleetZones: zones are about a kilometre, whatever the cells, but a map has 64 of them where
// it has as many cells.
func TestFleetZones(t *testing.T) {
	k := newCrowdsOf(&Truth{})
	for _, c := range []struct {
		cells int // along a side, or one more
		cellM float64
		block int
	}{{100, 250, 4}, {100, 100, 10}, {100, 1000, 1}, {40, 3000, 1}, {17, 100, 2}, {3, 100, 1}} {
		north := float64(c.cells) * c.cellM / 111_200 // degrees of latitude
		g, err := grid.New(grid.Box{South: 0, West: 0, North: north, East: north}, c.cellM)
		if err != nil {
			t.Fatal(err)
		}
		o, err := k.collecting(&mobility.Model{Grid: g, Step: time.Minute})
		if err != nil || o.Block != c.block {
			t.Errorf("%d cells of %g m: zones of %d cells, want %d: %v", c.cells, c.cellM,
				o.Block, c.block, err)
		}
	}
}

// TestTooLargeFleet: what cannot be computed for a page is refused in words.
func TestTooLargeFleet(t *testing.T) {
	large := newTruth(sampleTruth(t).model)
	fix := sampleTruth(t).users[0].Fixes[0]
	u := User{Name: "a"}
	for range crowdWork/large.model.Grid.Cells() + 1 {
		u.Fixes = append(u.Fixes, fix)
	}
	large.users = []User{u}
	k := newCrowdsOf(large)
	if _, err := k.crowds(t.Context(), DefaultSettings()); err == nil ||
		!strings.Contains(err.Error(), "too many traces") {
		t.Errorf("too many traces: %v", err)
	}
}
