package mechanism

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

var update = flag.Bool("update", false,
	"write testdata/bits.txt again, for a new mechanismVersion or law.CodebookVersion")

const bitsHeader = "Releases and states, bit for bit, of one version of the mechanisms. A " +
	"program that turns the same facts into other bits under\n" +
	"the same version publishes two equations in one noise when a record is replayed: " +
	"a change of these lines raises\n" +
	"mechanismVersion, and writes them again with \"go test ./mechanism -run TestBits " +
	"-update\". For those of the codebook at\n" +
	"the end law.CodebookVersion does, or StateVersion if their states alone have changed.\n"

// TestBits compares releases of every mechanism under every shape of hull, and states some steps
// into a walk, with a file. The file must be of this version, and is not written again under the
// same version with other bits: lines may only be added to the end of each part.
func TestBits(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "bits.txt")
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	const general, own = "\nmechanism version ", "\ncodebook version, with that of its states "
	_, stored, _ := strings.Cut(string(text), general)
	stored, storedCodebook, _ := strings.Cut(stored, own)
	bits := fmt.Sprintf("%d\n\n", mechanismVersion) + releaseBits(t) + stateBits(t) + latticeBits(t)
	codebook := fmt.Sprintf("%d %d\n", law.CodebookVersion, StateVersion) +
		codebookBits(t)
	compareBits(t, "mechanismVersion", stored, bits)
	if firstLine(stored) == firstLine(bits) { // it is in the codebook's transcripts too
		compareBits(t, "law.CodebookVersion or StateVersion", storedCodebook, codebook)
	}
	if !*update || t.Failed() {
		return
	}
	if err := os.WriteFile(file, []byte(bitsHeader+general+bits+own+codebook), 0o600); err != nil {
		t.Fatal(err)
	}
}

// compareBits compares two parts of the file, each of which begins with its version.
func compareBits(t *testing.T, version, stored, got string) {
	t.Helper()
	same := firstLine(stored) == firstLine(got)
	switch {
	case got == stored, *update && (!same || strings.HasPrefix(got, stored)):
	case same:
		t.Errorf("the bits of %s %s have changed: undo that, or raise it and run with -update\n%s",
			version, firstLine(stored), firstDifference(stored, got))
	default:
		t.Errorf("the bits are of %s %q, the program of %q: run with -update", version,
			firstLine(stored), firstLine(got))
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want " + w[i] + "\ngot  " + g[i]
		}
	}
	return "one has more lines"
}

// releaseBits draws three releases of each mechanism from a polygon, a line and a single place,
// with the stream that a step would take.
func releaseBits(t *testing.T) string {
	t.Helper()
	g, err := grid.Plain(20, 20, 1.7)
	if err != nil {
		t.Fatal(err)
	}
	streams := noise.NewKeyed(noise.KeyFromSeed(2015))
	var b strings.Builder
	for _, shape := range []struct {
		name string
		set  []grid.Cell
	}{
		{"polygon", []grid.Cell{3, 4, 40, 71, 204, 205, 340}},
		{"line", []grid.Cell{21, 62, 103, 185}},
		{"point", []grid.Cell{77}},
	} {
		var hull law.SensitivityHull
		hull.OfCells(g, shape.set)
		for _, name := range []string{law.PIM, law.KNorm, law.Laplace, law.LaplaceTight} {
			for _, isotropy := range []string{law.IsotropyClosedForm, law.IsotropySampled} {
				m, err := law.New(law.Options{Name: name, Isotropy: isotropy})
				if err != nil {
					t.Fatal(err)
				}
				m.Prepare(&hull, .9)
				var facts transcript
				facts.begin(Options{Mechanism: name, Isotropy: isotropy, Epsilon: .9}, ID{1}, ID{2},
					60_000)
				for i := range 3 {
					cell := shape.set[i*(len(shape.set)-1)/2]
					z := m.Sample(onDay(t, streams, 1,
						facts.complete("u", int64(i), 1, shape.set, cell)), cell)
					fmt.Fprintf(&b, "%s %s %s %d: %x %x\n", shape.name, name, isotropy, cell, z.X,
						z.Y)
				}
			}
		}
	}
	return b.String()
}

// latticeBits draws releases of the lattice mechanism, from more shapes and subdivisions.
func latticeBits(t *testing.T) string {
	t.Helper()
	g, err := grid.Plain(20, 20, 1.7)
	if err != nil {
		t.Fatal(err)
	}
	streams := noise.NewKeyed(noise.KeyFromSeed(2015))
	var b strings.Builder
	b.WriteByte('\n')
	for _, shape := range []struct {
		name string
		set  []grid.Cell
	}{
		{"polygon", []grid.Cell{3, 4, 40, 71, 204, 205, 340}},
		{"thin polygon", []grid.Cell{0, 21, 42, 63, 84, 85, 106, 190}},
		{"line", []grid.Cell{21, 62, 103, 185}},
		{"point", []grid.Cell{77}},
	} {
		var hull law.SensitivityHull
		hull.OfCells(g, shape.set)
		for _, parts := range []int{1, 7, law.DefaultSubdivision} {
			o := Options{Mechanism: law.Lattice, Subdivision: parts, Epsilon: .9}.withDefaults()
			m, err := o.NewMechanism()
			if err != nil {
				t.Fatal(err)
			}
			m.Prepare(&hull, o.Epsilon)
			var facts transcript
			facts.begin(o, ID{1}, ID{2}, 60_000)
			for i := range 3 {
				cell := shape.set[i*(len(shape.set)-1)/2]
				z := m.Sample(onDay(t, streams, 1,
					facts.complete("u", int64(i), 1, shape.set, cell)), cell)
				fmt.Fprintf(&b, "%s lattice cell/%d %d: %x %x\n", shape.name, parts, cell, z.X, z.Y)
			}
		}
	}
	return b.String()
}

// stateBits encodes the state after releases, a prediction, a repeat and a gap, without padding,
// which would change the sets.
func stateBits(t *testing.T) string {
	t.Helper()
	model := denseModel(t, 6, 5)
	model.Initial = mobility.Distribution{Cells: []grid.Cell{7, 14, 22}, P: []float64{.25, .5, .25}}
	var b strings.Builder
	for _, o := range []Options{
		{Epsilon: 1.1, Delta: .05, Mechanism: law.PIM, MinCells: -1},
		{Epsilon: .7, Delta: .3, Mechanism: law.Laplace, Inference: InferencePaper, MinCells: -1},
	} {
		s := newSanitizer(t, model, o)
		var state State
		for _, in := range []Input{
			{Step: 10, Cell: 14, Release: true},
			{Step: 11, Cell: 15, Release: true},
			{Step: 12},
			{Step: 12, Cell: 29, Release: true},
			{Step: 12, Cell: 29, Release: true},
			{Step: 17, Cell: 22, Release: true},
			{Step: 18, Cell: 21, Release: true},
		} {
			in.User = "bits"
			mustStep(t, s, &state, in)
		}
		fmt.Fprintf(&b, "\nstate %s %s\n%x\n", s.options.Mechanism, s.options.Inference,
			state.AppendBinary(nil))
	}
	return b.String()
}

// codebookBits releases along a walk under the codebook mechanism and encodes the state after each
// step. The last walk begins where the prior has one code point, which is no release.
func codebookBits(t *testing.T) string {
	t.Helper()
	model := denseModel(t, 6, 5)
	model.Initial = mobility.Distribution{Cells: []grid.Cell{7, 14, 22}, P: []float64{.25, .5, .25}}
	var b strings.Builder
	sure := denseModel(t, 6, 5)
	sure.Initial = mobility.Distribution{Cells: []grid.Cell{14}, P: []float64{1}}
	for _, walk := range []struct {
		model   *mobility.Model
		epsilon float64
	}{{model, .9}, {model, 4}, {sure, 1.5}} {
		s := newSanitizer(t, walk.model, Options{Epsilon: walk.epsilon, Mechanism: law.Codebook})
		var state State
		for i, cell := range []grid.Cell{14, 15, 29, 22, 21} {
			out := mustStep(t, s, &state, Input{
				User: "bits", Step: int64(10 + i*i), Cell: cell, Release: true,
			})
			fmt.Fprintf(&b, "\ncodebook ε=%v %d %s: %x %x\n%x\n", walk.epsilon, cell, out.Kind,
				out.Release.X, out.Release.Y, state.AppendBinary(nil))
		}
	}
	return b.String()
}
