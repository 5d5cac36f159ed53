package engine

import (
	"encoding/hex"
	"errors"
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

// TestVersionNames pins what is stored of a version.
func TestVersionNames(t *testing.T) {
	id := VersionID{
		Model: mechanism.ID{1, 2, 3, 4, 5, 6, 7, 8}, StartMS: 1_700_000_000_000,
	}
	const want = "01" + "0102030405060708" + "0000018bcfe56800"
	if got := hex.EncodeToString(id.Name()); got != want {
		t.Errorf("the name is %s, want %s", got, want)
	}
	if got, err := ParseVersionID(id.Name()); err != nil || got != id {
		t.Errorf("read again it is %v, %v", got, err)
	}
	if !task.ValidName(id.Name()) {
		t.Error("no mark can hold it")
	}
	for _, bad := range [][]byte{
		nil, id.Name()[:16], append(id.Name(), 0), append([]byte{2}, id.Name()[1:]...),
	} {
		if _, err := ParseVersionID(bad); err == nil {
			t.Errorf("%x was accepted", bad)
		}
	}
	if text := id.String(); !strings.Contains(text, "0102030405060708") ||
		!strings.Contains(text, "2023-11-14T22:13:20Z") {
		t.Errorf("in words it is %q", text)
	}
}

// TestVersionLoad: the model is read again when nobody has it any more, and has to
// be what it was.
func TestVersionLoad(t *testing.T) {
	var err error
	stay, opened := 4.0, 0
	id := servicetest.NeighbourModel(t, servicetest.Town, 5000, stay).ID()
	v := func() *Version { // with a frame of its own, which keeps the material and ends
		open := func() (*mobility.Model, error) {
			opened++
			return servicetest.NeighbourModel(t, servicetest.Town, 5000, stay), err
		}
		v, m, errNew := NewVersion(servicetest.StepTime(1), "v2.avro", open)
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
		t.Fatal("the model is never given up")
	}
	drop()
	if again, err := v.Load(); err != nil || again.ID() != id || opened != 2 {
		t.Errorf("opened %d times, %v", opened, err)
	}
	drop()
	err = os.ErrNotExist
	if _, err := v.Load(); task.RemedyOf(err) != task.Rebuild || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is away: %v (%v)", err, task.RemedyOf(err))
	}
	err, stay = nil, 5
	if _, err := v.Load(); task.RemedyOf(err) != task.Fatal ||
		!strings.Contains(err.Error(), "v2.avro") || !strings.Contains(err.Error(), id) {
		t.Errorf("another model in the file: %v (%v)", err, task.RemedyOf(err))
	}
}

// TestResolve says what to put back.
func TestResolve(t *testing.T) {
	a, b := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4),
		servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	v, w := newVersion(t, 3, a), newVersion(t, 3, b)
	list := []task.Amendment{{From: 7, Name: v.ID.Name()}}
	found, err := Resolve(list, []*Version{newVersion(t, 2, b), v})
	if err != nil || len(found) != 1 || found[0].Version != v || found[0].From != 7 {
		t.Errorf("found %+v, %v", found, err)
	}
	for name, have := range map[string][]*Version{"Put it back": nil, w.ID.Model.String(): {w}} {
		if _, err := Resolve(list, have); !errors.Is(err, ErrVersion) ||
			!strings.Contains(err.Error(), a.ID()) || !strings.Contains(err.Error(), name) {
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
	wide := servicetest.NeighbourModel(
		t, grid.Box{South: 53.2, West: -3.2, North: 53.6, East: -2.7}, 500, 4)
	for want, later := range map[string][]*Version{
		"not after the version before it": {newVersion(t, 2, first), newVersion(t, 2, first)},
		"and the first version one of":    {newVersion(t, 1, slow)},
		"larger cells":                    {newVersion(t, 1, wide)},
		"":                                {newVersion(t, 1, first), newVersion(t, 2, first)},
		"step-1.avro: ":                   {newVersion(t, 1, wide)},
	} {
		err := CheckLater(first, later, 5000)
		if want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
