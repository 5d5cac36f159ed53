package experiment

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/geodither/geodither/mechanism/grid"
)

// Places are points of interest, in map kilometres. They may be searched by many goroutines.
type Places struct {
	// ID is a hash of the points.
	ID string

	points []grid.Point
}

// NewPlaces makes places of points, in their order: of two that are equally near the earlier one
// counts as nearer. Points that occur twice are two places.
func NewPlaces(points []grid.Point) *Places {
	p := &Places{points: slices.Clone(points)}
	hash := sha256.New()
	for _, at := range points {
		var buf []byte
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(at.X))
		// a hash takes everything
		_, _ = hash.Write(binary.LittleEndian.AppendUint64(buf, math.Float64bits(at.Y)))
	}
	p.ID = hex.EncodeToString(hash.Sum(nil)[:12])
	return p
}

// The synthetic places: about as dense as a city's, half of them evenly spread and half in clusters
// of a spread of 300 m, 20 places to a cluster.
const (
	syntheticPerKM2 = 4
	syntheticLeast  = 200
	syntheticSeed   = 20151012
	clusterSize     = 20
	clusterKM       = .3
)

// Synthetic returns places that are the same for every run on the same map: 4 on a square kilometre
// and 200 at the least. They owe nothing to any trace.
func Synthetic(g *grid.Grid) *Places {
	width, height := float64(g.Width())*g.CellKM(), float64(g.Height())*g.CellKM()
	n := max(syntheticLeast, int(math.Round(syntheticPerKM2*width*height)))
	rng := rand.New(rand.NewPCG(syntheticSeed, 0))
	anywhere := func() grid.Point {
		return grid.Point{
			X: rng.Float64() * width, Y: rng.Float64() * height,
		}
	}
	var points []grid.Point
	for len(points) < n/2 {
		points = append(points, anywhere())
	}
	var centre grid.Point
	for len(points) < n {
		if (len(points)-n/2)%clusterSize == 0 {
			centre = anywhere()
		}
		at := grid.Point{
			X: centre.X + float64(clusterKM*rng.NormFloat64()),
			Y: centre.Y + float64(clusterKM*rng.NormFloat64()),
		}
		if at.X >= 0 && at.X < width && at.Y >= 0 && at.Y < height {
			points = append(points, at)
		}
	}
	return NewPlaces(points)
}

// Len returns the number of places.
func (p *Places) Len() int { return len(p.points) }

// Nearest appends to dst the k places nearest to a point, nearest first, of equals the earlier one;
// all of them if there are fewer. Cost: linear in the places, which are some ten thousand at most.
func (p *Places) Nearest(dst []int, at grid.Point, k int) []int {
	if k < 1 {
		return dst
	}
	best := make([]found, 0, k+1) // ascending
	for number, place := range p.points {
		dx, dy := place.X-at.X, place.Y-at.Y
		f := found{float64(dx*dx) + float64(dy*dy), number}
		if len(best) == k && f.squared >= best[k-1].squared {
			continue
		}
		i := sort.Search(len(best), func(i int) bool { return best[i].squared > f.squared })
		best = slices.Insert(best, i, f)
		best = best[:min(k, len(best))]
	}
	for _, f := range best {
		dst = append(dst, f.number)
	}
	return dst
}

// found is a place and its squared distance.
type found struct {
	squared float64
	number  int
}
