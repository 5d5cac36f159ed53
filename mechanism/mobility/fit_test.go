package mobility

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestFitJSON: what is read is what was written, except for intervals that are not known, and older
// files may have them.
func TestFitJSON(t *testing.T) {
	fit := Fit{
		Held: "some", Users: EnoughForIntervals, Steps: 400, Epsilon: 1, Delta: .01,
		Release: FitError{RMS: 3}, Estimate: FitError{Mean: 2}, Blind: FitError{Median: 1},
		Calibration: []FitDelta{
			{Delta: .001},
			{
				Delta: .01, Drift: .02, Low: .01, High: .03, SetMean: 7, SetMedian: 6,
				EntropyBits: 5, LogPrior: -4,
			},
			{Delta: .1, Drift: .1, High: .2},
		},
	}
	again := func(f Fit) (text string, read Fit) {
		data, err := json.Marshal(&f)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		return string(data), read
	}
	text, read := again(fit)
	if !reflect.DeepEqual(read, fit) || strings.Count(text, `"drift_low"`) != 2 ||
		strings.Count(text, `"drift_high"`) != 2 ||
		!strings.Contains(text, `"drift_low":0,"drift_high":0.2`) {
		t.Errorf("%s is read as %+v", text, read)
	}
	if strings.Count(text, `"calibration"`) != 1 {
		t.Errorf("two curves: %s", text)
	}
	fit.Users--
	text, read = again(fit)
	if strings.Contains(text, "drift_low") || strings.Contains(text, "drift_high") ||
		read.Drift(.01) != .02 || read.Calibration[1].SetMean != 7 {
		t.Errorf("of nine users it says %s", text)
	}
	var old Fit
	const before = `{"users":6,"calibration":[` +
		`{"delta":0.01,"drift":0.02,"drift_low":0.01,"drift_high":0.03}]}`
	if err := json.Unmarshal([]byte(before), &old); err != nil || old.Calibration[0].High != .03 {
		t.Errorf("an older fit is read as %+v (%v)", old, err)
	}
	if text, _ := again(old); strings.Contains(text, "drift_low") {
		t.Errorf("and written as %s", text)
	}
}
