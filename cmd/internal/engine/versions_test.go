package engine

import (
	"bytes"
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

// TestVersionsInMarks pins what is stored of a version.
func TestVersionsInMarks(t *testing.T) {
	id := VersionID{
		Model: mechanism.ID{1, 2, 3, 4, 5, 6, 7, 8}, StartMS: 1_700_000_000_000,
	}
	stored := id.mark()
	if got := hex.EncodeToString(stored.Name); got != "010102030405060708" ||
		stored.From != id.StartMS {
		t.Errorf("the name is %s, from %d", got, stored.From)
	}
	if got, err := ReadVersion(stored); err != nil || got != id {
		t.Errorf("read again it is %v, %v", got, err)
	}
	for _, bad := range [][]byte{
		nil, stored.Name[:8], append(stored.Name[:9:9], 0), append([]byte{2}, stored.Name[1:]...),
	} {
		if _, err := ReadVersion(task.Version{From: 1, Name: bad}); err == nil {
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

// TestCheckVersions: a list may only change behind everything that was processed. Errors say which
// version is wrong, and what to do.
func TestCheckVersions(t *testing.T) {
	one, two := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4),
		servicetest.NeighbourModel(t, servicetest.Town, 5000, 5)
	v, w, x := newVersion(t, 3, one), newVersion(t, 6, two), newVersion(t, 6, one)
	used := Settings{Later: []*Version{v, w}} // of which the second has not begun
	mark := task.Mark{Versions: used.Versions(), Latest: servicetest.StepTime(5).UnixMilli()}
	for name, c := range map[string]struct {
		later []*Version
		says  []string // nil: it may start
	}{
		"the same":           {[]*Version{v, w}, nil},
		"a later one":        {[]*Version{v, w, newVersion(t, 8, one)}, nil},
		"without the last":   {[]*Version{v}, nil},
		"another last one":   {[]*Version{v, newVersion(t, 6, one)}, nil},
		"one before it":      {[]*Version{v, newVersion(t, 6, one), newVersion(t, 7, two)}, nil},
		"none":               {nil, []string{"lacks", one.ID(), "put", "back"}},
		"another one before": {[]*Version{newVersion(t, 1, two), v}, []string{one.ID(), "back"}},
		"in its place":       {[]*Version{newVersion(t, 3, two)}, []string{one.ID(), "back"}},
		"at the latest step": {
			[]*Version{v, newVersion(t, 5, two)},
			[]string{two.ID(), "start after " + servicetest.StepTime(5).UTC().Format(time.RFC3339)},
		},
	} {
		err := Settings{Later: c.later}.CheckVersions(mark)
		if (err != nil) != (c.says != nil) || err != nil && !errors.Is(err, task.ErrVersions) {
			t.Errorf("%s: %v", name, err)
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", name, err, word)
			}
		}
	}
	open := task.Mark{Open: true, Versions: used.Versions(), Latest: mark.Latest}
	for name, later := range map[string][]*Version{
		"shorter": {v}, "another": {v, newVersion(t, 6, one)},
		"longer": {v, w, newVersion(t, 8, one)},
	} {
		if err := task.CheckOpen(open, nil, Settings{Later: later}.Versions()); !errors.Is(err,
			task.ErrSettings) {
			t.Errorf("a list that is %s, at an open mark: %v", name, err)
		}
	}
	if err := task.CheckOpen(open, nil, used.Versions()); err != nil {
		t.Errorf("the same list, at an open mark: %v", err)
	}
	if err := (Settings{Later: []*Version{v, x}}).CheckVersions(task.Mark{}); err != nil {
		t.Errorf("where nothing was processed: %v", err)
	}
}

// TestLongerListInGroup: instances of two lists do not work side by side, though their settings are
// the same.
func TestLongerListInGroup(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	before := testSettings(t, model)
	after := before
	after.Later = []*Version{newVersion(t, 3, model)}
	if !bytes.Equal(before.Fingerprint(), after.Fingerprint()) {
		t.Error("a longer list is another setting")
	}
	if got := before.DifferencesInGroup(after.GroupFingerprint()); got !=
		"models: it has another list" {
		t.Errorf("what differs: %q", got)
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
		"the first version one of":        {newVersion(t, 1, slow)},
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
