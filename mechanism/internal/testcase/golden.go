package testcase

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
)

// GoldenCase is one file of mechanism/testdata/golden; its README says what the fields mean.
type GoldenCase struct {
	Name string
	Grid *struct {
		W, H int
		Cell float64
	}
	M              int `json:"m"`
	Coords         [][2]float64
	Eps, Delta     float64
	Prior          []float64
	DeltaSetByProb []grid.Cell `json:"delta_set_by_prob"`
	DeltaSet       []grid.Cell `json:"delta_set"`
	DeltaSetSum    float64     `json:"delta_set_sum"`
	TrueCell       grid.Cell   `json:"true_cell"`
	EffectiveCell  grid.Cell   `json:"effective_cell"`
	Drift          bool
	Surrogate      []grid.Cell
	Hull, K        [][2]float64
	Dim            int
	Measure        float64
	SecondMoment   [2][2]float64  `json:"second_moment"`
	T              *[2][2]float64 `json:"T"`
	IsotropicConst *float64       `json:"isotropic_const_L2"`
	Anisotropy     *float64
	LaplaceS       float64 `json:"lm_S"`
	LaplaceTightS  float64 `json:"lm_S_tight"`
	SquaredPIM     float64 `json:"err2_pim"`
	SquaredLaplace float64 `json:"err2_lm"`
	Transitions    *struct {
		RowPtr []int64
		Col    []grid.Cell
		Val    []float64
	} `json:"M"`
	Z []GoldenRelease
}

// GoldenRelease is one release of a case.
type GoldenRelease struct {
	Kind             string
	Z                [2]float64
	OnSupport        bool `json:"pim_on_support"`
	Norm             []*float64
	PIMPaper         []float64 `json:"pim_paper"`
	PIMExact         []float64 `json:"pim_exact"`
	LaplacePaper     []float64 `json:"lm_paper"`
	LaplaceExact     []float64 `json:"lm_exact"`
	PostPIMPaper     []float64 `json:"post_pim_paper"`
	PostPIMExact     []float64 `json:"post_pim_exact"`
	PostLaplacePaper []float64 `json:"post_lm_paper"`
	PostLaplaceExact []float64 `json:"post_lm_exact"`
	NextPIMExact     []float64 `json:"next_prior_pim_exact"`
	NextPIMPaper     []float64 `json:"next_prior_pim_paper"`
}

// Golden reads the cases of a folder, or of the one that GEODITHER_GOLDEN names.
func Golden(tb testing.TB, folder string) []GoldenCase {
	tb.Helper()
	if other := os.Getenv("GEODITHER_GOLDEN"); other != "" {
		if folder = other; !filepath.IsAbs(folder) {
			tb.Fatalf("GEODITHER_GOLDEN is %q: give an absolute path, for tests run in the "+
				"folder of their package", folder)
		}
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var cases []GoldenCase
	for _, file := range files {
		if filepath.Base(file) == "index.json" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		var c GoldenCase
		if err := json.Unmarshal(raw, &c); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		tb.Fatalf("no golden case in %s", folder)
	}
	return cases
}
