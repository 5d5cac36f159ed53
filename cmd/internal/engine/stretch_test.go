package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// TestNoStretchExceedsTheBudget runs users through processors, with fixes where steps begin and end
// and a window after releases. Settings, models and their steps change; processors start again,
// users are erased and come back, and some records lie in another partition. The published records
// alone are judged: in any stretch of fix times as long as the window, both ends included, ε adds
// up to at most the limit that was in force when the last of them was published. No release lies
// outside the hours, and no two have the same number.
func TestNoStretchExceedsTheBudget(t *testing.T) {
	t.Parallel()
	var all stretchCounts
	for seed := range uint64(40) {
		w := &stretchWalk{
			tb: t, Rand: rand.New(rand.NewPCG(seed, 43)), states: map[string][]byte{},
			processors: map[int32]*Processor{}, kept: map[string][]byte{},
			spent: map[string][]spentAt{}, numbers: map[string]int64{},
			eraser: NewEraser(servicetest.Key), codec: servicetest.NewCodec(t, schemas.Avro),
		}
		w.nowMS = clockChanges[w.IntN(len(clockChanges))].Add(-36 * time.Hour).UnixMilli()
		w.change()
		for range 300 {
			w.act()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		all.add(w.stretchCounts)
	}
	t.Logf("%+v", all)
	if all.releases < 3000 || all.filled < 1000 || all.changes < 300 || all.erased < 100 ||
		all.elsewhere < 100 || all.late < 50 {
		t.Errorf("poor cases: %+v", all)
	}
}

// clockChanges are moments at which clocks are changed: in London, in New York and on Lord Howe.
var clockChanges = []time.Time{
	time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC),
	time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC), time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC),
}

// stretchCounts say what was tried.
type stretchCounts struct{ releases, filled, changes, erased, elsewhere, late int }

func (c *stretchCounts) add(d stretchCounts) {
	c.releases, c.filled, c.changes = c.releases+d.releases, c.filled+d.filled, c.changes+d.changes
	c.erased, c.elsewhere, c.late = c.erased+d.erased, c.elsewhere+d.elsewhere, c.late+d.late
}

// spentAt is what a published record says.
type spentAt struct {
	ms      int64
	epsilon float64
}

// stretchWalk is a service and its users.
type stretchWalk struct {
	*rand.Rand
	stretchCounts
	tb         testing.TB
	settings   Settings
	open       *hours.Hours // of the settings
	processors map[int32]*Processor
	eraser     *Eraser
	codec      *schemas.Codec
	nowMS      int64
	offset     int64
	// By user: the state, what remains of it after an erasure, what was published since the account
	// began, and the number of the last release.
	states, kept map[string][]byte
	spent        map[string][]spentAt
	numbers      map[string]int64
}

// act takes a fix of some user, or erases the user, or starts the processors again.
func (w *stretchWalk) act() {
	user := fmt.Sprintf("user-%d", w.IntN(2))
	switch w.IntN(40) {
	case 0:
		w.change()
	case 1:
		clear(w.processors)
	case 2:
		w.erase(user, w.IntN(8) == 0)
	default:
		w.next(user)
		w.fix(user)
	}
}

// change takes other settings, of which the model may have other steps.
func (w *stretchWalk) change() {
	w.changes++
	model := servicetest.NeighbourModel(w.tb, servicetest.Town, 5000, 4)
	model.Step = []time.Duration{
		time.Second, 7 * time.Second, 30 * time.Second, time.Minute, 8 * time.Minute, time.Hour,
	}[w.IntN(6)]
	o := mechanism.Options{
		Mechanism: law.Codebook, Epsilon: []float64{.5, 1, 3}[w.IntN(3)],
		ReleaseInterval: []int{0, 0, 0, 2, 5}[w.IntN(5)],
		Between:         []string{mechanism.BetweenPredict, mechanism.BetweenSkip}[w.IntN(2)],
	}
	o.Budget = mechanism.Budget{
		Epsilon:     o.Epsilon*float64(1+w.IntN(4)) + []float64{0, .4}[w.IntN(2)],
		WindowSteps: []int{1, 3, 10, int(24 * time.Hour / model.Step)}[w.IntN(4)],
		Spent: []string{
			mechanism.SpentSuppress, mechanism.SpentRepeat, mechanism.SpentPredict,
		}[w.IntN(3)],
	}
	if w.IntN(3) == 0 {
		o.Hours = []hours.Span{{
			Days: 127, From: w.IntN(1440), To: 1 + w.IntN(1439),
			Zone: []string{"Europe/London", "America/New_York", "Australia/Lord_Howe"}[w.IntN(3)],
		}}
		o.Hours[0].To += 1 / (1 + max(o.Hours[0].To-o.Hours[0].From, o.Hours[0].From-o.Hours[0].To))
	}
	w.settings = testSettings(w.tb, model)
	w.settings.Partitioner, w.settings.Release = Murmur2, o
	plan, err := hours.New(o.Hours)
	servicetest.OK(w.tb, err)
	w.open = plan
	clear(w.processors)
}

// processor returns the one of a partition, which starts where there is none.
func (w *stretchWalk) processor(p int32) *Processor {
	if w.processors[p] == nil {
		w.processors[p] = newTestProcessor(w.tb, w.settings, p)
	}
	return w.processors[p]
}

// next moves the time on: within a step, to where one begins or ends, a window after an earlier
// release, or back a little.
func (w *stretchWalk) next(user string) {
	stepMS := w.settings.Model.Step.Milliseconds()
	windowMS := int64(w.settings.Release.Budget.WindowSteps) * stepMS
	spent := w.spent[user]
	switch n := w.IntN(10); {
	case n < 3:
		w.nowMS += w.Int64N(stepMS)
	case n < 6:
		w.nowMS = (w.nowMS/stepMS+1+w.Int64N(3))*stepMS - w.Int64N(2)
	case n < 9 && len(spent) > 0:
		of := spent[len(spent)-1-w.IntN(min(3, len(spent)))]
		w.nowMS = max(w.nowMS, of.ms+windowMS+[]int64{-1, 0, -w.Int64N(stepMS)}[w.IntN(3)])
	case n == 9:
		w.nowMS -= w.Int64N(2 * stepMS)
	}
}

// fix processes a fix of the present time, and judges what comes of it.
func (w *stretchWalk) fix(user string) {
	fix := servicetest.Sentinel()
	fix.UserID, fix.Timestamp = user, w.nowMS
	fix.Latitude += .05 * w.Float64()
	fix.Longitude += .1 * w.Float64()
	value, err := w.codec.AppendRaw(nil, fix)
	servicetest.OK(w.tb, err)
	w.offset++
	rec := task.Record{
		Offset: w.offset, Timestamp: fix.Timestamp, Key: []byte(user), Value: value,
	}
	at := servicetest.Murmur2Place(rec.Key)
	if w.IntN(20) == 0 {
		w.elsewhere++
		at = (at + 1 + w.Int32N(servicetest.Partitions-1)) % servicetest.Partitions
		if got := servicetest.Process(w.tb, w.processor(at), rec, nil); len(got.Output) > 0 {
			w.tb.Error("a record in a wrong partition is published")
		}
		return
	}
	state := w.states[user]
	if len(state) == 0 {
		var remains []byte
		state, remains, err = w.eraser.Recall(w.kept[user])
		servicetest.OK(w.tb, err)
		state = bytes.Clone(state)
		defer func(remains []byte) {
			if len(w.states[user]) > 0 && len(remains) > 0 {
				w.kept[user] = remains
			}
		}(bytes.Clone(remains))
	}
	got := servicetest.Process(w.tb, w.processor(at), rec, state)
	if len(got.State) > 0 {
		w.states[user] = got.State
	}
	w.late += len(got.Dead)
	for _, m := range got.Output {
		s, err := w.codec.DecodeSanitized(m.Value)
		servicetest.OK(w.tb, err)
		if s.Epsilon > 0 {
			w.judge(s)
		}
	}
}

// erase removes a user's state. After a reset nothing covers what was published before.
func (w *stretchWalk) erase(user string, reset bool) {
	w.erased++
	r := task.Request{Key: []byte(user), Reset: reset, TimeMS: w.nowMS}
	kept, err := w.eraser.Erase(r, w.offset, w.states[user], w.kept[user])
	servicetest.OK(w.tb, err)
	w.kept[user] = bytes.Clone(kept)
	delete(w.states, user)
	if reset {
		delete(w.spent, user)
	}
}

// judge takes a record that costs something.
func (w *stretchWalk) judge(s schemas.Sanitized) {
	w.releases++
	if s.Release != w.numbers[s.UserID]+1 {
		w.tb.Errorf("release %d of %s follows release %d", s.Release, s.UserID, w.numbers[s.UserID])
	}
	w.numbers[s.UserID] = s.Release
	step := w.settings.Model.Step.Milliseconds()
	if !w.open.Open(s.Timestamp / step * step) {
		w.tb.Errorf("%s: a release in a step that begins outside the hours",
			time.UnixMilli(s.Timestamp).UTC())
	}
	list := append(w.spent[s.UserID], spentAt{s.Timestamp, s.Epsilon})
	w.spent[s.UserID] = list
	b := w.settings.Release.Budget
	const rounding = 1e-9
	most := mostAround(list, int64(b.WindowSteps)*step)
	if most > b.Epsilon+rounding {
		w.tb.Errorf("Σε %g in a stretch of %d steps of %v, which may hold %g", most, b.WindowSteps,
			w.settings.Model.Step, b.Epsilon)
	}
	if most+s.Epsilon > b.Epsilon+rounding {
		w.filled++
	}
}

// mostAround is the largest sum in a stretch of a length that holds the last one.
func mostAround(list []spentAt, lengthMS int64) (most float64) {
	last := list[len(list)-1]
	for _, first := range list {
		if first.ms > last.ms || last.ms-first.ms > lengthMS {
			continue
		}
		sum := 0.
		for _, x := range list {
			if first.ms <= x.ms && x.ms <= first.ms+lengthMS {
				sum += x.epsilon
			}
		}
		most = max(most, sum)
	}
	return most
}
