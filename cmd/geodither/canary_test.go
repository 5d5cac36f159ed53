package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/schemas"
)

// canaryUser drives among the crowd from one recognizable place to another.
const canaryUser = "user-canary-7731"

// canaries are the fixes of one user who goes round five cells of the crowd's town. No two
// have a coordinate in common, and none has anybody else's, or is near the middle or the
// edge of a cell, which outputs may name.
func canaries(g *grid.Grid) []schemas.Raw {
	cells := [][2]float64{{1, 1}, {3, 1}, {3, 3}, {1, 3}, {2, 2}}
	var fixes []schemas.Raw
	for minute := range 35 {
		cell, off := cells[minute/2%len(cells)], float64(minute)
		at := grid.Point{X: cell[0] + .13141592 + .0071*off, Y: cell[1] + .61828182 + .0067*off}
		lat, lon := g.ToDegrees(at.Scale(g.CellKM()))
		fixes = append(fixes, schemas.Raw{
			UserID:    canaryUser,
			Timestamp: 1_700_000_040_000 + int64(minute)*60_000 + 7_313 + int64(minute)*11,
			Latitude:  lat, Longitude: lon,
		})
	}
	return fixes
}

// canarySecrets are the forms in which a fix could be told: who, when, and where, as text
// of a metre's precision, in whole units, in kilometres on the map and as binary numbers.
func canarySecrets(fix schemas.Raw, g *grid.Grid) map[string][]byte {
	secrets := map[string][]byte{
		"user":                  []byte(fix.UserID),
		"user in hexadecimal":   []byte(hex.EncodeToString([]byte(fix.UserID))),
		"user in base64":        []byte(base64.StdEncoding.EncodeToString([]byte(fix.UserID))[:16]),
		"time as text":          []byte(strconv.FormatInt(fix.Timestamp, 10)),
		"time in binary":        binary.LittleEndian.AppendUint64(nil, uint64(fix.Timestamp)),
		"time as Avro has it":   binary.AppendVarint(nil, fix.Timestamp),
		"time of day to the ms": []byte(utcMS(fix.Timestamp)),
	}
	place := g.ToMap(fix.Latitude, fix.Longitude)
	for name, v := range map[string]float64{
		"latitude": fix.Latitude, "longitude": fix.Longitude, "kilometres east": place.X,
		"kilometres north": place.Y,
	} {
		text := strconv.FormatFloat(v, 'f', -1, 64) + "000000000"
		whole := strings.IndexByte(text, '.') + 1
		if v >= 10 { // degrees; kilometres of few digits are also distances, by chance
			secrets[name+" as text"] = []byte(text[:whole+6]) // cut: part of every longer one
			secrets[name+" rounded"] = []byte(strconv.FormatFloat(v, 'f', 6, 64))
			secrets[name+" to the metre"] = []byte(strconv.FormatFloat(v, 'f', 5, 64))
			secrets[name+" in ten-millionths"] = []byte(strconv.Itoa(int(v * 1e7)))
		}
		secrets[name+" in full"] = []byte(text[:whole+9])
		secrets[name+" as float64"] = binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
		secrets[name+" as float64, big-endian"] = binary.BigEndian.AppendUint64(
			nil, math.Float64bits(v))
		secrets[name+" as float32"] = binary.LittleEndian.AppendUint32(nil, math.Float32bits(
			float32(v)))
	}
	return secrets
}

// utcMS writes the part of a time that no other fix has.
func utcMS(ms int64) string {
	return fmt.Sprintf(":%02d.%03d", ms/1000%60, ms%1000)
}

// told names what of the canaries some bytes tell. The names do not repeat it.
func told(where string, haystack []byte, g *grid.Grid) (found []string) {
	for i, fix := range canaries(g) {
		for name, form := range canarySecrets(fix, g) {
			if holds(haystack, form) {
				found = append(found, fmt.Sprintf("%s: %s of fix %d", where, name, i))
			}
		}
	}
	return found
}

// holds finds a form in some bytes. A number in text that only ends another number, as 20.5 ends
// 120.5, is not it.
func holds(haystack, form []byte) bool {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	number := len(bytes.TrimLeft(form, "0123456789.")) == 0
	for at := 0; ; at++ {
		next := bytes.Index(haystack[at:], form)
		if next < 0 {
			return false
		}
		at += next
		if !number || !digit(form[0]) || at == 0 || !digit(haystack[at-1]) {
			return true
		}
	}
}

// requireUntold searches what a command has printed, and every file of a folder, also in
// what is packed in it.
func requireUntold(t *testing.T, g *grid.Grid, r result, dir string) {
	t.Helper()
	found := append(told("standard output", []byte(r.out), g),
		told("standard error", []byte(r.err), g)...)
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files++
		if err != nil {
			return err
		}
		by, err := toldBy(path, data, g)
		found = append(append(found, by...), told("name of "+path, []byte(path), g)...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.out)+len(r.err)+files == 0 {
		t.Error("there was nothing to search")
	}
	if len(found) > 8 {
		found = append(found[:8], fmt.Sprintf("and %d more", len(found)-8))
	}
	if len(found) > 0 {
		t.Errorf("found %q", found)
	}
}

// canaryTown is a folder with the crowd and the canary among them, good lines and bad.
func canaryTown(t *testing.T) (traces, bad string, g *grid.Grid) {
	t.Helper()
	dir := t.TempDir()
	g = canaryMap(t)
	fixes := append(canaries(g), crowd()...)
	var text strings.Builder
	text.WriteString("user_id,timestamp,latitude,longitude\n")
	for _, f := range fixes {
		fmt.Fprintf(&text, "%s,%d,%.14f,%.14f\n", f.UserID, f.Timestamp, f.Latitude, f.Longitude)
	}
	c := canaries(g)[0]
	lines := text.String() +
		// a field too many
		fmt.Sprintf("%s,%d,%.14f,%.14f,9\n", c.UserID, c.Timestamp, c.Latitude, c.Longitude) +
		fmt.Sprintf("%s,%d,%.14fN,%.14f\n", c.UserID, c.Timestamp, c.Latitude, c.Longitude) +
		fmt.Sprintf("%s,%dms,%.14f,%.14f\n", c.UserID, c.Timestamp, c.Latitude, c.Longitude) +
		fmt.Sprintf("%s,%d,%.14f,9%.14f\n", c.UserID, c.Timestamp, c.Latitude, c.Longitude)
	return write(t, dir, "traces.csv", text.String()), write(t, dir, "bad.csv", lines), g
}

// canaryMap is the map of servicetest.TownBox and servicetest.TownCell.
func canaryMap(t *testing.T) *grid.Grid {
	t.Helper()
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.03, East: 20.03}, 500)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestCanaryIsFound: every form of the canary is found where it is planted, in text and
// in files, and nothing where there is nothing.
func TestCanaryIsFound(t *testing.T) {
	g := canaryMap(t)
	clean := []byte("drift 0.0103 (0.0081 to 0.0132) of 350 steps of 10 users; box " +
		"10,20,10.03,20.03; 2023-11-14T22:34:00Z")
	if found := told("clean", clean, g); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	for i, fix := range canaries(g) {
		for name, form := range canarySecrets(fix, g) {
			if i%10 == 0 && len(
				told("planted", append(append(bytes.Clone(clean), form...), clean...), g)) == 0 {
				t.Fatalf("%s of fix %d is not found", name, i)
			}
		}
		for _, text := range []string{
			fmt.Sprintf("lat=%v", fix.Latitude), fmt.Sprintf("%.7f", fix.Longitude),
			fmt.Sprintf("%.5f", fix.Latitude), fmt.Sprint(g.ToMap(fix.Latitude, fix.Longitude)),
		} {
			if len(told("planted", []byte(text), g)) == 0 {
				t.Fatalf("a text of %d bytes tells fix %d and is not found", len(text), i)
			}
		}
	}
}

// TestCanaryTrain: what train prints and writes names no one and no place of theirs; nor does what
// it says of bad lines.
func TestCanaryTrain(t *testing.T) {
	traces, bad, g := canaryTown(t)
	for name, more := range map[string][]string{
		"plain":   nil,
		"private": {"--dp-epsilon", "1", "--smoothing", "cap=30"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, in := range []string{traces, bad} {
				r := call(t, townTraining(in, filepath.Join(dir, "model.avro"), more...)...)
				if r.code != cli.ExitDone {
					t.Fatalf("exit %d\n%s", r.code, r.err)
				}
				requireUntold(t, g, r, dir)
			}
		})
	}
}

// TestCanaryHeldOut: what model fit prints and writes of people it has held out, and of others,
// names no one and no place of theirs, in the model's file too; nor does what it says of bad lines.
func TestCanaryHeldOut(t *testing.T) {
	traces, bad, g := canaryTown(t)
	for name, more := range map[string][]string{
		"held out by name": {"--held-out", write(t, t.TempDir(), "held.txt",
			canaryUser+"\nuser-1\nuser-2\nuser-3\nuser-4\n"), "--write"},
		"held out":       {"--held-out", "0.5", "--write"},
		"held out alone": {"--held-out", write(t, t.TempDir(), "held.txt", canaryUser+"\n")},
		"refused": {
			"--held-out", write(t, t.TempDir(), "held.txt", canaryUser+"\n"), "--write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			model := filepath.Join(dir, "model.avro")
			for _, in := range []string{traces, bad} {
				succeed(t, townTraining(in, model)...)
				r := call(t, append([]string{"model", "fit", model, "--in", in, "--json"},
					more...)...)
				if fails := name == "refused"; (r.code != cli.ExitDone) != fails {
					t.Fatalf("exit %d\n%s", r.code, r.err)
				}
				requireUntold(t, g, r, dir)
			}
			if files := len(allFiles(t, dir)); name == "held out" && files != 1 {
				t.Errorf("%d files: the test searches less than it means to", files)
			}
		})
	}
}

// TestCanaryFit: the same of model fit on other people.
func TestCanaryFit(t *testing.T) {
	traces, bad, g := canaryTown(t)
	dir := t.TempDir()
	model := filepath.Join(dir, "model.avro")
	succeed(t, townTraining(traces, model)...)
	for _, in := range []string{traces, bad} {
		requireUntold(t, g, succeed(t, "model", "fit", model, "--in", in), dir)
	}
}

func allFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// TestCanaryEvaluate: the report, its tables and figures, and the pieces that they are made of,
// name no one, and tell no place nearer than the centre of its cell: not even of the one trace that
// figures over time show, which is the canary's.
func TestCanaryEvaluate(t *testing.T) {
	_, bad, g := canaryTown(t)
	dir := t.TempDir()
	// Of six users a quick look takes all.
	few := slices.DeleteFunc(strings.SplitAfter(read(t, bad), "\n"), func(l string) bool {
		return strings.HasPrefix(l, "user-") && !strings.HasPrefix(l, canaryUser) && l[6] != ',' ||
			strings.HasPrefix(l, "user-") && l[5] > '4' && l[5] <= '9'
	})
	r := succeed(t, "evaluate",
		"--data", "crowd="+write(t, t.TempDir(), "few.csv", strings.Join(few, "")),
		"--box", servicetest.TownBox, "--cell", servicetest.TownCell, "--step",
		servicetest.TownStep,
		"--timestamps", "25", "--quick", "--out", dir)
	requireUntold(t, g, r, dir)
	report := read(t, filepath.Join(dir, "report.md"))
	for _, words := range []string{
		"in 5 different cells",
		"shows one person's trace: do not pass it on to people who may not see the data",
	} {
		if !strings.Contains(report, words) {
			t.Errorf("the report does not say %q", words)
		}
	}
	// Of every figure but those over time a table has means over users.
	for _, path := range allFiles(t, filepath.Join(dir, "tables")) {
		if bytes.Contains([]byte(read(t, path)), []byte("user-")) {
			t.Errorf("%s names a user", path)
		}
	}
}

// TestCanaryAggregate: aggregate has nothing secret to tell: of a service's config it takes neither
// key nor state, and of the records' users and exact times it tells nothing, in its files or in
// what it says of bad records.
func TestCanaryAggregate(t *testing.T) {
	traces, _, g := canaryTown(t)
	dir, out := t.TempDir(), t.TempDir()
	model, sanitized := filepath.Join(dir, "model.avro"), filepath.Join(dir, "sanitized.csv")
	succeed(t, townTraining(traces, model)...)
	succeed(t, sanitizeArgs(traces, model, "--seed", "1", "--out", sanitized)...)
	if !strings.Contains(read(t, sanitized), canaryUser) {
		t.Fatal("there is no record of the canary")
	}
	t.Setenv(files.KeyVariable, "no key")
	config := write(t, dir, "geodither.yml", "model: model.avro\nkey_file: nowhere/noise.key\n"+
		"state_dir: nowhere/state\n"+
		"release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: none}\n")
	args := func(in, format string) []string {
		return []string{
			"aggregate", "-c", config, "--in", in, "--window", "10m",
			"--out", filepath.Join(out, "density."+format),
		}
	}
	for _, format := range []string{"csv", "json", "geojson"} {
		requireUntold(t, g, succeed(t, args(sanitized, format)...), out)
	}
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("the folder of the key and the state is made")
	}
	lines := strings.SplitAfter(read(t, sanitized), "\n")
	own := slices.DeleteFunc(slices.Clone(lines),
		func(l string) bool { return !strings.HasPrefix(l, canaryUser) })
	line := own[0]
	for _, broken := range []string{
		line[:len(line)/2] + "\n", strings.Replace(line, ",", ",x", 1), own[1] + line,
		strings.Replace(line, "released", "guessed", 1),
	} {
		r := call(t, args(write(t, dir, "broken.csv", lines[0]+broken), "csv")...)
		if r.code != cli.ExitFailed {
			t.Errorf("a broken record: exit %d", r.code)
		}
		requireUntold(t, g, r, out)
	}
}
