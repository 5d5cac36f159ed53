package private

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// privateRun prepares one run, for tests that look inside.
func privateRun(t testing.TB, tr *train.Trainer, o Options, seed uint64) *training {
	t.Helper()
	run, err := newTraining(tr, o, pcg(seed), nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func privateModel(t testing.TB, tr *train.Trainer, o Options, seed uint64) *mobility.Model {
	t.Helper()
	m, _, err := Train(tr, o, pcg(seed), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPrivateModelIgnoresOrder: with the same secret the order of fixes and the number of cores
// change nothing; another secret does.
func TestPrivateModelIgnoresOrder(t *testing.T) {
	g := plainGrid(t, 30, 20)
	fixes := wander(g, 12, 200, 4)
	for _, o := range []Options{
		{Epsilon: "0.5", Contribution: 20, Radius: 2},
		{Epsilon: "999", Contribution: 150}, // single cells are heard
	} {
		want := privateModel(t, trainer(t, g, train.Options{KeepShared: true, KernelRadius: 3},
			fixes), o, 1).ID()
		for seed := range uint64(3) {
			mixed := slices.Clone(fixes)
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(mixed), func(i, j int) {
				mixed[i], mixed[j] = mixed[j], mixed[i]
			})
			before := runtime.GOMAXPROCS(1 + int(seed))
			got := privateModel(t, trainer(t, g, train.Options{KeepShared: true, KernelRadius: 3},
				mixed), o, 1).ID()
			runtime.GOMAXPROCS(before)
			if got != want {
				t.Errorf("%+v: another order gives another model", o)
			}
		}
		if privateModel(t, trainer(t, g, train.Options{KeepShared: true, KernelRadius: 3}, fixes),
			o, 2).ID() == want {
			t.Errorf("%+v: another secret gives the same model", o)
		}
	}
}

// TestModelIDs pins models that were trained with a known secret: the same input and secret give
// the same model in every version.
func TestModelIDs(t *testing.T) {
	g := plainGrid(t, 30, 20)
	halves := mobility.Calendar{Hours: []int{0, 1}, Weekend: true}
	for want, tt := range map[string]struct {
		users  int
		o      Options
		smooth train.Options
	}{
		"1ec1a1055f182786": {
			12,
			Options{Epsilon: "0.5", Contribution: 20, Radius: 2},
			train.Options{KernelRadius: 3},
		},
		"16ed23d90a34d814": {
			112,
			Options{Epsilon: "999", Contribution: 150},
			train.Options{Calendar: halves},
		},
		"e8b56004b7b8b3e8": {
			212,
			Options{Epsilon: "40", Contribution: 50, Radius: 4},
			train.Options{Interpolate: true, MaxGap: 10 * time.Minute},
		},
	} {
		tt.smooth.KeepShared = true
		if got := privateModel(t, trainer(t, g, tt.smooth, wander(g, tt.users, 200, 4)), tt.o,
			1).ID(); got != want {
			t.Errorf("%+v %+v: model %s, want %s", tt.o, tt.smooth, got, want)
		}
	}
}

// TestPrivateModelTellsNoCounts: what the file says beside the model is a function of public
// parameters, also where there is nobody, and the entries of the matrix are the same, whichever
// user is there.
func TestPrivateModelTellsNoCounts(t *testing.T) {
	g := plainGrid(t, 30, 20)
	o := Options{Epsilon: "900", Contribution: 100}
	options := train.Options{KeepShared: true, KernelRadius: 3, Source: "a walk", Tool: "test"}
	full := privateModel(t, trainer(t, g, options, wander(g, 12, 200, 4)), o, 1)
	empty := privateModel(t, trainer(t, g, options, nil), o, 1)
	if got, want := fmt.Sprintf("%+v", full.Provenance),
		fmt.Sprintf("%+v", empty.Provenance); strings.ReplaceAll(
		got, fmt.Sprintf("%p", full.Provenance.Privacy), "") !=
		strings.ReplaceAll(want, fmt.Sprintf("%p", empty.Provenance.Privacy), "") {
		t.Errorf("provenance %s, with nobody %s", got, want)
	}
	if *full.Provenance.Privacy != (mobility.Privacy{
		Epsilon: "900", Contribution: 100,
		Radius: 3,
	}) {
		t.Errorf("privacy %+v", full.Provenance.Privacy)
	}
	if !slices.Equal(full.Matrices[0].Columns, empty.Matrices[0].Columns) ||
		!slices.Equal(full.Initial.Cells, empty.Initial.Cells) {
		t.Error("the entries of the model depend on the traces")
	}
}

// TestPrivateJumps: every row jumps as often as the others, whatever is heard of it.
func TestPrivateJumps(t *testing.T) {
	g := plainGrid(t, 60, 60)
	tr := trainer(t, g, train.Options{KeepShared: true, Jumps: .24}, roads(g, 300))
	for _, epsilon := range []string{"0.1", "900"} {
		m := privateModel(t, tr, Options{Epsilon: epsilon, Contribution: 100}, 1)
		var row mobility.Distribution
		m.Row(&row, 0, 37*60+37)
		far := 0.0
		for i, c := range row.Cells {
			if dx, dy := g.Column(c)-37, g.Row(c)-37; dx*dx+dy*dy > 25 {
				far += row.P[i]
			}
		}
		if math.Abs(far-.24*17/24) > 1e-8 {
			t.Errorf("ε %s: %v of the mass is beyond the kernel", epsilon, far)
		}
	}
}

// TestManyUsersGiveTheirModel: where the noise is small the private model is close to the one
// learned without privacy.
func TestManyUsersGiveTheirModel(t *testing.T) {
	g := plainGrid(t, 12, 10)
	tr := trainer(t, g, train.Options{KeepShared: true, KernelRadius: 2, UserCap: 1e6, Jumps: -1},
		roads(g, 200))
	want, _, err := tr.Finish()
	if err != nil {
		t.Fatal(err)
	}
	apart := func(epsilon string) (sum float64) {
		m := privateModel(t, tr, Options{Epsilon: epsilon, Contribution: 200}, 1)
		for c := range grid.Cell(g.Cells()) {
			a, b := denseRow(want, c), denseRow(m, c)
			for i := range a {
				sum += max(a[i]-b[i], b[i]-a[i]) / 2 / float64(g.Cells())
			}
		}
		return sum
	}
	near, far := apart("100"), apart("0.01")
	if near > 0.1 || far < 0.3 {
		t.Errorf("rows differ by %.3f at ε = 100 and by %.3f at 0.01", near, far)
	}
}

func denseRow(m *mobility.Model, c grid.Cell) []float64 {
	dense := make([]float64, m.Grid.Cells())
	var row mobility.Distribution
	m.Row(&row, 0, c)
	for i, to := range row.Cells {
		dense[to] = row.P[i]
	}
	return dense
}

// roads returns users who go round their own row of the map, eastwards: no kernel alone can tell
// it.
func roads(g *grid.Grid, users int) (fixes []train.Fix) {
	for u := range users {
		var seconds []int64
		var cells []grid.Cell
		for i := range 200 {
			seconds, cells = append(seconds, int64(i*60)),
				append(cells, grid.Cell(u%g.Height()*g.Width()+i/2%g.Width()))
		}
		fixes = append(fixes, fixesAt(g, fmt.Sprint("user", u), seconds, cells)...)
	}
	return fixes
}

func TestPrivacyOptionsValidate(t *testing.T) {
	for _, text := range []string{
		"0.5", "1", "4", "999.999999999", ".5", "5.", "0.000000001",
		"007",
	} {
		if err := (Options{Epsilon: text, Contribution: 1}).Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"", ".", "0", "0.0", "-1", "+1", "1e3", "1000", "0.0000000001",
		"1,5", "½", "0x1", "1.2.3", "NaN", "∞", " 1",
	} {
		if err := (Options{Epsilon: text, Contribution: 1}).Validate(); err == nil {
			t.Errorf("%q is no ε", text)
		}
	}
	for _, o := range []Options{
		{"1", 0, 5},
		{"1", -1, 5},
		{"1", 1_000_001, 5},
		{"1", 1, -1},
		{"1", 1, 126},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if num, den, err := parseEpsilon("12.5"); num != 125 || den != 10 || err != nil {
		t.Errorf("12.5 is %d/%d, %v", num, den, err)
	}
}
