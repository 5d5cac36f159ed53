package law

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/geodither/geodither/mechanism/convex"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/portable"
)

// NearVersion goes up whenever the codebook mechanism displaces votes by other noise for the same
// ε, map and Near, or writes its facts otherwise. It stands where CodebookVersion does, of releases
// with a near factor only.
const NearVersion = 1

// Bounds of a near factor.
const (
	// MaxReach is how many columns and rows a vote may be displaced by at most. Noise that reaches
	// further leaves nothing of a town.
	MaxReach = 32
	// MaxNearFactor is the largest factor. A larger one would tell near places apart by nearly all
	// of an ε of 5, and more of a larger one.
	MaxNearFactor = 100
	// MaxNearDecimals is how many decimals a factor may have. With MaxNearFactor it keeps all
	// products within words.
	MaxNearDecimals = 3
	// nearTotal bounds the sum of the weights: times MaxNearFactor·10³ it is below 2⁶³.
	nearTotal = 1 << 46
)

// Near asks the codebook mechanism for a second bound on what a release tells about near places.
// The zero value asks for none.
type Near struct {
	// DistanceKM is how far apart near places are at most on the ground, kilometres. Two places
	// however near can lie in two cells that touch, so it is never less than OnGround.
	DistanceKM float64
	// Factor is by how much at most a release changes the odds between two near places: above 1,
	// below e^ε, with at most MaxNearDecimals decimals.
	Factor float64
}

// Validate reports what cannot be used beside an ε, with what to set instead.
func (n Near) Validate(epsilon float64) error {
	if n == (Near{}) {
		return nil
	}
	if !(n.DistanceKM > 0) || math.IsInf(n.DistanceKM, 1) {
		return errors.New("near distance must be above 0: set it to how far apart places are " +
			"that must not be told apart, 340m say")
	}
	whole, per, decimals := shortest(n.Factor)
	switch {
	case !(n.Factor > 1):
		return fmt.Errorf("near factor %g is not above 1, and 1 would allow no release to tell "+
			"anything: 2 is a strong promise", n.Factor)
	case n.Factor > MaxNearFactor:
		return fmt.Errorf("near factor %g is above %d, which protects no near place: lower it, "+
			"or leave near out", n.Factor, MaxNearFactor)
	case decimals > MaxNearDecimals:
		return fmt.Errorf("near factor %v has %d decimals, and the mechanism computes with all of "+
			"them, at most %d: write it shorter", n.Factor, decimals, MaxNearDecimals)
	}
	usable := (Options{Name: Codebook}).CheckEpsilon(epsilon) == nil // else that error comes first
	if usable && bigProduct(whole, otherWeight(epsilon)).Cmp(
		new(big.Int).Lsh(new(big.Int).SetUint64(per), 64)) >= 0 {
		return fmt.Errorf("near factor %g is not below e^epsilon, which is %.4g and holds between "+
			"any two places without it: lower the factor, or leave near out", n.Factor,
			portable.Exp(epsilon))
	}
	return nil
}

// OnMap returns how far apart near places are at most on a map, kilometres: what the noise is made
// for. It is grid.OnMap of the distance, or the side of a cell if that is more.
func (n Near) OnMap(g *grid.Grid) float64 { return max(g.OnMap(n.DistanceKM), g.CellKM()) }

// OnGround returns how far apart on the ground the places may be that the factor is promised for,
// kilometres: DistanceKM, or more if cells are larger. The map distorts distances, so that is a
// little less than the side of a cell then.
func (n Near) OnGround(g *grid.Grid) float64 { return max(n.DistanceKM, g.OnGround(g.CellKM())) }

func bigProduct(a, b uint64) *big.Int {
	return new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
}

// offset is by how many columns and rows two cells differ, up to the symmetries of the square:
// 0 ≤ y ≤ x.
type offset struct{ x, y int }

// offsetsWithin returns the offsets of all pairs of different cells that hold places at most so
// many kilometres apart on the map. ok is false where one exceeds most columns or rows, and for
// places at any distance, which +Inf is: Grid.OnMap returns it close to a pole.
//
// Cells are half open: places in cells that are a columns and b rows apart differ by more than
// a - 1 and b - 1 sides, where a and b are not 0. So a pair counts if
//
//	max(a-1, 0)² + max(b-1, 0)² < (km/side)²,
//
// which is always so for the eight neighbours. Both lengths are the numbers that their shortest
// decimals stand for, so a distance of two sides is two sides.
func offsetsWithin(km, side float64, most int) (all []offset, ok bool) {
	if math.IsInf(km, 1) {
		return nil, false
	}
	ratio := new(big.Rat).Quo(decimal(km), decimal(side))
	ratio.Mul(ratio, ratio)
	for x := 1; ; x++ {
		if x > 1 && !below((x-1)*(x-1), ratio) {
			return all, true
		}
		if x > most {
			return nil, false
		}
		for y := 0; y <= x; y++ {
			away := max(y-1, 0)
			if square := (x-1)*(x-1) + away*away; square == 0 || below(square, ratio) {
				all = append(all, offset{x, y})
			}
		}
	}
}

// Offsets returns by how many columns and rows two different cells of a map differ that hold near
// places, in every direction, of two opposite ones the one that goes up or right. It is nil beyond
// MaxReach, where no noise is made.
func (n Near) Offsets(g *grid.Grid) (all []convex.Lattice) {
	within, ok := offsetsWithin(n.OnMap(g), g.CellKM(), MaxReach)
	if !ok {
		return nil
	}
	for y := 0; y <= MaxReach; y++ {
		for x := -MaxReach; x <= MaxReach; x++ {
			away := max(x, -x)
			if (y > 0 || x > 0) && slices.Contains(within, offset{max(away, y), min(away, y)}) {
				all = append(all, convex.Lattice{X: int64(x), Y: int64(y)})
			}
		}
	}
	return all
}

func below(n int, r *big.Rat) bool { return new(big.Rat).SetInt64(int64(n)).Cmp(r) < 0 }

// decimal returns the number that the shortest decimal of x stands for.
func decimal(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'f', -1, 64))
	return r
}

// nearNoise is the secret noise that moves votes: a shift by whole columns and rows, of at most
// reach each, with a whole weight for each.
//
// Guarantee: for each offset v of two near cells, and with the fraction p/q = Factor,
//
//	D·Σ max(0, q·g(s) - p·g(s - v)) ≤ (p - q)·T·Σ g(s),  D = 2⁶⁴ - T,
//
// in whole numbers, which holds checks. PROOFS.md, theorem 13, says why that suffices.
type nearNoise struct {
	near    Near
	reach   int
	weights []uint64 // by row and column, 2·reach+1 of each
	total   uint64
	// upTo are sums of the weights: of all up to each one.
	upTo []uint64
	// along are sums of the weights of a row before each column, 2·reach+2 of them a row.
	along []uint64

	within200M, within1KM float64 // factors
}

// kernel is a shape of the noise.
type kernel struct {
	norm    func(x, y float64) float64
	tapered bool
}

// The weights of a shift s are e^{-‖s‖/ρ} for ‖s‖ ≤ r, or that less e^{-(r+1/100)/ρ},
// and 0 beyond r. Which norm has the least variance depends on ε and the factor: near places lie
// in a square, and at a small ε the area counts. The best noise of any shape, by a linear program,
// has a root mean square that is 6 % smaller at ε = 4 and factor 3, and 9 % at ε = 2 and factor
// 2.
func kernels() []kernel {
	round := func(x, y float64) float64 { return math.Sqrt(float64(x*x) + float64(y*y)) }
	square := func(x, y float64) float64 { return max(x, y) }
	between := func(x, y float64) float64 { return (round(x, y) + square(x, y)) / 2 }
	var all []kernel
	for _, norm := range []func(x, y float64) float64{square, between, round} {
		all = append(all, kernel{norm, false}, kernel{norm, true})
	}
	return all
}

// newNearNoise returns the noise of least variance among some shapes that keeps the guarantee on a
// map, with T = other. It fails if none of at most MaxReach does.
func newNearNoise(near Near, g *grid.Grid, other uint64) (*nearNoise, error) {
	offsets, ok := offsetsWithin(near.OnMap(g), g.CellKM(), MaxReach)
	if !ok {
		return nil, near.tooFar(g)
	}
	s := newNoiseSearch(near, offsets, other)
	for _, k := range kernels() {
		s.shape(k)
	}
	if s.best.total == 0 {
		return nil, near.tooFar(g)
	}
	d := &s.best
	d.near = near
	d.sum()
	most := 0x1p64 / float64(other)
	d.within200M = d.factor(.2, g, most)
	d.within1KM = d.factor(1, g, most)
	return d, nil
}

func (n Near) tooFar(g *grid.Grid) error {
	return fmt.Errorf("no noise of at most %d cells of %g km keeps near factor %g for places "+
		"%g km apart: raise the factor or cells, shorten the distance, or lower epsilon", MaxReach,
		g.CellKM(), n.Factor, n.DistanceKM)
}

// sum fills in the sums.
func (d *nearNoise) sum() {
	n, sum := 2*d.reach+1, uint64(0)
	for y := range n {
		row := uint64(0)
		d.along = append(d.along, 0)
		for _, w := range d.weights[y*n : (y+1)*n] {
			sum, row = sum+w, row+w
			d.upTo, d.along = append(d.upTo, sum), append(d.along, row)
		}
	}
}

// at returns the weight of a shift, 0 beyond the reach.
func (d *nearNoise) at(x, y int) uint64 {
	if max(x, -x, y, -y) > d.reach {
		return 0
	}
	return d.weights[(y+d.reach)*(2*d.reach+1)+x+d.reach]
}

// factor returns a bound on the factor between any two places at most so many kilometres apart on
// the ground, for every codebook: for each offset v the least f with f ≥ 1 + E·Σ max(0, g(s) -
// f·g(s-v))/Σ g(s), as in the guarantee, or most = e^ε if that is less. It is a float64, and its
// last bits are off.
func (d *nearNoise) factor(km float64, g *grid.Grid, most float64) float64 {
	offsets, ok := offsetsWithin(g.OnMap(km), g.CellKM(), 2*d.reach+1)
	if !ok {
		return most
	}
	limit := most
	if km <= d.near.DistanceKM {
		limit = min(limit, d.near.Factor)
	}
	worst := 1.0
	for i := range offsets { // the farthest first, which are the worst
		v := offsets[len(offsets)-1-i]
		if worst < d.needs(v, worst, most) {
			low, high := worst, most
			for range 64 {
				middle := math.Sqrt(float64(low * high))
				if middle < d.needs(v, middle, most) {
					low = middle
				} else {
					high = middle
				}
			}
			worst = high
		}
	}
	return min(worst, limit)
}

// needs returns 1 + E·Σ max(0, g(s) - f·g(s-v))/Σ g(s).
func (d *nearNoise) needs(v offset, f, most float64) float64 {
	sum := 0.0
	for y := -d.reach; y <= d.reach; y++ {
		for x := -d.reach; x <= d.reach; x++ {
			sum += max(0, float64(d.at(x, y))-float64(f*float64(d.at(x-v.x, y-v.y))))
		}
	}
	return 1 + float64((most-1)*sum)/float64(d.total)
}

// noiseSearch looks for the noise of least variance.
type noiseSearch struct {
	offsets []offset
	p, q    uint64   // the factor
	d       *big.Int // 2⁶⁴ - T
	limit   *big.Int // (p - q)·T

	next, best nearNoise
	spread     float64 // of best: mean square of a shift, in cells
	octant     []float64
}

func newNoiseSearch(near Near, offsets []offset, other uint64) *noiseSearch {
	p, q, _ := shortest(near.Factor)
	return &noiseSearch{
		offsets: offsets, p: p, q: q, d: new(big.Int).SetUint64(-other),
		limit: bigProduct(p-q, other), spread: math.Inf(1),
	}
}

// shape tries one shape in all sizes. As the radius grows, the least variance falls to a minimum
// and rises slowly, so the search of a shape ends when it has risen three times.
func (s *noiseSearch) shape(k kernel) {
	least, risen, start := math.Inf(1), 0, .25
	for r := 1.0; r <= MaxReach && risen < 3; r += .5 {
		low, high, found := s.bracket(k, r, &start)
		if !found {
			continue
		}
		if low > 0 {
			s.fill(k, r, s.bisect(k, r, low, high))
		}
		spread := s.variance()
		if spread < s.spread && s.holds() {
			s.spread = spread
			s.next, s.best = s.best, s.next
		}
		if spread < least {
			least, risen = spread, 0
		} else {
			risen++
		}
	}
}

// bracket returns a scale with which the guarantee holds for a radius, and a smaller one with which
// it does not, or 0. It begins at start, and says where to begin for the next radius. It gives up
// where the noise is no better than the best.
func (s *noiseSearch) bracket(k kernel, radius float64, start *float64) (
	low, high float64, found bool,
) {
	const coarse = 1.25 // from one scale to the next
	for rho := *start; rho <= 4*radius; rho *= coarse {
		spread := s.fill(k, radius, rho)
		if found = s.holds(); found || spread >= s.spread {
			*start = rho / (coarse * coarse)
			return low, float64(low * coarse), found
		}
		low = rho
	}
	return low, 0, false
}

// bisect returns a scale between the two with which the guarantee holds, about the least.
func (s *noiseSearch) bisect(k kernel, radius, low, high float64) float64 {
	for range 6 {
		middle := math.Sqrt(float64(low * high))
		s.fill(k, radius, middle)
		if s.holds() {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// fill makes the weights of a kernel with a radius and a scale ρ in cells. It returns their
// variance.
func (s *noiseSearch) fill(k kernel, radius, rho float64) float64 {
	d := &s.next
	d.reach = int(radius)
	s.octant = s.octant[:0]
	rest, sum := 0.0, 0.0
	if k.tapered {
		rest = portable.Exp(-(radius + .01) / rho)
	}
	for x := 0; x <= d.reach; x++ {
		for y := 0; y <= x; y++ {
			w := 0.0
			if away := k.norm(float64(x), float64(y)); away <= radius {
				w = portable.Exp(-away/rho) - rest
			}
			s.octant = append(s.octant, w)
			sum += float64(w * float64(copies(x, y)))
		}
	}
	for i, w := range s.octant {
		s.octant[i] = math.Floor(w / sum * nearTotal)
	}
	n := 2*d.reach + 1
	d.weights, d.total = slices.Grow(d.weights[:0], n*n)[:n*n], 0
	for y := -d.reach; y <= d.reach; y++ {
		for x := -d.reach; x <= d.reach; x++ {
			a, b := max(x, -x, y, -y), min(max(x, -x), max(y, -y))
			w := uint64(s.octant[a*(a+1)/2+b])
			d.weights[(y+d.reach)*n+x+d.reach] = w
			d.total += w
		}
	}
	return s.variance()
}

// copies returns how many shifts are the same up to the symmetries of the square.
func copies(x, y int) int {
	switch {
	case x == 0:
		return 1
	case y == 0 || y == x:
		return 4
	}
	return 8
}

// variance returns the mean square of a shift in cells.
func (s *noiseSearch) variance() float64 {
	sum, i := 0.0, 0
	for x := 0; x <= s.next.reach; x++ {
		for y := 0; y <= x; y++ {
			sum += float64(s.octant[i] * float64(copies(x, y)*(x*x+y*y)))
			i++
		}
	}
	return sum / float64(s.next.total)
}

// holds checks the guarantee of the noise at hand, for every offset.
func (s *noiseSearch) holds() bool {
	right := new(big.Int).Mul(s.limit, new(big.Int).SetUint64(s.next.total))
	left := new(big.Int)
	for _, v := range s.offsets {
		if left.Mul(s.d, left.SetUint64(s.next.excess(v, s.p, s.q))).Cmp(right) > 0 {
			return false
		}
	}
	return true
}

// excess returns Σ max(0, q·g(s) - p·g(s-v)). Weights add up to 2⁴⁶ at most, p < 2¹⁷ and
// q < 2¹⁰, so everything is below 2⁶³.
func (d *nearNoise) excess(v offset, p, q uint64) uint64 {
	n, sum := 2*d.reach+1, uint64(0)
	for y := range n {
		row := d.weights[y*n : (y+1)*n]
		if y < v.y {
			for _, w := range row {
				sum += q * w
			}
			continue
		}
		moved := d.weights[(y-v.y)*n : (y-v.y+1)*n]
		for x, w := range row {
			own, other := q*w, uint64(0)
			if x >= v.x {
				other = p * moved[x-v.x]
			}
			if own > other {
				sum += own - other
			}
		}
	}
	return sum
}
