package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// terminal keeps what is written to it, and says that it is a terminal. Ctrl-C is pressed when
// something else than the report is written.
type terminal struct {
	bytes.Buffer
	fd    uintptr
	ctrlC func()
}

func (t *terminal) Fd() uintptr { return t.fd }

func (t *terminal) Write(p []byte) (int, error) {
	if !json.Valid(p) {
		t.ctrlC()
	}
	return t.Buffer.Write(p)
}

// TestJSONOnTerminal: with --json nothing but the report goes to a terminal, and the demo ends with
// it.
func TestJSONOnTerminal(t *testing.T) {
	device, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil || !term.IsTerminal(int(device.Fd())) {
		t.Skip("there is no terminal to be had")
	}
	defer device.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &terminal{fd: device.Fd(), ctrlC: cancel}
	err = Run(ctx, Options{
		JSON: true, Seed: 1, Logger: slog.New(slog.DiscardHandler),
		Release: func(*mobility.Model) (mechanism.Options, error) {
			return mechanism.Options{Mechanism: law.Codebook, Epsilon: 4}, nil
		},
	}, cli.Streams{Out: out, Err: io.Discard})
	if err != nil || ctx.Err() != nil {
		t.Errorf("the demo ended with %v", err)
	}
	var report Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.RecordsOut == 0 {
		t.Errorf("the output is no report (%v): %s", err, &out.Buffer)
	}
}

// TestView: a bar and its number are full where all is answered and not before, and every line fits
// a terminal of 80 columns.
func TestView(t *testing.T) {
	s := status{fleetTime: time.Unix(1769443200, 0), answered: .998, perSecond: 99999}
	s.report = Report{
		RecordsIn: 1e7 - 1, RecordsOut: 1e7 - 1, Releases: 1e7 - 1, Repeats: 999999, Users: 1008,
		EpsilonSpent:   1e9,
		MedianReleaseM: 9999, MedianEstimateM: 9999, MedianBlindM: 9999, Mechanism: law.Codebook,
	}
	var out strings.Builder
	v := newView(&out)
	v.show(s)
	lines := append(v.frame(s), strings.TrimSuffix(out.String(), "\n"))
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	if !strings.Contains(lines[0], "█·  99 %") {
		t.Errorf("at 99.8 %%: %q", lines[0])
	}
	s.answered = 1
	if full := v.frame(s)[0]; strings.Contains(full, "·") || !strings.Contains(full, "█ 100 %") {
		t.Errorf("at the end: %q", full)
	}
}
