package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// tail is a world of which most fixes lie before a time, and few users report after it.
func tail(tb testing.TB) (w *servicetest.World, from topics.Bound) {
	tb.Helper()
	w = servicetest.NewWorld(tb, 30)
	for range 25 {
		w.Feed(tb)
	}
	from = topics.Bound{Time: time.UnixMilli(servicetest.StartMS + w.Step*60_000)}
	w.Cells = w.Cells[:6]
	atwork.Serve(tb, w, atwork.Options(w, "first"), 2)
	return w, from
}

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

// counted is the cost of a replay of which part is published, by the records of one that
// has published everything.
func counted(whole, part map[string]float64) (c replay.Cost) {
	for user, published := range part {
		all := whole[user]
		c.Epsilon, c.BeforeFrom = c.Epsilon+all, c.BeforeFrom+all-published
		c.UserMax, c.Users = max(c.UserMax, all), c.Users+1
	}
	return c
}

// near reports whether two costs are the same up to rounding.
func near(c, o replay.Cost) bool {
	same := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	return same(c.Epsilon, o.Epsilon) && same(c.BeforeFrom, o.BeforeFrom) &&
		same(c.UserMax, o.UserMax) &&
		c.Users == o.Users
}

// TestReplayCost: a replay of a short range at the end announces the ε of every second
// release that the records there depend on: as much as the same users' records carry when
// the whole topic is replayed. Rules that decide on releases count as they work.
func TestReplayCost(t *testing.T) {
	w, from := tail(t)
	cases := map[string]func(*service.Options){
		"plain": func(*service.Options) {},
		"interval, budget": func(o *service.Options) {
			o.Release.ReleaseInterval, o.Release.Between = 2, mechanism.BetweenPredict
			o.Release.Budget = mechanism.Budget{Lifetime: 11, Spent: mechanism.SpentPredict}
		},
		"skipped": func(o *service.Options) {
			o.Release.ReleaseInterval, o.Release.Between = 2, mechanism.BetweenSkip
		},
		"pseudonyms": func(o *service.Options) {
			o.Publish.User, o.Release.Epsilon = engine.UserPseudonym, .333333333
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			o := atwork.Options(w, "first")
			o.Release.Epsilon = 2
			change(&o)
			name := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			all := atwork.Replay(t, o, replay.Options{Output: "whole-" + name, SpendAgain: true})
			whole := epsilons(t, atwork.Replayed(t, w, all))

			log := new(servicetest.Log)
			o.Logger = log.Logger()
			r := replay.Options{Output: "part-" + name, From: from, TempDir: t.TempDir()}
			announced, err := replay.Run(t.Context(), o, r)
			if !errors.Is(err, replay.ErrSpend) {
				t.Fatalf("the replay is not refused: %v", err)
			}
			var done, total int64
			r.SpendAgain, r.Planning = true, func(d, n int64) { done, total = d, n }
			plan := atwork.Replay(t, o, r)
			want := counted(whole, epsilons(t, atwork.Replayed(t, w, plan)))
			if want.BeforeFrom < 3*(want.Epsilon-want.BeforeFrom) || want.Users == 0 ||
				want.Users > 6 {
				t.Fatalf("%+v is spent: the test shows nothing", want)
			}
			if !near(announced.Cost, want) || !near(plan.Cost, want) || !near(plan.Spent, want) ||
				announced.Spent != (replay.Cost{}) {
				t.Errorf("announced %+v and %+v, at the end %+v; the records say %+v",
					announced.Cost, plan.Cost, plan.Spent, want)
			}
			if done != total || total != w.Fed {
				t.Errorf("planning has come to %d of %d, %d records are fed", done, total, w.Fed)
			}
			for _, text := range []string{
				"the replay is a second release", "the second release is done",
			} {
				if n := strings.Count(log.String(), text); n != 1 {
					t.Errorf("the log says %q %d times", text, n)
				}
			}
			if again, err := replay.NewPlan(t.Context(), o, r); err != nil || !again.Done ||
				!near(again.Spent, want) ||
				again.Refusal(replay.Options{}) != nil {
				t.Errorf("planned again when it is done: %+v, %v", again, err)
			}
		})
	}
}

// TestReplayCostResumed: a replay that goes on where an earlier run has ended announces
// the whole cost again, and what of it is spent.
func TestReplayCostResumed(t *testing.T) {
	w := atwork.Served(t, 20, 20)
	o := atwork.Options(w, "first")
	o.Release.Epsilon = 2
	r := replay.Options{
		Output: "resumed", SpendAgain: true, From: topics.Bound{IsOffset: true, Offset: 30},
	}
	whole, err := replay.NewPlan(t.Context(), o, r)
	servicetest.OK(t, err)
	var spent replay.Cost
	for _, to := range []int64{25, 40, 60} {
		r.To = topics.Bound{IsOffset: true, Offset: to}
		if to == 25 {
			if _, err := replay.NewPlan(t.Context(), o, r); err == nil {
				t.Error("a range that ends before it begins is planned")
			}
			continue
		}
		part := atwork.Replay(t, o, r)
		r.To, spent = topics.Bound{}, part.Spent
		rest, err := replay.NewPlan(t.Context(), o, r)
		servicetest.OK(t, err)
		if !rest.Begun || rest.Done || rest.Identical || !near(rest.Cost, whole.Cost) ||
			!near(rest.Spent, part.Cost) ||
			rest.Spent.Epsilon <= 0 {
			t.Errorf("up to %d: announced %+v, spent %+v; want %+v and %+v", to, rest.Cost,
				rest.Spent, whole.Cost, part.Cost)
		}
		r.SpendAgain = false
		if err := rest.Refusal(r); !errors.Is(err, replay.ErrSpend) ||
			!strings.Contains(err.Error(), "an earlier run has spent") {
			t.Errorf("up to %d: taken up again without a word: %v", to, err)
		}
		r.SpendAgain = true
	}
	// What is published of it may be removed: then everybody may have had a record.
	for p := range int32(servicetest.Partitions) {
		w.DeleteRecords(t, r.Output, p, -1) // all there are
	}
	aged, err := replay.NewPlan(t.Context(), o, r)
	servicetest.OK(t, err)
	if aged.Cost.Epsilon < whole.Cost.Epsilon || aged.Cost.Users < whole.Cost.Users ||
		aged.Spent.Users != 20 ||
		aged.Spent.Epsilon < spent.Epsilon {
		t.Errorf("with records removed %+v is announced and %+v spent, before it was %+v and %+v",
			aged.Cost, aged.Spent, whole.Cost, spent)
	}
	if plan := atwork.Replay(t, o, r); !near(plan.Spent, aged.Cost) {
		t.Errorf("%+v is spent, announced was %+v", plan.Spent, aged.Cost)
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
	if sums := epsilons(t, alone); !near(plan.Cost, counted(sums, sums)) || len(sums) == 0 {
		t.Errorf("the cost is %+v, partition 2 has %v", plan.Cost,
			slices.Collect(maps.Values(sums)))
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
		!strings.Contains(err.Error(), "begun with it as a second release") ||
		plan.Spent.Epsilon <= 0 {
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

// TestReplayCostOverPartitions: two producers that choose partitions in different ways
// leave users in several. What a user's second releases cost is the sum over all, and each
// user counts once.
func TestReplayCostOverPartitions(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	for range 8 {
		w.Feed(t)
	}
	for p := range int32(servicetest.Partitions) {
		var lines []servicetest.Line
		for v := 0; v < len(w.Cells); v += 3 {
			lat, lon := w.Model.Grid.ToDegrees(w.Model.Grid.Centre(w.Cells[v]))
			user, at := fmt.Sprintf("vehicle-%03d", v), servicetest.StartMS+w.Step*60_000
			value, err := w.Codec.AppendRaw(nil,
				schemas.Raw{UserID: user, Timestamp: at, Latitude: lat, Longitude: lon})
			servicetest.OK(t, err)
			lines = append(lines, servicetest.Line{Key: user, Value: string(value), Timestamp: at})
		}
		w.Write(t, true, "raw", p, lines...)
		w.Fed += int64(len(lines))
	}
	o := atwork.Options(w, "first")
	o.Partitioner = engine.AnyPartitioner
	atwork.Serve(t, w, o, 0)
	o.Release.Epsilon = 2
	r := replay.Options{Output: "again", TempDir: t.TempDir()}
	announced, err := replay.NewPlan(t.Context(), o, r)
	servicetest.OK(t, err)
	r.SpendAgain = true
	plan := atwork.Replay(t, o, r)
	sums := epsilons(t, atwork.Replayed(t, w, plan))
	want := counted(sums, sums)
	if alone := sums["vehicle-001"]; want.Users != 12 || want.UserMax < alone+2*o.Release.Epsilon {
		t.Fatalf("%+v is spent, %g by a user of one partition: the test shows nothing", want, alone)
	}
	if !near(announced.Cost, want) || !near(plan.Spent, want) {
		t.Errorf("announced %+v, at the end %+v; the records say %+v", announced.Cost,
			plan.Spent, want)
	}
}
