package experiment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// said is everything that a report says and tabulates.
func said(r *report.Report) (all []string) {
	all = append(all, r.Title)
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
			case *report.Chart:
				all = append(all, fmt.Sprintf("%+v", *part))
			}
		}
	}
	return all
}

func carried(t *testing.T, chosen []Experiment, r Run) []string {
	t.Helper()
	got, err := Carry(testStudy(t), chosen, r)
	if err != nil {
		t.Fatal(err)
	}
	return said(got)
}

// TestResume: the report does not depend on the number of goroutines, nor on whether the study was
// stopped on the way. It then goes on where it was, measures nothing twice, and what is done never
// falls.
func TestResume(t *testing.T) {
	whole := carried(t, All(), Run{Workers: 1})
	if len(whole) < 500 {
		t.Fatalf("a report of %d words", len(whole))
	}
	folder, stop := t.TempDir(), errors.New("stop")
	for round := 0; ; round++ {
		var last Progress
		before, limit := files(t, folder), 1<<round*40
		got, err := Carry(testStudy(t), All(), Run{
			Workers: 8, Folder: folder,
			Progress: func(p Progress) error {
				if p.Kept != before || p.Done < last.Done || p.Done > p.Total ||
					p.Finished < last.Finished {
					t.Errorf("progress %+v after %+v, with %d files", p, last, before)
				}
				last = p
				if p.Finished >= limit && p.Kept+p.Finished < p.Pieces {
					return stop
				}
				return nil
			},
		})
		if err == nil {
			if !slices.Equal(whole, said(got)) || last.Done != last.Total || round < 2 {
				t.Errorf("after %d rounds it ends at %+v, or reports something else", round, last)
			}
			return
		}
		if now := files(t, folder); !errors.Is(err, stop) || now < before+last.Finished {
			t.Fatalf("%v; %d pieces were finished, and %d kept", err, last.Finished, now-before)
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
	dir, chosen := t.TempDir(), []Experiment{adversaries}
	whole := carried(t, chosen, Run{Folder: dir})
	found, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(found) == 0 {
		t.Fatal(err)
	}
	if err := os.WriteFile(found[0], []byte(`[{"N":`), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := -1
	again := carried(t, chosen, Run{Folder: dir, Progress: func(p Progress) error {
		kept = p.Kept
		return nil
	}})
	if kept != len(found)-1 || !slices.Equal(whole, again) {
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
