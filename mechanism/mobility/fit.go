package mobility

// EnoughForIntervals is the number of users that a fit needs for its intervals to be reliable.
// Resampling fewer users gives intervals that are too narrow. The interval of a mean over n users
// has √((n-1)/n) of the right length, and uses the normal quantile in place of Student's:
// together 0.82 of the right length for ten users, and 0.53 for four.
const EnoughForIntervals = 10

// Fit says how well a model predicts users that it was not trained on. All numbers are aggregates
// over all of these users: none belongs to one person or place. fit.Measure computes a Fit and
// fit.Verdict puts it into words.
type Fit struct {
	// Held says in words which users were held out.
	Held     string `json:"held_out,omitempty"`
	Users    int64  `json:"users"`    // held out, with at least one segment
	Segments int64  `json:"segments"` // stretches without a gap; the filter restarts in each
	Steps    int64  `json:"steps"`    // of all segments: places to predict
	Shortest int    `json:"min_segment"`

	// One step ahead, from the true cell. Natural logarithms, averaged over the moves. A
	// probability of 0 counts as [MinProbability].
	Moves         int64   `json:"moves"`
	LogLikelihood float64 `json:"log_likelihood"`
	LogUniform    float64 `json:"log_likelihood_uniform"`    // if all cells were equally likely
	LogPopularity float64 `json:"log_likelihood_popularity"` // by the initial distribution
	Impossible    float64 `json:"impossible"`                // share of moves of probability 0

	// The filter: a release in every step at these settings.
	Mechanism string  `json:"mechanism"`
	Epsilon   float64 `json:"epsilon"`
	Delta     float64 `json:"delta"`
	// LogPrior is the mean natural logarithm of the filter's prior at the true cell. A true cell
	// without mass counts as [MinProbability].
	LogPrior float64 `json:"log_prior"`

	// Calibration is the drift against δ, ascending by δ.
	Calibration []FitDelta `json:"calibration"`

	// Distances to the centre of the true cell: of the estimate, and of the estimate without any
	// release.
	Estimate FitError `json:"estimate_m"`
	Blind    FitError `json:"blind_m"`
}

// MinProbability replaces a probability of 0 in mean logarithms. The filter prunes below 10⁻⁷
// of the mass, so a pruned cell may have had that much. A step that was held to be impossible must
// cost more than one that was only unlikely.
const MinProbability = 1e-9

// FitDelta is one point of the calibration curve. If the model is right, the drift is about δ.
type FitDelta struct {
	Delta float64 `json:"delta"`
	// Drift is the share of releases whose true cell lay outside the location set. Low and High
	// bound it with a confidence of 95 % for other users like these: users are independent of each
	// other, the steps of one user are not. Both are 0 where they are not known: with fewer users
	// than [EnoughForIntervals], or if none of them drifted.
	Drift   float64 `json:"drift"`
	Low     float64 `json:"drift_low,omitzero"`
	High    float64 `json:"drift_high,omitzero"`
	SetMean float64 `json:"set_mean"` // |ΔX|, cells
}

// FitError summarizes distances in metres.
type FitError struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
}
