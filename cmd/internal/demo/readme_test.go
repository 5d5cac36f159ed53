package demo

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// readmeFrame is the demo's view as the README shows it.
func readmeFrame(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range codeBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], "fleet time") {
			return strings.TrimRight(block[1], "\n")
		}
	}
	t.Fatal("the README shows no frame of the demo")
	return ""
}

var (
	frameBar    = regexp.MustCompile(`[█·]{30}`)
	frameNumber = regexp.MustCompile(`[0-9][0-9.:,-]*`)
	codeBlock   = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")
	frameSpace  = regexp.MustCompile(` +`)
	frameKind   = regexp.MustCompile(`\b(released|repeated|predicted),`)
)

// skeleton is a frame without what differs from moment to moment.
func skeleton(frame string) string {
	frame = frameNumber.ReplaceAllString(frameBar.ReplaceAllString(frame, "[bar]"), "#")
	frame = frameKind.ReplaceAllString(strings.ReplaceAll(frame, "#m#s", "#s"), "[kind],")
	return strings.TrimSpace(
		frameSpace.ReplaceAllString(strings.ReplaceAll(frame, " km", " m"), " "))
}

// TestReadmeFrame holds the frame that the README shows to what the program prints: the same
// words in the same places, and figures like those of the demo, which are the same in each run.
// The frame is of a moment before the end, and another key changes figures a little: a quarter is
// allowed, which a frame of another mechanism or of half the noise does not pass.
func TestReadmeFrame(t *testing.T) {
	o := Options{
		Once: true, JSON: true, Seed: 1, Logger: slog.New(slog.DiscardHandler),
		Release: func(m *mobility.Model) (mechanism.Options, error) {
			return mechanism.Options{
				Mechanism: law.Codebook, Epsilon: fleet.PlanEpsilon,
				ReleaseInterval: int(fleet.PlanInterval / m.Step),
				Budget: mechanism.Budget{
					Epsilon: fleet.PlanBudget, WindowSteps: int(24 * time.Hour / m.Step),
				},
			}, nil
		},
	}
	var out bytes.Buffer
	if err := Run(t.Context(), o, cli.Streams{Out: &out, Err: io.Discard}); err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	shown := readmeFrame(t)
	model, fixes, err := fleetOf(o)
	if err != nil {
		t.Fatal(err)
	}
	blind, err := engine.NewBlind(model, nil, mechanism.Options{
		Mechanism: report.Mechanism, Epsilon: report.Epsilon,
	})
	if err != nil {
		t.Fatal(err)
	}
	board, err := newScoreboard(model, blind, fixes)
	if err != nil {
		t.Fatal(err)
	}
	value, err := board.codec.AppendSanitized(nil, schemas.Sanitized{
		UserID: fixes[0].UserID, Timestamp: fixes[0].Timestamp, Epsilon: 1,
		Kind:      schemas.KindReleased,
		Mechanism: law.Codebook, ModelID: strings.Repeat("0", 16), Release: 1,
		ReleaseLatitude: schemas.Some(53.4), ReleaseLongitude: schemas.Some(-2.9),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := board.sanitized(0,
		consumer.Record{Key: []byte(fixes[0].UserID), Value: value}); err != nil {
		t.Fatal(err)
	}
	report.Speed, report.limits = 600, "Σε ≤ 20 in any 24 hours"
	frame := strings.Join((&view{}).frame(status{
		report: report, latest: board.latest, drawn: board.drawn,
	}), "\n")
	if got, want := skeleton(shown), skeleton(frame); got != want {
		t.Errorf("the README shows\n%s\nand the demo prints\n%s", got, want)
	}
	if problems := unlike(shown, report); len(problems) > 0 {
		t.Errorf("the README's frame: %s", strings.Join(problems, "; "))
	}
	halved := report
	halved.MedianReleaseM, halved.EpsilonSpent = report.MedianReleaseM/2, report.EpsilonSpent/2
	if len(unlike(shown, halved)) != 2 {
		t.Error("half the error passes for the demo's")
	}
}

var frameFigures = regexp.MustCompile(
	`Σε ([0-9.]+) a vehicle|estimate    model alone\n +([0-9]+) m +([0-9]+) m +([0-9]+) m`)

// unlike lists the figures of a frame that are more than a quarter away from a report's.
func unlike(frame string, r Report) (problems []string) {
	found := frameFigures.FindAllStringSubmatch(frame, -1)
	if len(found) != 2 {
		return []string{"it has not all figures"}
	}
	for name, c := range map[string]struct {
		text string
		want float64
	}{
		"spent": {found[0][1], r.spent()}, "release": {found[1][2], r.MedianReleaseM},
		"estimate": {found[1][3], r.MedianEstimateM}, "blind": {found[1][4], r.MedianBlindM},
	} {
		if x, err := strconv.ParseFloat(c.text, 64); err != nil || math.Abs(x-c.want) > c.want/4 {
			problems = append(problems,
				name+" is "+c.text+", the demo gives "+strconv.FormatFloat(c.want, 'f', 1, 64))
		}
	}
	return problems
}

// TestDemoPace: with a speed the rate is the feed's, and is not told as the pipeline's.
func TestDemoPace(t *testing.T) {
	paced := Report{EventsPerSecond: 21, Speed: 120, BusyMicros: 250}.pace()
	free := Report{EventsPerSecond: 5000, BusyMicros: 250}.pace()
	if !strings.Contains(paced, "Fed at 120 times the fleet's pace, 21 records/s: that is the "+
		"feed's pace, not a limit") || !strings.Contains(paced, "250 µs a record") {
		t.Errorf("with a speed: %s", paced)
	}
	if !strings.Contains(free, "As fast as it goes: 5000 records/s") ||
		strings.Contains(free, "fleet") {
		t.Errorf("without one: %s", free)
	}
}
