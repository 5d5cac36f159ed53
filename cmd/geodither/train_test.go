package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

func asNDJSON(fixes []schemas.Raw) string {
	var b strings.Builder
	for _, f := range fixes {
		fmt.Fprintf(&b, `{"user_id":%q,"timestamp":%q,"latitude":%.6f,"longitude":%.6f}`+"\n",
			f.UserID, time.UnixMilli(f.Timestamp).UTC().Format(time.RFC3339),
			f.Latitude, f.Longitude)
	}
	return b.String()
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func inspectModel(t *testing.T, model string) (s expect.Model) {
	t.Helper()
	if err := json.Unmarshal([]byte(succeed(t, "model", "inspect", "--json", model).out),
		&s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestModelInspect(t *testing.T) {
	_, model := townFiles(t, t.TempDir())
	s := inspectModel(t, model)
	if s.Width != 7 || s.Height != 7 || s.CellM != 500 || s.StepSeconds != 60 ||
		s.Box.South != 10 || s.Box.East < 20.03 {
		t.Errorf("map and step are not those that were asked for: %+v", s)
	}
	if report := s.Provenance.Report; report.Users != 6 ||
		report.Fixes != int64(len(servicetest.TownFixes())) || report.OutsideBox != 0 {
		t.Errorf("trained on %+v", report)
	}
	if s.StayMean <= 0 || s.StayMean >= 1 || s.StepBits <= 0 || s.InitialBits <= 0 ||
		s.Transitions == 0 {
		t.Errorf("not the numbers of a model: %+v", s)
	}
	text := succeed(t, "model", "inspect", model).out
	for _, word := range []string{
		s.ID, "7 × 7 cells of 500 m", "60s", "6 users", "without differential privacy",
	} {
		if !strings.Contains(text, word) {
			t.Errorf("the text does not say %q:\n%s", word, text)
		}
	}
}

// TestTrainCounts: bad lines are skipped and counted with their place, and fixes outside the box
// are counted.
func TestTrainCounts(t *testing.T) {
	dir := t.TempDir()
	text := servicetest.TownCSV(servicetest.TownFixes()) + "0,junk,10,20\n" +
		"0,1700000000000,50,50\n"
	traces, model := write(t, dir, "traces.csv", text), filepath.Join(dir, "model.avro")
	args := townTraining(traces, model)
	r := succeed(t, args...)
	place := fmt.Sprintf("traces.csv:%d", len(servicetest.TownFixes())+2)
	if !strings.Contains(r.err, "1 line skipped") || !strings.Contains(r.err, place) ||
		strings.Contains(r.err, "junk") {
		t.Errorf("the bad line is not counted with its place alone: %q", r.err)
	}
	if got := inspectModel(t, model).Provenance.Report.OutsideBox; got != 1 {
		t.Errorf("%d fixes outside the box, want 1", got)
	}
}

// TestTrainInterrupted: Ctrl-C while it waits for input ends the training, and
// no model is written.
func TestTrainInterrupted(t *testing.T) {
	dir := t.TempDir()
	in, feed := pipe(t)
	b := start(t, in, townTraining("-", filepath.Join(dir, "model.avro"))...)
	if _, err := feed.WriteString(servicetest.TownCSV(servicetest.TownFixes())); err != nil {
		t.Fatal(err)
	}
	if code := b.stop(t); code != cli.ExitInterrupted ||
		!strings.Contains(b.log.String(), "interrupted") {
		t.Errorf("exit %d: %s", code, b.log)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
