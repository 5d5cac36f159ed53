package law

import "math"

// splitter makes codebooks by splitting regions: it begins with one region and splits, again and
// again, the one that spreads furthest along an axis. That finds the few masses that lie far apart,
// which merging can miss: on two Gaussians at ε = 4 merging alone leaves 3 % more variance.
type splitter struct {
	now, kept draft
	spread    []inertia
}

// splitPatience is after how many splits without a gain the search ends.
const splitPatience = 2

// inertia is the second moments of a region about the prior's mean.
type inertia struct{ xx, xy, yy float64 }

// best returns the best of the codebooks of 1, 2 … code points, polished. Each split is followed by
// one turn of Lloyd's iteration.
func (s *splitter) best(a *patches, rest float64) *draft {
	d := &s.now
	d.regions, d.sites = append(d.regions[:0], moments{}), append(d.sites[:0], site{})
	d.vote(a)
	d.aim(rest)
	s.kept.copyFrom(d)
	for failed := 0; failed < splitPatience && len(d.regions) < maxPoints && s.split(a, rest); {
		d.polish(a, rest, 1)
		failed++
		if d.gain(rest) > s.kept.gain(rest) {
			s.kept.copyFrom(d)
			failed = 0
		}
	}
	s.kept.polish(a, rest, polishTurns)
	return &s.kept
}

// split cuts the region of the greatest mass times variance along an axis into two, across that
// axis, at its centre of mass. It returns false where no region has an extent.
func (s *splitter) split(a *patches, rest float64) bool {
	d := &s.now
	s.weigh(a)
	widest, ux, uy, most := 0, 0.0, 0.0, 0.0
	for j, m := range d.regions {
		if m.p == 0 {
			continue
		}
		if along, x, y := s.spread[j].axis(m); along > most {
			widest, ux, uy, most = j, x, y, along
		}
	}
	if most < leastSpread {
		return false
	}
	from := &d.regions[widest]
	cut := (float64(from.x*ux) + float64(from.y*uy)) / from.p
	var part moments
	for i, v := range d.votes {
		if int(v) == widest && float64(a.x[i]*ux)+float64(a.y[i]*uy) > cut {
			p := a.p[i]
			part = part.plus(moments{p, float64(p * a.x[i]), float64(p * a.y[i])})
		}
	}
	from.p, from.x, from.y = from.p-part.p, from.x-part.x, from.y-part.y
	d.regions = append(d.regions, part)
	d.aim(rest)
	return true
}

// leastSpread is a mass times a variance in squared cells that is rounding, not an extent.
const leastSpread = 1e-12

// weigh fills in the second moments of all regions.
func (s *splitter) weigh(a *patches) {
	s.spread = s.spread[:0]
	for range s.now.regions {
		s.spread = append(s.spread, inertia{})
	}
	for i, v := range s.now.votes {
		x, y, t := a.x[i], a.y[i], &s.spread[v]
		px, py := float64(a.p[i]*x), float64(a.p[i]*y)
		t.xx += float64(px * x)
		t.xy += float64(px * y)
		t.yy += float64(py * y)
	}
}

// axis returns the longest axis of a region with the given moments, not of length 1, and its mass
// times its variance along that axis: the greater eigenvalue of the second moments about its own
// centre of mass.
func (t inertia) axis(m moments) (along, ux, uy float64) {
	xx := t.xx - float64(m.x*m.x)/m.p
	xy := t.xy - float64(m.x*m.y)/m.p
	yy := t.yy - float64(m.y*m.y)/m.p
	half := (xx - yy) / 2
	root := math.Sqrt(float64(half*half) + float64(xy*xy))
	along = (xx+yy)/2 + root
	if half >= 0 {
		return along, half + root, xy
	}
	return along, xy, root - half
}
