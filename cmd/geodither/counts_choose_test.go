package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
)

// shift is a fleet of 1,000 vehicles that drive from 6 to 18 h, and 20 more all day. truth has
// where they are first in each hour.
func shift(t *testing.T) (lines string, zones *counts.Zones, truth [24][]float64) {
	t.Helper()
	g, err := grid.New(grid.Box{South: 51.40, West: -.20, North: 51.46, East: -.10}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if zones, err = counts.Squares(g); err != nil {
		t.Fatal(err)
	}
	for hour := range truth {
		truth[hour] = make([]float64, zones.Count())
	}
	random := rand.New(rand.NewPCG(5, 6))
	text := strings.Builder{}
	text.WriteString(countsColumns)
	for v := range 1020 {
		from, to := 6, 18
		if v >= 1000 {
			from, to = 0, 24
		}
		for hour := from; hour < to; hour++ {
			for minute := 5; minute < 60; minute += 30 {
				lat, lon := 51.43+.01*random.NormFloat64(), -.15+.015*random.NormFloat64()
				fmt.Fprintf(&text, "v%d,2026-11-23T%02d:%02d:00Z,%.7f,%.7f\n", v, hour, minute, lat,
					lon)
				if minute == 5 {
					truth[hour][zones.Of(lat, lon)]++
				}
			}
		}
	}
	return text.String(), zones, truth
}

// chooseArgs has no cap, so the command publishes nothing.
func chooseArgs(in string, more ...string) []string {
	return append([]string{
		"counts", "--in", in, "--from", "2026-11-23", "--to", "2026-11-24", "--box", countedBox,
	}, more...)
}

// TestCountsChoose: the caps that are printed cover the shifts, and the share of vehicles in a
// wrong zone is that of the counts which the command publishes with these settings.
func TestCountsChoose(t *testing.T) {
	dir := t.TempDir()
	lines, zones, truth := shift(t)
	in := write(t, dir, "in.csv", lines)
	out := succeed(t, chooseArgs(in)...).err
	caps := map[string]string{"30m": "24", "1h": "12", "3h": "4"} // of 12 hours
	var row []string
	for _, line := range strings.Split(out, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 3 || caps[fields[0]] == "" {
			continue
		}
		if fields[2] != caps[fields[0]] {
			t.Errorf("a cap of %s for 12 hours of windows of %s", fields[2], fields[0])
		}
		if fields[0] == "1h" && fields[1] == "1km" {
			row = fields
		}
	}
	if n := strings.Count(out, "km "); n < 12 || row == nil {
		t.Fatalf("there are few trials:\n%s", out)
	}
	wrong, err := strconv.ParseFloat(row[len(row)-14], 64) // daily, ε = 1
	if err != nil {
		t.Fatal(err)
	}
	for _, useful := range []string{
		"useful      daily, ε = 1: --window 30m --zone 1km --per-day 24, or --window 1h " +
			"--zone 1km --per-day 12, or --window 3h --zone 1km --per-day 4",
		// A typical day of one day is that day.
		"useful      typical, ε = 1: --window 30m --zone 1km --per-day 24, or --window 1h ",
	} {
		if !strings.Contains(out, useful) {
			t.Errorf("no %q in\n%s", useful, out)
		}
	}
	score, sum := 0., 0.
	for range 4 {
		rows, err := csv.NewReader(strings.NewReader(succeed(t, chooseArgs(in, "--window", "1h",
			"--zone", "1km", "--epsilon", "1", "--per-day", row[2])...).out)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for hour, actual := range truth {
			n, shown := 0., make([]float64, zones.Count()-1)
			for zone := range shown {
				shown[zone], err = strconv.ParseFloat(rows[1+hour*zones.Count()+zone][9], 64)
				if err != nil {
					t.Fatal(err)
				}
				n += actual[zone]
			}
			sum += n
			score += n * counts.Variation(shown, actual[:len(shown)])
		}
	}
	// Two draws of 12 busy hours differ by some hundredths.
	if got := 100 * score / sum; math.Abs(got-wrong) > 4 || wrong < 5 || wrong > 60 {
		t.Errorf("%.1f %% are in a wrong zone, not %g %%", got, wrong)
	}
	if again := succeed(t, chooseArgs(in)...).err; again != out {
		t.Error("a second look differs")
	}
}

// TestCountsChooseNamed: what is named is not varied. Where nothing is useful the command says what
// to do, and where nobody is, why.
func TestCountsChooseNamed(t *testing.T) {
	dir := t.TempDir()
	lines, _, _ := shift(t)
	in := write(t, dir, "in.csv", lines)
	for _, c := range []struct {
		args  []string
		words []string
		rows  int
	}{
		{
			[]string{"--window", "6h", "--zone", "3km"},
			[]string{"6h ", "3km ", "useful      typical, ε = 5: "},
			1,
		},
		{[]string{"--window", "15m"}, []string{"15m ", "0.5km ", "4km "}, 4},
		{
			[]string{"--epsilon", ".01"},
			[]string{"useful      daily, ε = 0.01: nothing", "typical, ε = 0.01: nothing"},
			12,
		},
		{
			[]string{"--from", "2026-11-22", "--to", "2026-11-23"},
			[]string{"WARNING     no fix lies in these days"},
			0,
		},
	} {
		out := succeed(t, chooseArgs(in, c.args...)...).err
		for _, words := range c.words {
			if !strings.Contains(out, words) {
				t.Errorf("%v: no %q in\n%s", c.args, words, out)
			}
		}
		if n := strings.Count(out, " % at ") + strings.Count(out, "  0 %  "); n != c.rows {
			t.Errorf("%v: %d trials, want %d:\n%s", c.args, n, c.rows, out)
		}
	}
	c := write(t, dir, "geodither.yml", "counts: {epsilon: 1, zone: 3km}\n")
	for _, more := range [][]string{{"--epsilon", "1"}, {"--per-day", "9"}, {"-c", c}} {
		requireMessage(t, call(t, append(chooseArgs(in, "--out", "out.csv"), more...)...),
			cli.ExitUsage, "to publish, give --epsilon and --per-day; to look first, leave out ")
	}
}

// TestCountsWarnings: the summary says where all numbers are noise, and where most of them are.
func TestCountsWarnings(t *testing.T) {
	dir := t.TempDir()
	lines, _, _ := shift(t)
	in := write(t, dir, "in.csv", lines)
	const small = "the fleet is smaller than the noise"
	for _, c := range []struct {
		args []string
		want string // "": no warning
	}{
		{[]string{"--zone", "2km", "--per-day", "12"}, ""},
		{[]string{"--zone", "500m", "--per-day", "12"}, small},
		{
			[]string{"--zone", "500m", "--per-day", "12", "--typical"},
			"Leave --per-day out to see for which zones estimate is useful",
		},
		{[]string{"--zone", "500m", "--per-day", "12", "--epsilon", "10"}, ""},
		{[]string{"--zone", "2km", "--per-day", "11"}, "does not cover"},
		{
			[]string{
				"--zone", "2km", "--per-day", "12", "--from", "2026-11-24", "--to", "2026-11-25",
			},
			"no fix lies in these days",
		},
	} {
		args := chooseArgs(in, "--epsilon", "1")
		words := succeed(t, append(args, c.args...)...).err
		if n := strings.Count(words, "WARNING"); c.want == "" && n > 0 ||
			c.want != "" && (n != 1 || !strings.Contains(words, c.want)) {
			t.Errorf("%v: want %q of\n%s", c.args, c.want, words)
		}
	}
}

// TestCountsChooseUnderConfig: a config that serves counts has a cap. Still nothing is published
// without --per-day, --key-file or --out.
func TestCountsChooseUnderConfig(t *testing.T) {
	dir := t.TempDir()
	lines, _, _ := shift(t)
	in := write(t, dir, "in.csv", lines)
	c := write(t, dir, "geodither.yml", "counts: {epsilon: 1, per_day: 8, zone: 3km, window: 1h}\n")
	args := append(chooseArgs(in), "-c", c)
	if r := succeed(t, args...); r.out != "" || !strings.Contains(r.err, "useful ") {
		t.Errorf("it publishes %q, or gives no advice: %s", r.out, r.err)
	}
	if r := succeed(t, append(args, "--out", "-")...); strings.Count(r.out, "\n") < 24 {
		t.Errorf("with --out it publishes %q", r.out)
	}
}
