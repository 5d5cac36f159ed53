package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

const countedBox = "51.40,-0.20,51.46,-0.10"

// countsArgs counts two days around the end of summer time in London, in windows of an hour.
func countsArgs(more ...string) []string {
	return append([]string{
		"counts", "--from", "2026-10-25", "--to", "2026-10-27", "--time-zone", "Europe/London",
		"--per-day", "3", "--zone", "2km", "--box", countedBox,
	}, append(more, "--epsilon", "1")...)
}

// someFixes are fixes of 30 users over these days and the hours around them, at times that are
// often on the border of a window, and at places of which some lie outside the box.
func someFixes() (lines []string) {
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)
	for range 3000 {
		at := start.Add(time.Duration(random.IntN(60*12)) * 5 * time.Minute)
		lines = append(lines, fmt.Sprintf("user %d,%s,%.6f,%.6f\n", random.IntN(30),
			at.Format(time.RFC3339), 51.39+random.Float64()*.08, -.21+random.Float64()*.12))
	}
	return lines
}

const countsColumns = "user_id,timestamp,latitude,longitude\n"

// plainCounts counts the same fixes in a plain way: all of a user's day, in the order of time.
func plainCounts(
	t *testing.T, lines []string,
) (days [][]counts.Window, z *counts.Zones, n [][]int64) {
	t.Helper()
	g, err := grid.New(grid.Box{South: 51.40, West: -.20, North: 51.46, East: -.10}, 2000)
	if err != nil {
		t.Fatal(err)
	}
	if z, err = counts.Squares(g); err != nil {
		t.Fatal(err)
	}
	plan, err := counts.NewPlan("Europe/London", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	first, err := counts.ParseDate("2026-10-25")
	if err != nil {
		t.Fatal(err)
	}
	if days, err = plan.Between(first, first+1); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(strings.Join(lines, ""))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	type row struct {
		user string
		at   time.Time
		zone int32
	}
	var all []row
	for _, r := range rows {
		at, err := time.Parse(time.RFC3339, r[1])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row{r[0], at, z.Of(number(r[2]), number(r[3]))})
	}
	slices.SortFunc(all, func(a, b row) int { // of equal times, the zone decides
		return 2*a.at.Compare(b.at) + int(max(-1, min(1, a.zone-b.zone)))
	})
	for _, windows := range days {
		used := map[string]map[int64]bool{}
		for _, w := range windows {
			of := make([]int64, z.Count())
			for _, r := range all {
				if ms := r.at.UnixMilli(); ms < w.StartMS || ms >= w.EndMS {
					continue
				}
				if used[r.user] == nil {
					used[r.user] = map[int64]bool{}
				}
				if !used[r.user][w.StartMS] && len(used[r.user]) < 3 {
					used[r.user][w.StartMS] = true
					of[r.zone]++
				}
			}
			n = append(n, of)
		}
	}
	return days, z, n
}

// TestCounts: the records are the counts of a plain program, plus the noise of the key, in every
// zone of every window, 25 of the first day. The order of fixes, the number of files, the cores and
// the format change nothing.
func TestCounts(t *testing.T) {
	dir := t.TempDir()
	lines := someFixes()
	in := write(t, dir, "in.csv", countsColumns+strings.Join(lines, ""))
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	out := succeed(t, countsArgs("--in", in, "--key-file", key)...).out
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	days, zones, truth := plainCounts(t, lines)
	secret, err := files.ReadKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p, err := counts.NewPublisher(noise.NewKeyed(secret), zones,
		counts.Settings{Source: "files", Edition: 1, Epsilon: 1, PerDay: 3})
	if err != nil {
		t.Fatal(err)
	}
	at := 1
	var all []counts.Published
	for _, windows := range days {
		published := make([]counts.Published, len(windows))
		for i, w := range windows {
			if published[i], err = p.Publish(w, truth[len(all)+i], nil); err != nil {
				t.Fatal(err)
			}
		}
		p.Estimate(published) // a day's windows together
		all = append(all, published...)
	}
	for _, want := range all {
		w := want.Window
		for zone, vehicles := range want.Vehicles {
			low, high := p.Interval(vehicles)
			fields := []string{
				files.Time(w.StartMS), files.Time(w.EndMS), w.Day.String(), zones.Name(int32(zone)),
				fmt.Sprint(vehicles), fmt.Sprint(low), fmt.Sprint(high),
				files.Number(math.Round(want.Estimates[zone]*100) / 100), "1.0", "3", "1",
			}
			if got := slices.Delete(slices.Clone(rows[at]), 4, 6); !slices.Equal(got, fields) {
				t.Fatalf("record %d is %v, want %v", at, got, fields)
			}
			at++
		}
	}
	if at != len(rows) || len(days[0]) != 25 || len(days[1]) != 24 {
		t.Errorf("there are %d records, want %d", len(rows), at)
	}
	shuffled := slices.Clone(lines)
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(lines), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	})
	var parts []string
	for i := range 5 {
		part := strings.Join(shuffled[600*i:600*(i+1)], "")
		parts = append(parts, write(t, dir, fmt.Sprintf("part%d.csv", i), countsColumns+part))
	}
	for _, cores := range []int{1, 4} {
		before := runtime.GOMAXPROCS(cores)
		again := succeed(t, countsArgs(append(parts, "--key-file", key)...)...).out
		runtime.GOMAXPROCS(before)
		if again != out {
			t.Errorf("the same fixes in another order, on %d cores, give other bytes", cores)
		}
	}
	lined := filepath.Join(dir, "out.ndjson")
	succeed(t, countsArgs("--in", in, "--key-file", key, "--out", lined)...)
	for i, line := range strings.Split(strings.TrimSpace(read(t, lined)), "\n") {
		var r map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		for column, name := range rows[0] {
			latitude := strings.HasSuffix(name, "itude") // its digits differ
			if text := rows[i+1][column]; latitude && (string(r[name]) == "null") != (text == "") ||
				!latitude && strings.Trim(string(r[name]), `"`) != text {
				t.Fatalf("%s: %s has %s", line, name, text)
			}
		}
	}
}

// TestCountsLedger: counts of a window that was published are published again as they were, or
// refused, or come as another edition at a further ε. Other settings take another edition or other
// days.
func TestCountsLedger(t *testing.T) {
	dir := t.TempDir()
	lines := someFixes()
	in := write(t, dir, "in.csv", countsColumns+strings.Join(lines, ""))
	less := write(t, dir, "less.csv", countsColumns+strings.Join(lines[:2000], ""))
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	first := succeed(t, countsArgs("--in", in, "--key-file", key)...)
	ledger := read(t, key+".counts")
	if files.IsExposed(key + ".counts") {
		t.Error("everybody can read the ledger")
	}
	out := filepath.Join(dir, "out.csv")
	refused := call(t, countsArgs("--in", less, "--key-file", key, "--out", out)...)
	requireMessage(t, refused, cli.ExitFailed, "other counts", "counts-published")
	if read(t, key+".counts") != ledger || slices.Contains(names(t, dir), "out.csv") {
		t.Error("a refused run has left something behind")
	}
	if again := succeed(t, countsArgs("--in", in, "--key-file", key)...); again.out != first.out ||
		read(t, key+".counts") != ledger || strings.Contains(again.err, "in all") {
		t.Errorf("the same counts are not what they were: %s", again.err)
	}
	second := succeed(t, countsArgs("--in", less, "--key-file", key, "--edition", "2")...)
	if !strings.Contains(second.err, "2 days that were published") ||
		!strings.Contains(second.err, "ε = 2 in all") {
		t.Errorf("an edition more is not said to cost more: %s", second.err)
	}
	kept := read(t, key+".counts")
	if !strings.HasPrefix(kept, ledger) || len(kept) <= len(ledger) {
		t.Error("the ledger has lost windows")
	}
	for _, c := range []struct{ flag, value, words string }{
		{"--per-day", "4", ": per day 3 ("},
		{"--epsilon", "2", ": epsilon 1 ("},
		{"--zone", "3km", ": other zones ("},
		{"--window", "30m", ": window of 1h0m0s ("},
		{"--time-zone", "UTC", ": day from 2026-10-24T23:00:00.000Z to 2026-10-26T00:00:00.000Z ("},
	} {
		args := append(countsArgs("--in", in, "--key-file", key, "--out", out), c.flag, c.value)
		requireMessage(t, call(t, args...), cli.ExitFailed,
			"was published under edition 1", c.words, "counts-published")
		if read(t, key+".counts") != kept || slices.Contains(names(t, dir), "out.csv") {
			t.Errorf("with %s a refused run has left something behind", c.flag)
		}
	}
	succeed(t, countsArgs("--in", in, "--key-file", key, "--per-day", "4", "--edition", "3")...)
	succeed(t, countsArgs("--in", in, "--key-file", key, "--per-day", "4", "--from", "2026-10-27",
		"--to", "2026-10-28")...)
	write(t, dir, "noise.key.counts.new", "")
	requireMessage(t, call(t, countsArgs("--in", in, "--key-file", key)...), cli.ExitFailed,
		"noise.key.counts.new", "exists: wait for the run")
	removed := slices.DeleteFunc(names(t, dir), func(name string) bool {
		return name != "noise.key.counts.new"
	})
	if len(removed) != 1 {
		t.Error("the file of another run is gone")
	}
	other := filepath.Join(dir, "other.key")
	succeed(t, "key", "new", other)
	for _, text := range []string{"", "something else\n", ledger[:len(ledger)-9] + "\n"} {
		write(t, dir, "other.key.counts", text)
		requireMessage(t, call(t, countsArgs("--in", in, "--key-file", other)...), cli.ExitFailed,
			"other.key.counts", "counts-published")
	}
}

func dayAfter(day string) string {
	at, _ := time.Parse(time.DateOnly, day)
	return at.AddDate(0, 0, 1).Format(time.DateOnly)
}

// countsDay counts one day by the clock of a time zone, under one key.
func countsDay(in, key, day, zone string, more ...string) []string {
	return append([]string{
		"counts", "--in", in, "--key-file", key, "--from", day, "--to", dayAfter(day),
		"--time-zone", zone, "--per-day", "24", "--epsilon", "1", "--zone", "2km",
		"--box", countedBox,
	}, more...)
}

// TestCountsDaysOverlap: a day by the clock of another time zone has windows of one that was
// published, with the same counts where the cap binds nobody. It is refused, or comes as another
// edition whose ε is added up. What a time zone is named says nothing.
func TestCountsDaysOverlap(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "in.csv", "driver,"+countsColumns+"d,a,2026-11-10T12:10:00Z,51.42,-0.15\n"+
		"d,a,2026-11-11T02:10:00Z,51.42,-0.15\nd,b,2026-11-10T12:20:00Z,51.43,-0.15\n")
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	const auckland = "Pacific/Auckland"
	first := succeed(t, countsDay(in, key, "2026-11-10", "UTC")...)
	kept := read(t, key+".counts")
	out := filepath.Join(dir, "out.csv")
	for _, day := range []string{"2026-11-10", "2026-11-11"} {
		r := call(t, countsDay(in, key, day, auckland, "--out", out)...)
		requireMessage(
			t,
			r,
			cli.ExitFailed,
			"was published under edition 1",
			": day from 2026-11-10T00:00:00.000Z to 2026-11-11T00:00:00.000Z (",
			"counts-published",
		)
		if read(t, key+".counts") != kept || slices.Contains(names(t, dir), "out.csv") {
			t.Errorf("%s: a refused run has left something behind", day)
		}
	}
	requireMessage(t, call(t, countsDay(in, key, "2026-11-10", "UTC", "--columns",
		"user_id=driver")...), cli.ExitFailed, "other counts")
	if again := succeed(t, countsDay(in, key, "2026-11-10", "Europe/London")...); again.out !=
		first.out || read(t, key+".counts") != kept {
		t.Error("the same windows and days under another name are not what they were")
	}
	later := succeed(t, countsDay(in, key, "2026-11-12", auckland)...)
	if strings.Contains(later.err, "in all") {
		t.Errorf("two days that do not meet are added up: %s", later.err)
	}
	// 2026-11-11 in Auckland meets the 10th in UTC, as the 10th of the same edition does. The 10th
	// in UTC meets all three. A part of a day costs twice its ε.
	second := succeed(t, countsDay(in, key, "2026-11-11", auckland, "--edition", "2")...)
	if !strings.Contains(second.err, "ε = 3 in all") {
		t.Errorf("the day of another clock is not added: %s", second.err)
	}
	third := succeed(t, countsDay(in, key, "2026-11-10", auckland, "--edition", "2")...)
	if !strings.Contains(third.err, "3 days that were published") ||
		!strings.Contains(third.err, "ε = 5 in all") {
		t.Errorf("parts of two other days do not cost twice their ε: %s", third.err)
	}
}

// TestCountsEditions: whichever days, clocks, windows and caps are tried under one key, two days
// that were published under the same edition are the same one or do not meet.
func TestCountsEditions(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "in.csv", countsColumns+"a,2026-10-25T01:10:00Z,51.42,-0.15\n")
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	type published struct {
		edition, settings string
		startMS, endMS    int64
	}
	var all []published
	random, refused := rand.New(rand.NewPCG(1, 2)), 0
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 60 {
		day, zone := pick("2026-10-24", "2026-10-25", "2026-10-26"),
			pick("UTC", "Europe/London", "Pacific/Auckland", "Asia/Kolkata", "America/New_York")
		edition, window, perDay := pick("1", "2", "3", "4"), pick("1h", "6h"), pick("1", "4")
		r := call(t, countsDay(in, key, day, zone, "--edition", edition, "--window", window,
			"--per-day", perDay)...)
		if r.code != 0 {
			requireMessage(t, r, cli.ExitFailed, "was published under edition "+edition)
			refused++
			continue
		}
		length, _ := time.ParseDuration(window)
		plan, err := counts.NewPlan(zone, length)
		if err != nil {
			t.Fatal(err)
		}
		date, _ := counts.ParseDate(day)
		windows := plan.Windows(date)
		p := published{edition, window + perDay, windows[0].StartMS, windows[len(windows)-1].EndMS}
		for _, o := range all {
			if o.edition == edition && o != p && o.startMS < p.endMS && p.startMS < o.endMS {
				t.Fatalf("under one edition there are %v and %v", o, p)
			}
		}
		all = append(all, p)
	}
	if len(all) < 9 || refused < 9 {
		t.Errorf("%d runs were published and %d refused: too few", len(all), refused)
	}
}

// TestCountsSummary: the summary says what is guaranteed, and which share the cap cuts by hour.
func TestCountsSummary(t *testing.T) {
	dir := t.TempDir()
	text := countsColumns
	for hour := range 6 {
		text += fmt.Sprintf("a,2026-10-26T%02d:10:00Z,51.42,-0.15\n", 6+hour)
	}
	text += "b,2026-10-26T06:10:00Z,51.42,-0.15\nb,2026-10-20T06:10:00Z,51.42,-0.15\n" +
		"c,2026-10-26T06:10:00Z,0,0\n"
	r := succeed(t, countsArgs("--in", write(t, dir, "in.csv", text))...)
	for _, words := range []string{
		"49 windows of 1h0m0s from 2026-10-25 on", "at most e^1 (ε = 1)", "add up to ε = 2",
		"vehicles ± 7 holds", "fresh and forgotten", "people who travel together",
		"9, of these 1 outside the days and 1 refused (null_island 1); 2 user-days",
		"the fixes are from 2026-10-20T06:10:00Z to 2026-10-26T11:10:00Z: a window that starts " +
			"earlier or ends later may have only a part",
		"leave out 42.9 % of users' windows 09 h 100 % 10 h 100 % 11 h 100 %",
		"the cap does not cover", "keep them on the trusted side",
	} {
		if !strings.Contains(r.err, words) {
			t.Errorf("the summary lacks %q:\n%s", words, r.err)
		}
	}
}

// TestCountsRefused: what is left out of files is counted by reason, also where nothing is
// published, and no setting is blamed for it.
func TestCountsRefused(t *testing.T) {
	in := write(t, t.TempDir(), "in.csv", countsColumns+
		strings.Repeat("a,2026-10-26T06:10:00Z,0,0\n", 3)+"a,1970-01-01T00:10:00Z,51.42,-0.15\n"+
		"a,2026-10-26T06:10:00Z,x,-0.15\n")
	args := countsArgs("--in", in)
	choose := []string{
		"counts", "--in", in, "--from", "2026-10-26", "--to", "2026-10-27", "--box",
		"51.3,-0.5,51.7,0.3",
	}
	for _, args := range [][]string{args, choose} {
		said := succeed(t, args...).err
		for _, words := range []string{
			"3 refused (null_island 3)", "leave out devices that have no fix",
			"1 bad_number, 1 before_gps",
		} {
			if !strings.Contains(said, words) {
				t.Errorf("%q lacks %q:\n%s", args, words, said)
			}
		}
		if strings.Contains(said, "correct --") {
			t.Errorf("%q blames a setting:\n%s", args, said)
		}
	}
}

// TestCountsNowhere: where no fix lies in a zone, zones or columns are wrong. Nothing is published,
// and the ledger stays as it is. A day of which all fixes lie elsewhere is published.
func TestCountsNowhere(t *testing.T) {
	dir, lines := t.TempDir(), strings.Join(someFixes(), "")
	in := write(t, dir, "in.csv", countsColumns+lines)
	swapped := write(t, dir, "swapped.csv", "user_id,timestamp,longitude,latitude\n"+lines)
	key, out := filepath.Join(dir, "noise.key"), filepath.Join(dir, "out.csv")
	succeed(t, "key", "new", key)
	succeed(t, countsArgs("--in", in, "--key-file", key, "--out", out)...)
	kept, published := read(t, key+".counts"), read(t, out)
	choose := func(args ...string) []string {
		return append([]string{
			"counts", "--from", "2026-10-25", "--to", "2026-10-27", "--in", swapped,
		}, args...)
	}
	const near = "39.9,-0.2,40,-0.1"
	for _, c := range []struct {
		args  []string
		words string
	}{
		{
			countsArgs("--in", swapped, "--key-file", key, "--out", out, "--edition", "2"),
			"would if latitude and longitude changed places",
		},
		{
			typicalArgs("--in", swapped, "--key-file", key, "--out", out),
			"would if latitude and longitude changed places",
		},
		{
			append(choose("--key-file", key, "--out", out, "--epsilon", "1"), "--zone", "1km",
				"--per-day", "3", "--box", near), "no fix of 3000 lies in a zone",
		},
		{choose("--box", near), "no fix of 3000 lies in a zone"},
	} {
		requireMessage(t, call(t, c.args...), cli.ExitFailed, c.words, "(box-empty)")
		if read(t, key+".counts") != kept || read(t, out) != published {
			t.Errorf("%v: a refused run has left something behind", c.args)
		}
	}
	elsewhere := strings.ReplaceAll(lines, ",2026-10-25T1", ",2026-10-22T1")
	elsewhere = countsColumns + "b,2026-10-22T10:00:00Z,51.42,-.15\n" +
		strings.ReplaceAll(elsewhere, ",51.", ",52.")
	r := succeed(t, countsArgs("--in", write(t, dir, "elsewhere.csv", elsewhere))...)
	requireWords(t, r.err, "all fixes of these days lie outside the zones")
}

// TestCountsZones: polygons of one's own, and squares of a model's map as aggregate has them.
func TestCountsZones(t *testing.T) {
	dir := t.TempDir()
	feature := func(name string, west, east float64) string {
		return fmt.Sprintf(`{"type": "Feature", "properties": {"name": %q}, "geometry": {"type": `+
			`"Polygon", "coordinates": [[[%g, 1], [%g, 1], [%g, 70], [%[2]g, 70], [%[2]g, 1]]]}}`,
			name, west, east, east)
	}
	collection := func(features ...string) string {
		return `{"type": "FeatureCollection", "features": [` + strings.Join(features, ",") + "]}"
	}
	zones := write(t, dir, "zones.geojson", collection(feature("west, old", -1, 0),
		feature("east", 0, 1)))
	in := write(t, dir, "in.csv", countsColumns+"a,2026-10-26T06:10:00Z,51.42,-0.15\n")
	args := []string{
		"counts", "--in", in, "--from", "2026-10-26", "--to", "2026-10-27", "--epsilon", "1",
		"--per-day", "1",
	}
	out := succeed(t, append(args, "--zone", zones)...).out
	for name, want := range map[string]int{
		`,"west, old",35.5000000,-0.5`: 24, ",elsewhere,,,": 24,
	} {
		if n := strings.Count(out, name); n != want {
			t.Errorf("%q is there %d times", name, n)
		}
	}
	overlapping := write(t, dir, "overlapping.geojson", collection(feature("west", -1, .1),
		feature("east", 0, 1)))
	requireMessage(t, call(t, append(args, "--zone", overlapping)...), cli.ExitUsage,
		`"west" and "east" overlap`)

	traces, model := townFiles(t, dir)
	side := townModel(t).Grid
	args[2] = traces
	config := write(t, dir, "geodither.yml", fmt.Sprintf("model: %s\ncounts: {zone: 3km}\n", model))
	out = succeed(t, append(args, "-c", config, "--zone",
		fmt.Sprintf("%gm", 2.2*side.CellM()))...).out
	columns, rows := (side.Width()+1)/2, (side.Height()+1)/2
	if lines := strings.Count(out, "\n"); lines != 1+24*(columns*rows+1) {
		t.Errorf("%d lines for %d × %d zones", lines, columns, rows)
	}
}

func TestCountsUsage(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "in.csv", countsColumns)
	config := write(t, dir, "geodither.yml", `counts: {zone: 2, box: "0,0,1,1"}`)
	days := []string{
		"counts", "-c", config, "--in", in, "--from", "2026-10-26", "--to", "2026-10-27",
		"--epsilon", "1", "--per-day", "1",
	}
	for _, c := range []struct {
		args  []string
		words string
	}{
		{days, config + ": counts.zone: length"},
		{append(slices.Clone(days), "--box", "0,0,1,1", "--zone", "3"), "--zone: length"},
		{append(slices.Clone(days), "--box", "0,0,1,1"), config + ": counts.zone: length"},
		{slices.DeleteFunc(countsArgs("--in", in), func(word string) bool {
			return word == "--zone" || word == "2km"
		}), "--zone: set a square's side"},
		{countsArgs("--in", in, "--window", "7h"), "divide a day"},
		{countsArgs("--in", in, "--window", "6h", "--per-day", "5"), "has only 4 windows"},
		{countsArgs("--in", in, "--from", "2026-10-27"), "before the first"},
		{countsArgs("--in", in, "--days", "all"), "--days is for --typical"},
		{countsArgs("--in", in, "--from", "2026-10-25T00:00:00Z"), "no day starts then"},
		{countsArgs("--in", in, "--from", "today"), "--from"},
		{countsArgs("--in", in, "--time-zone", "Mars"), "Mars"},
		{countsArgs("--in", in, "--zone", "z.geojson"), "name a GeoJSON file that is there"},
		{
			[]string{
				"counts", "--in", in, "--from", "2026-10-26", "--to", "2026-10-27", "--epsilon",
				"1", "--per-day", "1", "--zone", "1km",
			}, "--box BOX",
		},
		{countsArgs("--in", in, "--edition", "0"), "edition 0"},
		{countsArgs("--in", in, "--out", "counts.parquet"), ".csv or .ndjson"},
		{append(countsArgs("--in", in), "--epsilon", "0"), "give --epsilon and"},
	} {
		requireMessage(t, call(t, c.args...), cli.ExitUsage, c.words)
	}
}
