package tune

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Outcome is what a setting was measured to give, over all fixes of a sample of days. Distances
// are in kilometres.
type Outcome struct {
	Setting
	Users, Days int   // in the sample
	Fixes       int64 // in it, those not kept among them
	Runs        int   // over it, each with other noise
	// MedianKM is the median distance from a fix to the estimate that is published for it; LowKM
	// and HighKM are its 95 % interval over users.
	MedianKM, LowKM, HighKM float64
	MeanKM                  float64
	// BlindKM and BlindMeanKM are the median and the mean of what the best model alone gives.
	BlindKM, BlindMeanKM float64
	Releases             int64 // of all runs
	// SpentDay is the mean, over users' days, of what their releases added up to. Who reports for a
	// part of the day may spend less than DayEpsilon.
	SpentDay       float64
	Drift, SetMean float64
	// NearShare is the mean, over releases, of the share of ε that tells two neighbouring cells
	// apart on average (law.Metric).
	NearShare float64
	// Past is what the same records show later, by lags that ascend. The last one takes in all
	// records of the day. None where it was not measured.
	Past []Past
}

// Past is the error of records that were smoothed: what they show of the past.
type Past struct {
	Lag              time.Duration // 0: all records
	MedianKM, MeanKM float64
}

// atOnce is the lag of records that are taken as they come, without smoothing.
const atOnce = -1

// BestPast returns the lag with the least mean error, the shortest of equal ones. It is negative
// where the estimate at once is best: a model that is wrong far ahead is wrong far back.
func (o *Outcome) BestPast() Past {
	all := append([]Past{{atOnce, o.MedianKM, o.MeanKM}}, o.Past...)
	return slices.MinFunc(all, func(a, b Past) int { return cmp.Compare(a.MeanKM, b.MeanKM) })
}

// Gain is the part of the blind error that the releases take away: of the mean or of the median,
// whichever gains less. Below 0 they do harm.
func (o *Outcome) Gain() float64 {
	return 1 - max(o.MeanKM/o.BlindMeanKM, o.MedianKM/o.BlindKM)
}

// summarize adds parts up, in their order.
func summarize(s Setting, parts []part) Outcome {
	o := Outcome{Setting: s}
	var km []float64
	var weights []int64
	var users []int32
	var drifts, cells int64
	spent, beside := 0.0, 0.0
	for i := range parts {
		p := &parts[i]
		o.Releases, o.Days = o.Releases+p.releases, o.Days+p.days
		drifts, cells, beside = drifts+p.drifts, cells+p.cells, beside+p.beside
		spent += p.spent
		km = append(km, p.km...)
		weights, users = append(weights, p.weights...), append(users, p.users...)
	}
	if len(km) == 0 {
		return o
	}
	for _, weight := range weights {
		o.Fixes += weight
	}
	o.MeanKM, o.SpentDay = meanOver(km, weights), spent/float64(o.Days)
	o.Users, o.MedianKM, o.LowKM, o.HighKM = medianOver(km, weights, users)
	o.lookBack(parts, weights, users)
	if o.Releases > 0 {
		o.Drift, o.SetMean = float64(drifts)/float64(o.Releases), float64(cells)/float64(o.Releases)
		o.NearShare = beside / float64(o.Releases)
	}
	return o
}

// lookBack fills in what the records show of the past, where it was measured.
func (o *Outcome) lookBack(parts []part, weights []int64, users []int32) {
	if parts[0].past == nil {
		return
	}
	for number, lag := range o.lags() {
		var km []float64
		for i := range parts {
			km = append(km, parts[i].past[number]...)
		}
		p := Past{Lag: time.Duration(max(lag, 0)) * o.Step, MeanKM: meanOver(km, weights)}
		_, p.MedianKM, _, _ = medianOver(km, weights, users)
		o.Past = append(o.Past, p)
	}
}

// meanOver returns the mean of distances that stand for so many fixes each.
func meanOver(km []float64, weights []int64) float64 {
	sum, fixes := 0.0, int64(0)
	for i, d := range km {
		sum += float64(d * float64(weights[i]))
		fixes += weights[i]
	}
	return sum / float64(fixes)
}

// Of the interval: samples of users, and what is cut off on each side.
const (
	resamples = 400
	tail      = .025
)

// medianOver returns the lower median of distances that stand for so many fixes each, the number of
// users they are of, and the median's 95 % percentile interval over samples of as many users drawn
// with replacement (the cluster bootstrap; Davison and Hinkley 1997, doi 10.1017/CBO9780511802843):
// fixes of one user depend on each other. Below some ten users it is too short, and with one it has
// no length. Cost: a sort, and resamples passes.
func medianOver(km []float64, weights []int64, of []int32) (users int, median, low, high float64) {
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
	whose, totals := make([]int, len(order)), make([]int64, len(number))
	for i, k := range order {
		whose[i] = number[of[k]]
		totals[whose[i]] += weights[k]
	}
	// middle is the median where each user counts so many times.
	middle := func(times []int64) float64 {
		left := int64(-1)
		for u, n := range times {
			left += n * totals[u]
		}
		left /= 2
		for i, k := range order {
			if left -= times[whose[i]] * weights[k]; left < 0 {
				return km[k]
			}
		}
		return km[order[len(order)-1]] // nobody counts: cannot be
	}
	times := make([]int64, len(number))
	for u := range times {
		times[u] = 1
	}
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
	at := func(share float64) float64 { return medians[int(math.Round(share*last))] }
	return len(number), median, at(tail), at(1 - tail)
}

// part is what one pass over a group's days adds up to.
type part struct {
	km               []float64 // from each fix to its estimate
	weights          []int64   // how many fixes it stands for
	users            []int32   // whose
	days             int
	releases, drifts int64
	cells            int64       // Σ|ΔX|
	spent            float64     // Σε
	beside           float64     // Σ law.Metric.NearShare
	past             [][]float64 // km, of the same estimates smoothed, for each of Setting.lags
}
