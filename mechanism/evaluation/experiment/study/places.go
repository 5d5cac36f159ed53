package study

import (
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/spatial/kdtree"

	"github.com/geodither/geodither/mechanism/grid"
)

// Places are points of interest, in map kilometres. They may be searched by many goroutines.
type Places struct {
	// Origin says in words where they are from.
	Origin string
	// ID is a hash of the points.
	ID string

	points []grid.Point
	tree   *kdtree.Tree
}

// NewPlaces makes places of points, in their order: of two that are equally near the earlier one
// counts as nearer. Points that occur twice are two places.
func NewPlaces(origin string, points []grid.Point) *Places {
	p := &Places{Origin: origin, points: slices.Clone(points)}
	hash := sha256.New()
	sites := make(sites, len(points))
	for i, at := range points {
		sites[i] = site{at: [2]float64{at.X, at.Y}, number: i}
		var buf []byte
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(at.X))
		// a hash takes everything
		_, _ = hash.Write(binary.LittleEndian.AppendUint64(buf, math.Float64bits(at.Y)))
	}
	p.ID = hex.EncodeToString(hash.Sum(nil)[:12])
	p.tree = kdtree.New(sites, false)
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
	return NewPlaces(fmt.Sprintf("%d synthetic places, %d on a square kilometre and %d at the "+
		"least, from a fixed seed: half of them evenly spread over the map, half in clusters of "+
		"%d with a spread of %g m",
		n, syntheticPerKM2, syntheticLeast, clusterSize, 1000*clusterKM), points)
}

// Len returns the number of places.
func (p *Places) Len() int { return len(p.points) }

// Nearest appends to dst the k places nearest to a point, nearest first, of equals the earlier one;
// all of them if there are fewer.
func (p *Places) Nearest(dst []int, at grid.Point, k int) []int {
	if k < 1 {
		return dst
	}
	best := &nearest{most: k}
	p.tree.NearestSet(best, site{at: [2]float64{at.X, at.Y}}) // which sorts them too
	for _, f := range best.list {
		dst = append(dst, f.number)
	}
	return dst
}

// site is a place in the tree.
type site struct {
	at     [2]float64
	number int
}

// Compare implements kdtree.Comparable.
func (s site) Compare(c kdtree.Comparable, d kdtree.Dim) float64 { return s.at[d] - c.(site).at[d] }

// Dims implements kdtree.Comparable.
func (site) Dims() int { return 2 }

// Distance implements kdtree.Comparable: the squared distance. It is not below the square of either
// difference, so that the tree leaves nothing out that is as near as what is kept.
func (s site) Distance(c kdtree.Comparable) float64 {
	o := c.(site)
	dx, dy := s.at[0]-o.at[0], s.at[1]-o.at[1]
	return float64(dx*dx) + float64(dy*dy)
}

// sites implements kdtree.Interface.
type sites []site

func (s sites) Index(i int) kdtree.Comparable         { return s[i] }
func (s sites) Len() int                              { return len(s) }
func (s sites) Slice(start, end int) kdtree.Interface { return s[start:end] }

// Pivot sorts, so that the tree is the same every time, and cuts at the middle.
func (s sites) Pivot(d kdtree.Dim) int {
	slices.SortFunc(
		s,
		func(a, b site) int {
			return cmp.Or(cmp.Compare(a.at[d], b.at[d]), cmp.Compare(a.number, b.number))
		},
	)
	return len(s) / 2
}

// found is a place and its squared distance.
type found struct {
	squared float64
	number  int
}

func compareFound(a, b found) int {
	return cmp.Or(cmp.Compare(a.squared, b.squared), cmp.Compare(a.number, b.number))
}

// nearest keeps the nearest places as a heap with the furthest on top. It implements kdtree.Keeper,
// whose Max tells the tree how far it must look.
type nearest struct {
	list []found
	most int
}

func (n *nearest) Len() int           { return len(n.list) }
func (n *nearest) Less(i, j int) bool { return compareFound(n.list[i], n.list[j]) > 0 }
func (n *nearest) Swap(i, j int)      { n.list[i], n.list[j] = n.list[j], n.list[i] }
func (n *nearest) Push(x any)         { n.list = append(n.list, x.(found)) }
func (n *nearest) Pop() any {
	last := n.list[len(n.list)-1]
	n.list = n.list[:len(n.list)-1]
	return last
}

// Max implements kdtree.Keeper. Until there are enough places the tree must look everywhere; what
// is nil in a Comparable would be taken for an entry to be removed.
func (n *nearest) Max() kdtree.ComparableDist {
	if len(n.list) < n.most {
		return kdtree.ComparableDist{Comparable: site{}, Dist: math.Inf(1)}
	}
	return kdtree.ComparableDist{Comparable: site{}, Dist: n.list[0].squared}
}

// Keep implements kdtree.Keeper.
func (n *nearest) Keep(c kdtree.ComparableDist) {
	f := found{c.Dist, c.Comparable.(site).number}
	if len(n.list) < n.most {
		heap.Push(n, f)
	} else if compareFound(f, n.list[0]) < 0 {
		n.list[0] = f
		heap.Fix(n, 0)
	}
}
