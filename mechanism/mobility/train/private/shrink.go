package private

import "math"

// shrink estimates counts from noisy ones. It is post-processing: it uses the noisy counts, the
// counts that a coarser level makes one expect, and the law of the noise.
//
// noisy[i] is the noisy count of entry i, expected[i] ≥ 0 the count expected from the coarser
// level, and group(i) < groups the group of the entry. In each group c² is the spread of true
// counts about the expected ones, relative to these. The method of moments estimates it from
//
//	E(noisy-expected)² = c²·expected² + variance
//
// A moment that exceeds the variance by less than one standard deviation counts as no spread. The
// best linear estimate is then (empirical Bayes: Efron and Morris 1973,
// doi:10.1080/01621459.1973.10481350)
//
//	expected + ρ(noisy-expected), ρ = c²·expected²/(c²·expected² + variance)
//
// A linear rule serves many small differences and loses the few large ones, such as a station in an
// empty quarter. So a count that differs by more than scale·ln(2·entries) is taken as it is.
// Noise alone exceeds that in half an entry on average: it is the universal threshold of Donoho and
// Johnstone 1994 (doi:10.1093/biomet/81.3.425) for this law.
//
// Results are not negative. dst may be noisy.
func shrink(dst, noisy, expected []float64, group func(i int) int, groups int, noise law) {
	threshold := float64(noise.size * math.Log(2*float64(len(noisy))))
	m := newMoments(groups)
	for i, n := range noisy {
		m.add(group(i), n-expected[i], expected[i], threshold)
	}
	spread := m.spreads(noise.variance)
	for i, n := range noisy {
		dst[i] = shrunk(n, expected[i], spread[group(i)], noise.variance, threshold)
	}
}

// law is what is known of the noise on a number: its scale, or what stands for it, and its
// variance.
type law struct{ size, variance float64 }

func (s scale) law() law { return law{s.value(), s.variance()} }

// over returns the law of a weighted sum with so many times the precision. A sum of Laplace
// variables has lighter tails than one variable of the same variance, so the size is large enough.
func (l law) over(precision float64) law {
	return law{l.size / math.Sqrt(precision), l.variance / precision}
}

// shrunk is [shrink] for one entry.
func shrunk(noisy, expected, spread, variance, threshold float64) float64 {
	difference := noisy - expected
	if math.Abs(difference) > threshold {
		return max(0, noisy)
	}
	signal := float64(spread * float64(expected*expected))
	if signal == 0 {
		return expected
	}
	return max(0, expected+float64(signal/(signal+variance)*difference))
}

// moments are the sums of squares that give the spread of each group.
type moments struct{ difference, expected, number []float64 }

func newMoments(groups int) moments {
	return moments{make([]float64, groups), make([]float64, groups), make([]float64, groups)}
}

// add adds one entry, unless it differs by more than the threshold.
func (m moments) add(group int, difference, expected, threshold float64) {
	if math.Abs(difference) <= threshold {
		m.difference[group] += float64(difference * difference)
		m.expected[group] += float64(expected * expected)
		m.number[group]++
	}
}

func (m moments) merge(other moments) {
	for g := range m.number {
		m.difference[g] += other.difference[g]
		m.expected[g] += other.expected[g]
		m.number[g] += other.number[g]
	}
}

// spreads returns c² of each group.
func (m moments) spreads(variance float64) []float64 {
	spread := make([]float64, len(m.number))
	for g, n := range m.number {
		// The square of a Laplace variable has a variance of five times its mean's square.
		excess := m.difference[g] - float64(variance*(n+math.Sqrt(5*n)))
		if excess > 0 && m.expected[g] > 0 {
			spread[g] = excess / m.expected[g]
		}
	}
	return spread
}
