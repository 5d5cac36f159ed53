package mobility

import "encoding/json"

// EnoughForIntervals is how many users a fit must be of for its intervals to be believed: resampling fewer makes them too narrow, by more the
// fewer they are (the interval of a mean over n has √((n-1)/n) of the right length and the normal's quantile for Student's, together .82 at ten and
// .53 at four).
const EnoughForIntervals = 10

// Fit says how well a model foretells users that it was not trained on. Aggregates over all of them only: nothing in it
// belongs to one person or place. fit.Measure makes it and fit.Verdict puts it in words.
type Fit struct {
	// Held says in words which users were held out.
	Held     string `json:"held_out,omitempty"`
	Users    int64  `json:"users"`    // held out, with at least one segment
	Segments int64  `json:"segments"` // stretches without a gap; the filter starts anew in each
	Steps    int64  `json:"steps"`    // of all segments: places to foretell
	Shortest int    `json:"min_segment"`

	// One step ahead, from the true cell. Natural logarithms, averaged over the moves; a probability of 0 counts as
	// [LeastForetold].
	Moves         int64   `json:"moves"`
	LogLikelihood float64 `json:"log_likelihood"`
	LogUniform    float64 `json:"log_likelihood_uniform"`    // if all cells were as likely as each other
	LogPopularity float64 `json:"log_likelihood_popularity"` // if the initial distribution held at every step
	Impossible    float64 `json:"impossible"`                // share of the moves that the model gives probability 0

	// The filter: releases in every step at these settings, so many times with other noise.
	Mechanism string  `json:"mechanism"`
	Epsilon   float64 `json:"epsilon"`
	Delta     float64 `json:"delta"`
	Runs      int     `json:"runs"`
	// LogPrior is the mean natural logarithm of the filter's prior at the true cell; a cell without any counts as
	// [LeastForetold], and Unforeseen is the share of such steps.
	LogPrior   float64 `json:"log_prior"`
	Unforeseen float64 `json:"unforeseen"`

	// Calibration has drift against δ, ascending by δ.
	Calibration []FitDelta `json:"calibration"`

	// Distances to the centre of the true cell: of the release, of the estimate, and of the estimate without any release.
	Release  FitError `json:"release_m"`
	Estimate FitError `json:"estimate_m"`
	Blind    FitError `json:"blind_m"`
}

// LeastForetold is what a probability of 0 counts as in mean logarithms. The filter prunes below 10⁻⁷ of the mass, so that
// such a cell may have had that much; a step that was held impossible must cost more than one that was only unlikely.
const LeastForetold = 1e-9

// FitDelta is one point of the calibration curve. The drift of a right model is about δ.
type FitDelta struct {
	Delta float64 `json:"delta"`
	// Drift is the share of releases whose true cell lay outside the location set. Low and High are where it lies with a
	// confidence of 95 % for other users like these: users are independent of each other, the steps of one are not. Of fewer
	// than [EnoughForIntervals] users they are too close together: no file has them.
	Drift float64 `json:"drift"`
	Low   float64 `json:"drift_low"`
	High  float64 `json:"drift_high"`
	// SetMean and SetMedian are |ΔX| in cells.
	SetMean   float64 `json:"set_mean"`
	SetMedian float64 `json:"set_median"`
	// EntropyBits is the mean entropy of the filter's prior, LogPrior its mean logarithm at the true cell.
	EntropyBits float64 `json:"entropy_bits"`
	LogPrior    float64 `json:"log_prior"`
}

// known says whether there is an interval: of enough users, of whom some drifted.
func (d *FitDelta) known(users int64) bool {
	return users >= EnoughForIntervals && (d.Low != 0 || d.High != 0)
}

// MarshalJSON implements json.Marshaler. It leaves intervals out that are not known; files of before may have them.
func (f Fit) MarshalJSON() ([]byte, error) {
	type point struct {
		Delta       float64  `json:"delta"`
		Drift       float64  `json:"drift"`
		Low         *float64 `json:"drift_low,omitempty"`
		High        *float64 `json:"drift_high,omitempty"`
		SetMean     float64  `json:"set_mean"`
		SetMedian   float64  `json:"set_median"`
		EntropyBits float64  `json:"entropy_bits"`
		LogPrior    float64  `json:"log_prior"`
	}
	var points []point
	for _, d := range f.Calibration {
		p := point{Delta: d.Delta, Drift: d.Drift, SetMean: d.SetMean, SetMedian: d.SetMedian, EntropyBits: d.EntropyBits, LogPrior: d.LogPrior}
		if d.known(f.Users) {
			p.Low, p.High = &d.Low, &d.High
		}
		points = append(points, p)
	}
	type plain Fit
	return json.Marshal(struct {
		plain
		Calibration []point `json:"calibration"` // in place of the other
	}{plain(f), points})
}

// FitError summarizes distances, in metres.
type FitError struct {
	RMS    float64 `json:"rms"`
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
}

// Drift returns the drift at one of the calibration's δs, and 0 for any other.
func (f *Fit) Drift(delta float64) float64 {
	for _, at := range f.Calibration {
		if at.Delta == delta {
			return at.Drift
		}
	}
	return 0
}
