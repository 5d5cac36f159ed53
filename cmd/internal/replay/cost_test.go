package replay_test

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// epsilons adds up the ε of published records, by the name that they carry. It requires
// that all of them are marked as a second release.
func epsilons(tb testing.TB, a servicetest.Answers) map[string]float64 {
	tb.Helper()
	const want = "codebook (second release)"
	codec := servicetest.NewCodec(tb, schemas.Avro)
	sums := map[string]float64{}
	for _, lines := range a.Out.Lines {
		for _, l := range lines {
			s, err := codec.DecodeSanitized([]byte(l.Value))
			servicetest.OK(tb, err)
			sums[s.UserID] += s.Epsilon
			if s.Mechanism != want {
				tb.Fatalf("a record names the mechanism %q, want %q", s.Mechanism, want)
			}
		}
	}
	return sums
}

// TestReplayCost: a second release is refused with a bound that is known from the config alone,
// and no user's records carry more, also where a replay goes on after an interruption. Without a
// budget there is no bound.
func TestReplayCost(t *testing.T) {
	w := atwork.Served(t, 20, 20)
	day, life := 7., 5.
	for name, c := range map[string]struct {
		budget mechanism.Budget
		want   replay.Bound
		says   string
	}{
		"lifetime": {
			mechanism.Budget{Lifetime: life},
			replay.Bound{Lifetime: &life, In24H: &life},
			"at most Σε = 5 for each user;",
		},
		"window": {
			mechanism.Budget{Epsilon: day, WindowSteps: 24 * 60},
			replay.Bound{In24H: &day},
			"at most Σε = 7 for each user in any 24 hours of fix times",
		},
		"none": {says: "without a bound"},
	} {
		t.Run(name, func(t *testing.T) {
			o := atwork.Options(w, "first")
			o.Release.Epsilon, o.Release.Budget = 2, c.budget
			o.Release.Budget.Spent = mechanism.SpentPredict
			to := topics.Bound{IsOffset: true, Offset: 40}
			r := replay.Options{Output: "again-" + name, To: to}
			plan, err := replay.Run(t.Context(), o, r)
			if !errors.Is(err, replay.ErrSpend) ||
				!strings.Contains(err.Error()+";", c.says) ||
				!reflect.DeepEqual(*plan.Cost, c.want) {
				t.Fatalf("%v; the plan has %v", err, plan.Cost)
			}
			r.SpendAgain = true
			atwork.Replay(t, o, r)
			r.To = topics.Bound{}
			sums := epsilons(t, atwork.Replayed(t, w, atwork.Replay(t, o, r)))
			most := slices.Max(slices.Collect(maps.Values(sums)))
			limit := math.Inf(1)
			if b := c.want.In24H; b != nil {
				limit = *b
			}
			if most > limit || most < min(limit, 8)-2 {
				t.Errorf("a user's records carry ε = %g, the limit is %g", most, limit)
			}
		})
	}
}

// TestReplayMarksSecondReleases, and nothing else: where nothing differs a partition has
// the first release's records, whatever is the matter with another.
func TestReplayMarksSecondReleases(t *testing.T) {
	w := atwork.Served(t, 30, 8)
	o := atwork.Options(w, "first")
	first := w.Answers(t, "first")
	first.Read(t)
	w.DeleteRecords(t, "raw", 2, 4)
	plan := atwork.Replay(t, o, replay.Options{Output: "cut", SpendAgain: true})
	cut := atwork.Replayed(t, w, plan)
	for p, lines := range cut.Out.Lines {
		if p != 2 && !slices.Equal(lines, first.Out.Lines[p]) {
			t.Errorf("partition %d is not the first release", p)
		}
	}
	alone := cut
	alone.Out.Lines = [][]servicetest.Line{cut.Out.Lines[2]}
	if sums := epsilons(t, alone); plan.Cost == nil || len(sums) == 0 {
		t.Errorf("the cost is %v, partition 2 has %v", plan.Cost, sums)
	}
}

// TestReplayTakenUp: whether records are marked is decided when a replay begins. One that
// began before the service had released its fixes stays a second release when it has.
func TestReplayTakenUp(t *testing.T) {
	w := atwork.Served(t, 20, 8)
	o := atwork.Options(w, "first")
	for range 8 {
		w.Feed(t)
	}
	r := replay.Options{Output: "early", To: topics.Bound{IsOffset: true, Offset: 60}}
	if _, err := replay.Run(t.Context(), o, r); !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "leave --to out") {
		t.Fatalf("a replay beyond the service: %v", err)
	}
	r.SpendAgain = true
	atwork.Replay(t, o, r)
	atwork.Serve(t, w, o, 0)
	r.To, r.SpendAgain = topics.Bound{}, false
	plan, err := replay.Run(t.Context(), o, r)
	if !errors.Is(err, replay.ErrSpend) ||
		!strings.Contains(err.Error(), "begun with it as a second release") {
		t.Errorf("taken up when the service has come there: %v, %+v", err, plan)
	}
	r.SpendAgain = true
	epsilons(t, atwork.Replayed(t, w, atwork.Replay(t, o, r)))

	// The other way round: a first release cannot go on as a second one.
	same := replay.Options{Output: "same", To: topics.Bound{IsOffset: true, Offset: 20}}
	atwork.Replay(t, o, same)
	for p := range int32(servicetest.Partitions) { // the service has lost records since
		mark, _, err := topics.LastMark(t.Context(), w.Client, o.Topics.Changelog, p)
		servicetest.OK(t, err)
		mark.Lost = true
		w.Write(t, true, o.Topics.Changelog, p,
			servicetest.Line{
				Key: task.MarkKey, Value: string(task.AppendMark(nil, mark)),
				Timestamp: servicetest.StartMS,
			})
	}
	same.To, same.SpendAgain = topics.Bound{}, true
	if _, err := replay.Run(t.Context(), o, same); err == nil ||
		!strings.Contains(err.Error(), "now it would be a second") {
		t.Errorf("a replay that began as the first release goes on as a second one: %v", err)
	}
}

// TestReplayTakenUpWithOtherModels: a replay that has begun goes on with the models that it began
// with. One that has processed everything is not done under other ones.
func TestReplayTakenUpWithOtherModels(t *testing.T) {
	w := atwork.Served(t, 20, 8)
	o := atwork.Options(w, "first")
	r := replay.Options{Output: "again", SpendAgain: true}
	with := o
	with.Later = []*engine.Version{atwork.Version(t, 3,
		servicetest.NeighbourModel(t, servicetest.Town, 1000, 9))}
	atwork.Replay(t, with, r)
	plan, err := replay.NewPlan(t.Context(), with, r)
	if servicetest.OK(t, err); !plan.Done {
		t.Errorf("with the same models: %+v", plan)
	}
	other := o
	other.Later = []*engine.Version{atwork.Version(t, 3,
		servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))}
	if plan, err := replay.NewPlan(t.Context(), other, r); !errors.Is(err, task.ErrVersions) ||
		!strings.Contains(err.Error(), "has begun with other models") {
		t.Errorf("with other models: %+v, %v", plan, err)
	}
}
