package law

import "slices"

// maxPoints is the largest codebook. Up to ε = 8 the best ones have fewer points. Above, a larger
// codebook would divide places that are a few cells apart.
const maxPoints = 128

// moments are the mass and the first moment of what votes for a code point, of a total mass of 1.
type moments struct{ p, x, y float64 }

// worth is what a code point takes off the expected squared error, before the factor that counts
// the points: |M|²/(r + P).
func (m moments) worth(rest float64) float64 {
	return (float64(m.x*m.x) + float64(m.y*m.y)) / (rest + m.p)
}

// best returns the best code point for what votes for it: the posterior mean of its release.
func (m moments) best(rest float64) site {
	over := 1 / (rest + m.p)
	x, y := float64(m.x*over), float64(m.y*over)
	return site{x, y, (float64(x*x) + float64(y*y)) / 2}
}

func (m moments) plus(n moments) moments { return moments{m.p + n.p, m.x + n.x, m.y + n.y} }

func (m moments) minus(n moments) moments {
	return moments{max(m.p-n.p, 0), m.x - n.x, m.y - n.y}
}

// site is a code point in cells from the mean, with half its squared distance from there: the
// nearest site of a place x is that of the least half - x·site.
type site struct{ x, y, half float64 }

// draft is a codebook in the making: the moments of each region and the best code point for them.
type draft struct {
	regions []moments
	sites   []site
	worth   float64   // of all regions
	votes   []uint8   // of each patch the region that it is part of
	stale   bool      // the votes are of other regions, or of none
	spread  []inertia // of each region, from the last halve on
}

// aim moves every code point to the posterior mean of its release, M/(r + P), which is the best one
// for given votes. It drops code points that nothing votes for: they only cost. Then the votes are
// stale.
func (d *draft) aim(rest float64) {
	before := len(d.regions)
	d.regions = slices.DeleteFunc(d.regions, func(m moments) bool { return m.p <= 0 })
	d.stale = d.stale || len(d.regions) < before
	d.sites, d.worth = d.sites[:0], 0
	for _, m := range d.regions {
		best := m.best(rest)
		d.sites = append(d.sites, best)
		d.worth += float64(2 * best.half * (rest + m.p))
	}
}

// gain is what the codebook takes off the expected squared error, in squared cells:
//
//	E²·Σ|M|²/(1 + E·P)/(m + E) = Σ|M|²/(r + P)/(1 + m·r)  with r = 1/E.
func (d *draft) gain(rest float64) float64 {
	return d.worth / (1 + float64(float64(len(d.regions))*rest))
}

// settle lets the patches vote if their votes are stale.
func (d *draft) settle(a *patches) {
	if d.stale {
		d.vote(a)
	}
}

// polish is Lloyd's iteration: the patches vote for their nearest code points, and the code points
// move to the best places for these votes. No turn makes the codebook worse (Farvardin 1990, doi
// 10.1109/18.54900, for noisy channels). It ends when a turn gains nothing, or after so many.
func (d *draft) polish(a *patches, rest float64, turns int) {
	for turn := range turns {
		before := d.worth
		d.vote(a)
		d.aim(rest)
		if turn > 0 && d.worth <= before {
			return
		}
	}
}

// vote lets every patch vote for its nearest code point. Among equals it stays with its own one, or
// else takes the first. Its own is looked at first, because it mostly is the nearest: then no other
// one is nearer, which the processor predicts well.
func (d *draft) vote(a *patches) {
	if d.stale {
		d.votes = slices.Grow(d.votes[:0], len(a.x))[:len(a.x)]
		clear(d.votes)
		d.stale = false
	}
	clear(d.regions)
	sites := d.sites
	ys, ps, votes := a.y[:len(a.x)], a.p[:len(a.x)], d.votes[:len(a.x)]
	for i, x := range a.x {
		y, p, nearest := ys[i], ps[i], int(votes[i])
		own := &sites[nearest]
		least := own.half - float64(x*own.x) - float64(y*own.y)
		for j := range sites {
			s := &sites[j]
			if f := s.half - float64(x*s.x) - float64(y*s.y); f < least {
				nearest, least = j, f
			}
		}
		votes[i] = uint8(nearest)
		m := &d.regions[nearest]
		m.p += p
		m.x += float64(p * x)
		m.y += float64(p * y)
	}
}

// copyFrom makes d equal to from.
func (d *draft) copyFrom(from *draft) {
	d.regions = append(d.regions[:0], from.regions...)
	d.sites = append(d.sites[:0], from.sites...)
	d.votes = append(d.votes[:0], from.votes...)
	d.worth, d.stale = from.worth, from.stale
}

// inertia is the second moments of a region about the prior's mean.
type inertia struct{ xx, xy, yy float64 }
