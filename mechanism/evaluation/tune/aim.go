package tune

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/geodither/geodither/mechanism/law"
)

// worthwhile is the share of the blind error that a setting has to fall below: what does not costs
// ε for nothing.
const worthwhile = .97

// only returns the outcomes of one mechanism.
func only(mechanism string, outcomes []Outcome) []Outcome {
	return slices.DeleteFunc(slices.Clone(outcomes),
		func(o Outcome) bool { return o.Mechanism != mechanism })
}

// near returns the settings of one mechanism that may lie on its frontier, as far as a small sample
// can tell: those that nothing much cheaper beats clearly. There are at most so many.
func near(scouted []Outcome, most int) (settings []Setting) {
	const margin = 1.2 // of the error, about two standard errors of a small sample
	type excess struct {
		Setting
		by float64 // its error to the least at its cost
	}
	var list []excess
	least := math.Inf(1)
	for _, o := range byCost(scouted) {
		least = min(least, o.MedianKM)
		if by := o.MedianKM / least; by <= margin && o.MedianKM <= worthwhile*o.BlindKM {
			list = append(list, excess{o.Setting, by})
		}
	}
	slices.SortStableFunc(list, func(a, b excess) int { return cmp.Compare(a.by, b.by) })
	for _, e := range list[:min(most, len(list))] {
		settings = append(settings, e.Setting)
	}
	slices.SortFunc(settings, cheaper)
	return settings
}

// byCost returns outcomes in the order of cheaper.
func byCost(outcomes []Outcome) []Outcome {
	return slices.SortedFunc(slices.Values(outcomes),
		func(a, b Outcome) int { return cheaper(a.Setting, b.Setting) })
}

// frontier returns of each mechanism those that nothing of it beats, by ascending cost.
func (s *search) frontier() (best []Outcome) {
	allowed := s.allowed(s.Measured)
	for _, mechanism := range s.options.Mechanisms {
		best = append(best, frontier(only(mechanism, allowed))...)
	}
	return best
}

// frontier returns those that nothing beats, by ascending cost.
func frontier(measured []Outcome) (best []Outcome) {
	for _, o := range byCost(measured) {
		if len(best) > 0 && o.MedianKM >= best[len(best)-1].MedianKM {
			continue
		}
		if last := len(best) - 1; last >= 0 && o.EpsilonDay() == best[last].EpsilonDay() {
			best = best[:last]
		}
		best = append(best, o)
	}
	return best
}

// aim tries the ε that lead to the targeted error: for each mechanism first at the places where it
// seems to be cheapest, then less and less at the place that is.
func (s *search) aim() error {
	const rounds, halvings = 3, 4
	if !(s.options.TargetKM > 0) {
		return nil
	}
	s.phase("refining")
	for range rounds {
		if err := s.add(s.nextPlaces()); err != nil {
			return err
		}
	}
	for range halvings {
		var next []Setting
		for _, mechanism := range s.options.Mechanisms {
			if setting, ok := s.below(mechanism); ok {
				next = append(next, setting)
			}
		}
		if len(next) == 0 {
			break
		}
		if err := s.add(next); err != nil {
			return err
		}
	}
	return nil
}

// nextPlaces returns the cheapest settings towards the target that are not measured yet: of each
// mechanism as many.
func (s *search) nextPlaces() (next []Setting) {
	const places = 6
	for _, mechanism := range s.options.Mechanisms {
		tried := 0
		for _, setting := range s.toTarget() {
			if setting.Mechanism == mechanism && tried < places/len(s.options.Mechanisms) &&
				!s.measured(setting) {
				next = append(next, setting)
				tried++
			}
		}
	}
	return next
}

func (s *search) measured(setting Setting) bool {
	return slices.ContainsFunc(s.Measured, func(o Outcome) bool { return o.Setting == setting })
}

// add measures settings on the large sample.
func (s *search) add(settings []Setting) error {
	outcomes, err := s.measure(settings, s.groups, s.runs(first)...)
	if err != nil {
		return err
	}
	s.Measured = byCost(append(s.Measured, outcomes...))
	s.Frontier = s.frontier()
	return nil
}

// below returns the setting of a mechanism half way, by logarithms, between the cheapest that
// reaches the target and the largest ε at its place that does not.
func (s *search) below(mechanism string) (Setting, bool) {
	const near = 1.1
	chosen := s.choose(only(mechanism, s.Measured))
	if chosen == nil {
		return Setting{}, false
	}
	low := chosen.Epsilon / 4
	for _, o := range slices.Concat(s.Scouted, s.Measured) {
		if o.place() == chosen.place() && o.Epsilon < chosen.Epsilon &&
			(o.MedianKM > s.options.TargetKM || !s.measured(o.Setting)) {
			low = max(low, o.Epsilon)
		}
	}
	next := chosen.with(decimals(math.Sqrt(low*chosen.Epsilon), math.Ceil))
	return next, chosen.Epsilon > near*low && next.Epsilon < chosen.Epsilon && !s.measured(next) &&
		law.ValidateEpsilon(next.Epsilon) == nil
}

// toTarget returns for each place the setting that should just reach the target, the cheapest
// first, but for those whose releases would tell more than the limit. What was measured on the
// large sample counts there; where it does not enclose the target, the small one does.
func (s *search) toTarget() (settings []Setting) {
	// error by ε, and the least ln factor to ε, by place
	points, rates := map[Setting]map[float64]float64{}, map[Setting]float64{}
	for _, o := range slices.Concat(s.Scouted, s.Measured) {
		place := o.place()
		if points[place] == nil {
			points[place], rates[place] = map[float64]float64{}, math.Inf(1)
		}
		points[place][o.Epsilon] = o.MedianKM
		rates[place] = min(rates[place], math.Log(max(1, o.Factor200M))/o.Epsilon)
	}
	most := math.Log(s.options.MostFactor200M) // -∞: no limit
	for place, errors := range points {
		epsilon, ok := solve(errors, s.options.TargetKM)
		if ok && (s.options.MostFactor200M == 0 || rates[place]*epsilon <= most) {
			settings = append(settings, place.with(epsilon))
		}
	}
	slices.SortFunc(settings, cheaper)
	return settings
}

// solve returns the ε at which the error falls to the target, between those that were measured by
// logarithms, with two digits. Where the least of them reaches it already, it is half of that one,
// if it may be; where none does, there is none.
func solve(errors map[float64]float64, target float64) (epsilon float64, ok bool) {
	epsilons := slices.Sorted(maps.Keys(errors))
	for i, high := range epsilons {
		if errors[high] > target {
			continue
		}
		if i == 0 {
			if half := decimals(high/2, math.Ceil); law.ValidateEpsilon(half) == nil {
				return half, true
			}
			return high, true
		}
		low := epsilons[i-1]
		share := math.Log(errors[low]/target) / math.Log(errors[low]/errors[high])
		return min(high, decimals(low*math.Pow(high/low, share), math.Ceil)), true
	}
	return 0, false
}

// choose returns what serves the target best of some that were measured; nil: nothing does. Of what
// serves about as well it takes what tells near places apart the least: ε does not see the
// difference, which can be that of two and a thousand.
func (s *search) choose(measured []Outcome) *Outcome {
	const asCheap, asGood = 1.1, 1.05
	o := &s.options
	var serving []Outcome
	for _, candidate := range byCost(s.allowed(measured)) {
		if o.TargetKM > 0 && candidate.MedianKM <= o.TargetKM || o.TargetEpsilonDay > 0 &&
			candidate.EpsilonDay() <= o.TargetEpsilonDay {
			serving = append(serving, candidate)
		}
	}
	if len(serving) == 0 {
		return nil
	}
	best := slices.MinFunc(serving, func(a, b Outcome) int {
		if o.TargetKM > 0 {
			return cheaper(a.Setting, b.Setting)
		}
		return cmp.Or(cmp.Compare(a.MedianKM, b.MedianKM), cheaper(a.Setting, b.Setting))
	})
	chosen := best
	for _, other := range serving {
		alike := o.TargetKM > 0 && other.EpsilonDay() <= asCheap*best.EpsilonDay() ||
			o.TargetKM == 0 && other.MedianKM <= asGood*best.MedianKM
		if alike && other.Day200M() < chosen.Day200M() {
			chosen = other
		}
	}
	return &chosen
}
