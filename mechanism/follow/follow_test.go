package follow

import (
	"strconv"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/testcase"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestWaysAreComplete: the table has one row for each thing that a reader may know of a user, and
// no other.
func TestWaysAreComplete(t *testing.T) {
	t.Parallel()
	rows := map[[2]uint8]int{}
	for _, row := range ways {
		rows[[2]uint8{uint8(row.standing), uint8(row.change)}]++
	}
	for s := unseen; s <= outside; s++ {
		for c := sameModel; c <= fromNowhere; c++ {
			want := 0
			if hasModel := s == followed || s == lost; hasModel == (c != fromNowhere) {
				want = 1
			}
			if got := rows[[2]uint8{uint8(s), uint8(c)}]; got != want {
				t.Errorf("standing %d, change %d: %d rows, want %d", s, c, got, want)
			}
		}
	}
}

// TestTransitions walks every row of the table and every way in it with a real service of one user.
// Reports are written as step and model: B has the map of A and C another one, X is made under A
// and names a model that the reader does not have, * is missing for the reader, and
// the user is erased before !. Of reports
// closer than the interval there is no record where the service skips what lies between releases.
// MaxGap is 3.
func TestTransitions(t *testing.T) {
	t.Parallel()
	models := Models{testcase.Town(t), restless(t, 8, 6), restless(t, 7, 9)}
	for _, test := range []struct {
		name, reports string
		interval      int // 0: a release for every report
		standing      standing
	}{
		{"unseen", "5A", 0, followed},
		{"followed, goes on", "5A 6A 8A", 0, followed},
		{"followed, beyond, starts", "5A 15A", 0, followed},
		{"followed, beyond, carried over", "5A 8A 11A", 6, followed},
		{"same map, every report has a record", "5A 6B", 0, followed},
		{"same map, no report between", "5A 7B", 2, followed},
		{"same map, beyond, starts", "5A 15B", 0, followed},
		{"same map, beyond, carried over", "5A 8B 11B", 6, followed},
		{"erased, arrives", "5A 6A !8A", 0, followed},
		{"erased, goes on from there", "5A 6A !8A 9A", 0, followed},
		{"erased, same map, arrives", "5A 6A !8B", 0, followed},
		{"erased, beyond, starts", "5A !15A", 0, followed},
		{"other map, arrives", "5A 6A 8C", 0, followed},
		{"other map, beyond, starts", "5A 15C", 0, followed},
		{"other map, beyond, carried over", "5A 8C 11C", 6, followed},
		{"a record is missing", "5A 6A* 7A", 0, lost},
		{"lost, within", "5A 6A* 7A 8A", 0, lost},
		{"lost, beyond, starts", "5A 6A* 7A 17A", 0, followed},
		{"lost, same map, within", "5A 6A* 7A 8B", 0, lost},
		{"lost, same map, beyond, starts", "5A 6A* 7A 17B", 0, followed},
		{"lost, other map, arrives", "5A 6A* 7A 8C", 0, followed},
		{"lost, other map, beyond, starts", "5A 6A* 7A 17C", 0, followed},
		{"joined in the middle", "5A* 6A 7A", 0, lost},
		{"a model is not given", "5A 6X", 0, outside},
		{"outside, within", "5A 6X 7A", 0, lost},
		{"outside, within, to another map", "5A 6X 7C", 0, lost},
		{"outside, beyond, starts", "5A 6X 17A", 0, followed},
		{"outside, again", "5A 6X 17X", 0, outside},
		{"found again and lost again", "5A 6A* 7A 17A 18A* 19A", 0, lost},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			track, known := walked(t, models, law.Lattice, test.reports, test.interval)
			if track.standing != test.standing || known != (test.standing == followed) {
				t.Errorf("standing %d, known %t; want %d", track.standing, known, test.standing)
			}
			if (len(track.state) > 0) != known {
				t.Errorf("known %t with a state of %d bytes", known, len(track.state))
			}
		})
	}
}

// walked follows the records of reports, of a service that skips what lies between releases where
// interval is positive. It returns what is known of the user.
func walked(
	t *testing.T, models Models, name, reports string, interval int,
) (track Track, known bool) {
	t.Helper()
	o := mechanism.Options{Mechanism: name, Epsilon: 2, Delta: .05, MaxGap: 3}
	if interval > 0 {
		o.ReleaseInterval, o.Between = interval, mechanism.BetweenSkip
	}
	f := newFollower(t, models, o)
	for _, r := range recordsOf(t, models, o, reports) {
		var err error
		if known, err = f.Follow(&track, r); err != nil {
			t.Fatalf("step %d: %v", r.Step, err)
		}
	}
	return track, known
}

// recordsOf runs a service for one user and returns the records that its reader gets.
func recordsOf(
	t *testing.T, models Models, o mechanism.Options, reports string,
) (records []Record) {
	t.Helper()
	services := make([]*mechanism.Sanitizer, len(models))
	for i, m := range models {
		services[i] = newService(t, m, o)
	}
	var state mechanism.State
	for _, report := range strings.Fields(reports) {
		text, missing := strings.CutSuffix(report, "*")
		text, erased := strings.CutPrefix(text, "!")
		if erased {
			state.Erase()
		}
		step, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		letter := text[len(text)-1]
		use := max(strings.IndexByte("ABC", letter), 0)
		services[use].Migrate(&state)
		out, err := services[use].Step(&state,
			mechanism.Input{User: "u", Step: step, Cell: 20 + grid.Cell(step%3), Release: true})
		if err != nil {
			t.Fatal(err)
		}
		if !out.Kind.Published() || missing {
			continue
		}
		r := recordOf(models[use], "u", step, &out)
		if letter == 'X' {
			r.Model = "a model that is not given"
		}
		records = append(records, r)
	}
	return records
}

// TestFollowOneCodePoint: where the model is sure of a place, a codebook has one code point. What
// is published then is predicted, has no number and costs nothing, and is followed like a release.
func TestFollowOneCodePoint(t *testing.T) {
	t.Parallel()
	model := testcase.Town(t)
	home := model.Initial.Cells[20]
	model.Initial = mobility.Distribution{Cells: []grid.Cell{home}, P: []float64{1}}
	o := mechanism.Options{Mechanism: law.Codebook, Epsilon: 1}
	records, _ := drive(t, model, o, 11, 12, 6, nil)
	for _, r := range records[:12] {
		if r.Kind != mechanism.Predicted || r.Number != 0 {
			t.Fatalf("the first record is %v, number %d", r.Kind, r.Number)
		}
	}
	windows, sum, err := sums(t, SumOptions{
		Public: Public{Models: Models{model}, Release: o}, WindowSteps: 1,
	}, records)
	if err != nil || sum.Followed != int64(len(records)) || len(windows) != 6 ||
		!near(windows[0].Posterior[home], 12, 1e-9) {
		t.Errorf("%v: %d windows, %+v", err, len(windows), sum)
	}
}
