package train

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

func finished(t *testing.T, tr *Trainer) (*mobility.Model, mobility.Report) {
	t.Helper()
	m, report, err := tr.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return m, report
}

func shuffled[T any](list []T, seed uint64) []T {
	list = slices.Clone(list)
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(list), func(i, j int) {
		list[i], list[j] = list[j], list[i]
	})
	return list
}

// TestMerge splits fixes between trainers, in any order and also within a step, and merges them in
// any order.
func TestMerge(t *testing.T) {
	g := plainGrid(t, 12, 12)
	fixes := append(wander(g, 5, 400, 1), Fix{User: "user0", Lat: -1, Lon: -1},
		Fix{User: "nowhere", Lat: -1, Lon: -1})
	for _, o := range []Options{{}, {MaxGap: 70 * time.Second}, {EveryFix: true}} {
		first, report := finished(t, trainer(t, g, o, fixes))
		for seed := range uint64(4) {
			parts := make([]*Trainer, 3)
			for i := range parts {
				parts[i] = trainer(t, g, o, nil)
			}
			for i, f := range shuffled(fixes, seed) {
				parts[i*7%3].Add(f)
			}
			if seed%2 == 0 { // one that has been read before
				_ = parts[1].Without(func(string) bool { return true })
			}
			parts[0].Merge(parts[2])
			parts[1].Merge(parts[0])
			if m, again := finished(t, parts[1]); m.ID() != first.ID() || again != report {
				t.Fatalf("%+v: split fixes give another model: %+v and %+v", o, report, again)
			}
		}
	}
}

// TestWithout: a trainer without some users equals one that never saw them, and neither notices
// what the other takes later.
func TestWithout(t *testing.T) {
	g := plainGrid(t, 12, 12)
	fixes := wander(g, 6, 200, 3)
	isHeld := func(user string) bool { return user == "user1" || user == "user4" }
	kept := slices.DeleteFunc(slices.Clone(fixes), func(f Fix) bool { return isHeld(f.User) })
	all := trainer(t, g, Options{}, shuffled(fixes, 1))
	whole, wholeReport := finished(t, trainer(t, g, Options{}, fixes))
	part, partReport := finished(t, trainer(t, g, Options{}, kept))

	rest := all.Without(isHeld)
	if m, report := finished(t, rest); m.ID() != part.ID() || report != partReport {
		t.Errorf("without two users: %+v, want %+v", report, partReport)
	}
	more := fixesAt(g, "user0", []int64{1e6, 1e6 + 60}, []grid.Cell{1, 2})
	for _, f := range more {
		rest.Add(f)
	}
	if m, report := finished(t, all); m.ID() != whole.ID() || report != wholeReport {
		t.Error("a fix added to the derived trainer changed the first one")
	}
	for _, f := range more {
		all.Add(f)
	}
	grown, _ := finished(t, trainer(t, g, Options{}, slices.Concat(fixes, more)))
	if m, _ := finished(t, all); m.ID() != grown.ID() {
		t.Error("a fix added to the first trainer after the derivation is lost")
	}
}

func TestTracks(t *testing.T) {
	g := plainGrid(t, 10, 10)
	fixes := slices.Concat(
		fixesAt(g, "b", []int64{600, 660, 0, 60, 119}, []grid.Cell{7, 8, 1, 2, 3}),
		fixesAt(g, "a", []int64{30}, []grid.Cell{9}), fixesAt(g, "c", []int64{30}, []grid.Cell{4}))
	list := func(tr *Trainer, keep func(string) bool) (found []string) {
		for track := range tr.Tracks(keep) {
			found = append(found, fmt.Sprintf("%s%v%v", track.User, track.Steps, track.Cells))
		}
		return found
	}
	notC := func(user string) bool { return user != "c" }
	if got, want := list(trainer(t, g, Options{}, fixes), notC),
		[]string{"a[0][9]", "b[0 1][1 3]", "b[10 11][7 8]"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := list(trainer(t, g, Options{EveryFix: true}, fixes), nil),
		[]string{"a[0][9]", "b[0 1 1 10 11][1 2 3 7 8]", "c[0][4]"}; !slices.Equal(got, want) {
		t.Errorf("every fix: %v, want %v", got, want)
	}
	for track := range trainer(t, g, Options{}, fixes).Tracks(nil) {
		if track.User != "a" {
			t.Error("a loop that ended goes on")
		}
		break
	}
}

// TestFinishWithProgress: all of the work is reported, and an error of the report ends it, wherever
// it comes.
func TestFinishWithProgress(t *testing.T) {
	g := plainGrid(t, 100, 100)
	tr := trainer(t, g, Options{KernelRadius: 2}, wander(g, 4, 50, 1))
	var calls, last, most int64
	if _, _, err := tr.FinishWithProgress(func(done, total int64) error {
		if done < last || done > total {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		calls, last, most = calls+1, done, total
		return nil
	}); err != nil || last != most || calls < 3 {
		t.Fatalf("%d calls, %d of %d done: %v", calls, last, most, err)
	}
	planted := errors.New("planted")
	for stop := range calls {
		n := int64(0)
		if _, _, err := tr.FinishWithProgress(func(int64, int64) error {
			if n++; n > stop+1 {
				t.Fatal("it goes on after the error")
			}
			if n == stop+1 {
				return planted
			}
			return nil
		}); !errors.Is(err, planted) {
			t.Fatalf("stopped at call %d: %v", stop, err)
		}
	}
}

// TestFileHoldsNoPerson trains on named users and looks for their names in the model and its file.
func TestFileHoldsNoPerson(t *testing.T) {
	m, _ := finished(t, trainer(t, plainGrid(t, 20, 15), Options{Source: "a walk", Tool: "test"},
		wander(plainGrid(t, 20, 15), 3, 200, 3)))
	if text := fmt.Sprintf("%+v", m.Provenance); strings.Contains(text, "user1") {
		t.Errorf("the provenance names a user: %s", text)
	}
	var file bytes.Buffer
	if err := m.Write(&file); err != nil {
		t.Fatal(err)
	}
	in, err := goavro.NewOCFReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	for ; in.Scan(); parts++ {
		content, err := in.Read()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprintf("%q", content), "user1") {
			t.Error("the file names a user")
		}
	}
	if in.Err() != nil || parts < 3 {
		t.Errorf("%d parts, error %v", parts, in.Err())
	}
}
