package pipeline

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// stepTime is the begin of the nth step of the tests' fleets.
func stepTime(n int64) time.Time { return time.UnixMilli(servicetest.StartMS + n*60_000) }

// newVersion starts a model at the nth step.
func newVersion(tb testing.TB, n int64, m *mobility.Model) *Version {
	tb.Helper()
	return newVersionOf(tb, n, Material{Model: m})
}

func newVersionOf(tb testing.TB, n int64, m Material) *Version {
	tb.Helper()
	v, _, err := NewVersion(stepTime(n), fmt.Sprintf("step-%d.avro", n), func() (*Material, error) { return &m, nil })
	servicetest.OK(tb, err)
	return v
}

// own are personal models of every user whose name's hash is even.
type own struct {
	popular *mobility.Model
	id      string
	models  map[string]*mobility.Personal
	fails   error
}

func newOwn(tb testing.TB, popular *mobility.Model, seed int64) *own {
	tb.Helper()
	o := &own{popular: popular, id: fmt.Sprintf("%016x", 0xabc0+seed), models: map[string]*mobility.Personal{}}
	for v := range 60 {
		user := fmt.Sprintf("vehicle-%03d", v)
		h := fnv.New32()
		fmt.Fprint(h, user)
		if h.Sum32()%2 == 1 {
			continue
		}
		from := popular.Initial.Cells[int(h.Sum32()>>1)%popular.Initial.Len()]
		counts := mobility.PersonalCounts{Transitions: []mobility.Count{{From: from, To: from, N: float64(5 + seed)}}, Visits: []mobility.Count{{From: from, To: from, N: 3}}}
		var err error
		o.models[user], err = mobility.NewPersonal(popular, counts)
		servicetest.OK(tb, err)
	}
	return o
}

func (o *own) ID() string { return o.id }

func (o *own) Load(user string) (*mobility.Personal, error) { return o.models[user], o.fails }

// TestVersionNames pins what is stored of a version.
func TestVersionNames(t *testing.T) {
	id := VersionID{Model: mechanism.ID{1, 2, 3, 4, 5, 6, 7, 8}, Personals: mechanism.ID{0xa, 0xb}, StartMS: 1_700_000_000_000}
	const want = "01" + "0102030405060708" + "0a0b000000000000" + "0000018bcfe56800"
	if got := hex.EncodeToString(id.Name()); got != want {
		t.Errorf("the name is %s, want %s", got, want)
	}
	if got, err := ParseVersionID(id.Name()); err != nil || got != id {
		t.Errorf("read again it is %v, %v", got, err)
	}
	if !task.ValidName(id.Name()) {
		t.Error("no mark can hold it")
	}
	for _, bad := range [][]byte{nil, id.Name()[:24], append(id.Name(), 0), append([]byte{2}, id.Name()[1:]...)} {
		if _, err := ParseVersionID(bad); err == nil {
			t.Errorf("%x was accepted", bad)
		}
	}
	if text := id.String(); !strings.Contains(text, "0102030405060708") || !strings.Contains(text, "2023-11-14T22:13:20Z") {
		t.Errorf("in words it is %q", text)
	}
}

// TestVersionLoad: the material is read again when nobody has it any more, and has to
// be what it was.
func TestVersionLoad(t *testing.T) {
	model, other := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4), servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	var err error
	next, opened := model, 0
	v := func() *Version { // with a frame of its own, which keeps the material and ends
		v, m, errNew := NewVersion(stepTime(1), "v2.avro", func() (*Material, error) {
			opened++
			return &Material{Model: next}, err
		})
		servicetest.OK(t, errNew)
		if again, err := v.Load(); err != nil || again != m || opened != 1 {
			t.Errorf("while it is kept it is opened %d times, %v", opened, err)
		}
		runtime.KeepAlive(m)
		return v
	}()
	drop := func() {
		t.Helper()
		for range 100 {
			if runtime.GC(); v.loaded.Value() == nil {
				return
			}
		}
		t.Fatal("the material is never given up")
	}
	drop()
	if again, err := v.Load(); err != nil || again.Model != model || opened != 2 {
		t.Errorf("opened %d times, %v", opened, err)
	}
	drop()
	err = os.ErrNotExist
	if _, err := v.Load(); task.RemedyOf(err) != task.Rebuild || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is away: %v (%v)", err, task.RemedyOf(err))
	}
	err, next = nil, other
	if _, err := v.Load(); task.RemedyOf(err) != task.Fatal || !strings.Contains(err.Error(), "v2.avro") || !strings.Contains(err.Error(), model.ID()) {
		t.Errorf("another model in the file: %v (%v)", err, task.RemedyOf(err))
	}
}

// TestResolve says what to put back.
func TestResolve(t *testing.T) {
	a, b := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4), servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	v, w := newVersion(t, 3, a), newVersion(t, 3, b)
	list := []task.Amendment{{From: 7, Name: v.ID.Name()}}
	found, err := Resolve(list, []*Version{newVersion(t, 2, b), v})
	if err != nil || len(found) != 1 || found[0].Version != v || found[0].From != 7 {
		t.Errorf("found %+v, %v", found, err)
	}
	for name, have := range map[string][]*Version{"Put it back": nil, w.ID.Model.String(): {w}} {
		if _, err := Resolve(list, have); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), a.ID()) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
	if _, err := Resolve([]task.Amendment{{Name: []byte("?")}}, nil); !errors.Is(err, errName) {
		t.Errorf("another name: %v", err)
	}
}

// TestCheckLater refuses schedules that no service can follow.
func TestCheckLater(t *testing.T) {
	first := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	slow := servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	slow.Step = 2 * time.Minute
	wide := servicetest.NeighbourModel(t, grid.Box{South: 53.2, West: -3.2, North: 53.6, East: -2.7}, 500, 4)
	for want, later := range map[string][]*Version{
		"in the order":  {newVersion(t, 2, first), newVersion(t, 2, first)},
		"keeps its":     {newVersion(t, 1, slow)},
		"larger cells":  {newVersion(t, 1, wide)},
		"":              {newVersion(t, 1, first), newVersion(t, 2, first)},
		"step-1.avro: ": {newVersion(t, 1, wide)},
	} {
		o := testOptions(t, first)
		o.Later, o.MaxBatchBytes = later, 5000
		err := o.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestSameStart: of two versions with one start the last one listed is what partitions
// come to, whichever of the two they have adopted before.
func TestSameStart(t *testing.T) {
	one := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	wrong, right := newVersion(t, 3, servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)), newVersion(t, 3, servicetest.NeighbourModel(t, servicetest.Town, 5000, 6))
	later := []*Version{wrong, right}
	servicetest.OK(t, CheckLater(one, later, 1<<20))
	for name, had := range map[string]*Version{"none": nil, "the first": wrong, "the last": right} {
		a := &amender{timeline: newTimeline(later, nil), processor: newTestProcessor(t, testOptions(t, one), 0), counters: new(Counters), log: new(servicetest.Log).Logger()}
		var list []task.Amendment
		if had != nil {
			list = append(list, task.Amendment{From: 2, Name: had.ID.Name()})
		}
		servicetest.OK(t, a.Amended(list))
		for _, n := range a.Propose() {
			list = append(list, task.Amendment{From: 7, Name: n})
		}
		servicetest.OK(t, a.Amended(list))
		if n := len(a.Propose()); n > 0 {
			t.Errorf("%s adopted: %d more are proposed", name, n)
		}
		if got := a.processor.engine.models.versionAt(7, servicetest.StartMS/60_000+3); got != right {
			t.Errorf("%s adopted: the version is %v, want %v", name, got.ID, right.ID)
		}
		if had != nil {
			if got := a.processor.engine.models.versionAt(6, servicetest.StartMS/60_000+3); got != had {
				t.Errorf("%s adopted: before the adoption of the last it is %v", name, got.ID)
			}
		}
	}
}

// TestTimelineReplace: what a partition has adopted stays.
func TestTimelineReplace(t *testing.T) {
	v, w := newVersion(t, 3, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)), newVersion(t, 5, servicetest.NeighbourModel(t, servicetest.Town, 5000, 5))
	line := newTimeline([]*Version{v, w}, nil)
	_, err := line.resolve([]task.Amendment{{Name: v.ID.Name()}})
	servicetest.OK(t, err)
	servicetest.OK(t, line.replace([]*Version{v}, nil))
	if err := line.replace([]*Version{w}, nil); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), v.ID.Model.String()) {
		t.Errorf("without a version in use: %v", err)
	}
	if got := line.current(); len(got) != 1 || got[0] != v {
		t.Errorf("the schedule is %v", got)
	}
	if !line.once("a") || line.once("a") || !line.once("b") {
		t.Error("once is not once")
	}
}

// TestAmender proposes what is not in force yet, as long as a mark holds it.
func TestAmender(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	var later []*Version
	for n := range int64(task.MaxAmendments + 2) {
		later = append(later, newVersion(t, n, model))
	}
	log := new(servicetest.Log)
	a := &amender{timeline: newTimeline(later[:2], nil), processor: newTestProcessor(t, o, 0), counters: new(Counters), log: log.Logger()}
	servicetest.OK(t, a.Amended(nil))
	names := a.Propose()
	if len(names) != 2 || !bytes.Equal(names[1], later[1].ID.Name()) {
		t.Fatalf("%d names", len(names))
	}
	servicetest.OK(t, a.Amended([]task.Amendment{{From: 4, Name: names[0]}}))
	if again := a.Propose(); len(again) != 1 || !bytes.Equal(again[0], names[1]) {
		t.Errorf("after an adoption %d names", len(again))
	}
	err := a.Amended([]task.Amendment{{From: 4, Name: names[0]}, {From: 5, Name: later[2].ID.Name()}})
	if task.RemedyOf(err) != task.Rebuild || !errors.Is(err, ErrVersion) {
		t.Errorf("a version that is not here yet: %v (%v)", err, task.RemedyOf(err))
	}
	servicetest.OK(t, a.timeline.replace(later, nil))
	if got := len(a.Propose()); got != task.MaxAmendments-1 || a.Propose() == nil {
		t.Errorf("%d names are proposed beside one", got)
	}
	if n := strings.Count(log.String(), "mark is full"); n != 1 {
		t.Errorf("a full mark is told of %d times", n)
	}
	if got := a.counters.Snapshot().Adopted; got != 1 {
		t.Errorf("%d adoptions are counted", got)
	}
	late := servicetest.Sentinel()
	late.Timestamp = stepTime(1).UnixMilli()
	servicetest.Process(t, a.processor, servicetest.Record(t, 0, late), nil)
	servicetest.OK(t, a.Amended([]task.Amendment{{From: 4, Name: names[0]}, {From: 9, Name: names[1]}, {From: 9, Name: later[2].ID.Name()}}))
	if n := strings.Count(log.String(), "after its start"); n != 1 {
		t.Errorf("%d versions are said to be late", n)
	}
}
