package experiment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// said is everything that a report says and tabulates.
func said(r *report.Report) (all []string) {
	all = append(all, r.Title)
	all = append(all, r.Text...)
	for _, s := range r.Sections {
		all = append(all, s.Title)
		for _, part := range s.Parts {
			switch part := part.(type) {
			case report.Text:
				all = append(all, string(part))
			case *report.Table:
				all = append(all, part.Name, part.Caption)
				all = append(all, part.Columns...)
				for _, row := range part.Rows {
					all = append(all, fmt.Sprint(row))
				}
			case *report.Figure:
				all = append(all, part.Name, part.Caption, fmt.Sprintf("%+v", *part.Chart))
			}
		}
	}
	return all
}

func carried(t *testing.T, r Run) []string {
	t.Helper()
	got, err := Carry(testStudy(t), All(), r)
	if err != nil {
		t.Fatal(err)
	}
	return said(got)
}

// TestWorkers: the report does not depend on the number of goroutines.
func TestWorkers(t *testing.T) {
	one := carried(t, Run{Workers: 1})
	if len(one) < 500 {
		t.Fatalf("a report of %d words", len(one))
	}
	for _, workers := range []int{2, 8} {
		if !same(one, carried(t, Run{Workers: workers})) {
			t.Errorf("%d workers give another report", workers)
		}
	}
}

// same compares what is said; figures are compared by what their tables say, since they print as
// addresses.
func same(a, b []string) bool {
	noPointers := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list),
			func(s string) bool { return len(s) > 200 && s[0] == '{' })
	}
	return slices.Equal(noPointers(a), noPointers(b))
}

// TestResume: a study that was stopped goes on where it was, measures nothing twice, and reports
// what an undisturbed one does.
func TestResume(t *testing.T) {
	whole := carried(t, Run{Workers: 2})
	folder := t.TempDir()
	stop := errors.New("stop")
	for round := 0; ; round++ {
		if round > 100 {
			t.Fatal("it never ends")
		}
		before, finished := files(t, folder), 0
		got, err := Carry(testStudy(t), All(), Run{
			Workers: 2, Folder: folder,
			Progress: func(p Progress) error {
				finished = p.Finished
				if p.Kept != before {
					t.Errorf("%d pieces are kept, and %d taken", before, p.Kept)
				}
				if p.Finished >= 40 && p.Kept+p.Finished < p.Pieces {
					return stop
				}
				return nil
			},
		})
		if err == nil {
			if !same(whole, said(got)) {
				t.Error("a resumed study reports something else")
			}
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if now := files(t, folder); now < before+finished {
			t.Fatalf("%d pieces were finished, and %d kept", finished, now-before)
		}
	}
}

func files(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// TestDamagedPiece: what cannot be read is measured again.
func TestDamagedPiece(t *testing.T) {
	dir := t.TempDir()
	whole := carried(t, Run{Folder: dir})
	found, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(found) == 0 {
		t.Fatal(err)
	}
	if err := os.WriteFile(found[0], []byte(`[{"N":`), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := -1
	again := carried(t, Run{Folder: dir, Progress: func(p Progress) error {
		kept = p.Kept
		return nil
	}})
	if kept != len(found)-1 || !same(whole, again) {
		t.Errorf("%d of %d pieces were taken", kept, len(found))
	}
}

// TestPieceKeys: whatever a result depends on is part of the key.
func TestPieceKeys(t *testing.T) {
	base := Piece{Name: "a", Inputs: "x"}
	keys := map[string]bool{base.Key("tool 1"): true}
	for _, other := range []string{
		(&Piece{Name: "b", Inputs: "x"}).Key("tool 1"),
		(&Piece{Name: "a", Inputs: "y"}).Key("tool 1"), base.Key("tool 2"),
	} {
		if keys[other] {
			t.Error("two different pieces have one key")
		}
		keys[other] = true
	}
	// The plan's pieces: those of one name are one, and another seed changes the key of all that
	// hold noise.
	s := testStudy(t)
	pieces := parameters.Plan(s)
	s.Options.Seed++
	reseeded := parameters.Plan(s)
	seen := map[string]string{}
	for i, p := range pieces {
		if other, ok := seen[p.Name]; ok && other != p.Key("t") {
			t.Errorf("two pieces are named %q", p.Name)
		}
		seen[p.Name] = p.Key("t")
		blind := filepath.Base(filepath.Dir(p.Name)) == "blind"
		if (p.Key("t") == reseeded[i].Key("t")) != blind {
			t.Errorf("%q: the seed is not where it should be", p.Name)
		}
	}
}

// TestProgress: what is done never falls, and ends at the total.
func TestProgress(t *testing.T) {
	var last Progress
	var calls atomic.Int64
	carried(t, Run{Workers: 3, Progress: func(p Progress) error {
		calls.Add(1)
		if p.Done < last.Done || p.Done > p.Total || p.Finished < last.Finished {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
		return nil
	}})
	if last.Done != last.Total || last.Finished != last.Pieces || calls.Load() < 10 {
		t.Errorf("it ends at %+v", last)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  int
	}{
		{[]string{"all"}, len(All())},
		{[]string{"parameters"}, 1},
		{[]string{"parameters", "over-time"}, 2},
		{nil, 0},
	} {
		if got, err := Choose(c.names); err != nil || len(got) != c.want {
			t.Errorf("%v: %d experiments, %v", c.names, len(got), err)
		}
	}
	if _, err := Choose([]string{"overtime"}); err == nil {
		t.Error("an experiment that does not exist is chosen")
	}
}
