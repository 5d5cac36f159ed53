package experiment

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/evaluation/report"
)

// TestReadable: every axis says what is on it and in which unit, every series has a name, every
// chart a title, a note and a caption of its own, every table a caption and a name for each
// column, and every section begins with words.
func TestReadable(t *testing.T) {
	got, err := Carry(testStudy(t), All(), Run{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	captions := map[string]bool{}
	for _, section := range got.Sections {
		if _, ok := section.Parts[0].(report.Text); !ok {
			t.Errorf("%s begins with no words", section.Title)
		}
		for _, part := range section.Parts {
			switch part := part.(type) {
			case *report.Chart:
				if captions[part.Title] || part.Title == "" || part.Note == "" {
					t.Errorf("%s: the title %q is another one's, or there is no title or note",
						part.Name, part.Title)
				}
				captions[part.Title] = true
				for _, panel := range part.Panels {
					readable(t, part.Name, panel)
				}
			case *report.Table:
				if !strings.HasSuffix(part.Caption, ".") || slices.Contains(part.Columns, "") {
					t.Errorf("table %s: caption %q, columns %q",
						part.Name, part.Caption, part.Columns)
				}
			}
		}
	}
	if len(captions) < 7 {
		t.Errorf("only %d charts", len(captions))
	}
}

// unit is how an axis names its unit: behind a comma, in brackets, or by what it counts or has no
// unit for.
var unit = regexp.MustCompile(`, |\(|vehicles|probability|correlation|coverage|share|variation`)

func readable(t *testing.T, name string, panel report.Panel) {
	t.Helper()
	for _, axis := range []report.Axis{panel.X, panel.Y} {
		if !unit.MatchString(axis.Label) {
			t.Errorf("%s: the axis %q has no unit", name, axis.Label)
		}
	}
	for _, series := range panel.Series {
		if series.Name == "" {
			t.Errorf("%s: a series without a name", name)
		}
	}
}

// TestWords: every section has words, and no paragraph is left over.
func TestWords(t *testing.T) {
	headings := append(Names(), "preface", "data")
	if got := strings.Count(wordsText, "\n# "); got != len(headings) {
		t.Errorf("%d headings, want %d", got, len(headings))
	}
	for _, heading := range headings {
		if got := words(heading); len(got[0]) < 50 {
			t.Errorf("%s: %q", heading, got)
		}
	}
}
