package tune

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Outcome is what a setting was measured to give on a sample of days. Distances are in kilometres,
// from a fix to the estimate that is published for it.
type Outcome struct {
	Setting
	Users, Days int // in the sample
	// MedianKM is the median distance; LowKM and HighKM are its 95 % interval over users.
	MedianKM, LowKM, HighKM float64
	MeanKM                  float64
	// BlindKM and BlindMeanKM are the median and the mean of what the best model alone gives.
	BlindKM, BlindMeanKM float64
	// SpentDay is the mean, over users' days, of what their releases added up to. Who reports for a
	// part of the day may spend less than DayEpsilon.
	SpentDay float64
	// NearShare is the mean, over releases, of the share of ε that tells two neighbouring cells
	// apart on average (law.Metric).
	NearShare float64
}

// Gain is the part of the blind error that the releases take away: of the mean or of the median,
// whichever gains less. Below 0 they do harm.
func (o *Outcome) Gain() float64 {
	return 1 - max(o.MeanKM/o.BlindMeanKM, o.MedianKM/o.BlindKM)
}

// part is what one pass over a group's days adds up to.
type part struct {
	km       []float64 // from each fix to its estimate
	users    []int32   // whose
	days     int
	releases int64
	spent    float64 // Σε
	beside   float64 // Σ law.Metric.NearShare
}

// summarize adds parts up, in their order.
func summarize(s Setting, parts []part) Outcome {
	var all part
	for i := range parts {
		p := &parts[i]
		all.km, all.users = append(all.km, p.km...), append(all.users, p.users...)
		all.days, all.releases = all.days+p.days, all.releases+p.releases
		all.spent, all.beside = all.spent+p.spent, all.beside+p.beside
	}
	o := Outcome{Setting: s, Days: all.days}
	if len(all.km) == 0 {
		return o
	}
	sum := 0.0
	for _, d := range all.km {
		sum += d
	}
	o.MeanKM, o.SpentDay = sum/float64(len(all.km)), all.spent/float64(all.days)
	o.Users, o.MedianKM, o.LowKM, o.HighKM = medianOver(all.km, all.users)
	o.NearShare = all.beside / float64(max(1, all.releases))
	return o
}

// Of the interval: samples of users, and what is cut off on each side.
const (
	resamples = 400
	tail      = .025
)

// medianOver returns the lower median of distances, the number of users they are of, and the
// median's 95 % percentile interval over samples of as many users drawn with replacement (the
// cluster bootstrap; Davison and Hinkley 1997, doi 10.1017/CBO9780511802843): fixes of one user
// depend on each other. Below some ten users it is too short, and with one it has no length. Cost:
// a sort, and resamples passes.
func medianOver(km []float64, of []int32) (users int, median, low, high float64) {
	order := make([]int, len(km))
	number := map[int32]int{}
	for i := range order {
		order[i] = i
		if _, ok := number[of[i]]; !ok {
			number[of[i]] = len(number)
		}
	}
	slices.SortFunc(
		order, func(a, b int) int { return cmp.Or(cmp.Compare(km[a], km[b]), cmp.Compare(a, b)) },
	)
	whose, totals := make([]int, len(order)), make([]int, len(number))
	for i, k := range order {
		whose[i] = number[of[k]]
		totals[whose[i]]++
	}
	// middle is the median where each user counts so many times.
	middle := func(times []int) float64 {
		left := -1
		for u, n := range times {
			left += n * totals[u]
		}
		left /= 2
		at := 0
		for left -= times[whose[at]]; left >= 0; left -= times[whose[at]] {
			at++
		}
		return km[order[at]]
	}
	times := slices.Repeat([]int{1}, len(number))
	median = middle(times)
	// any second word: it names the stream
	random := rand.New(rand.NewPCG(uint64(len(km)), 0x74756e65))
	medians := make([]float64, resamples)
	for r := range medians {
		clear(times)
		for range times {
			times[random.IntN(len(times))]++
		}
		medians[r] = middle(times)
	}
	slices.Sort(medians)
	last := float64(resamples - 1)
	return len(number), median, medians[int(math.Round(tail*last))],
		medians[int(math.Round((1-tail)*last))]
}
