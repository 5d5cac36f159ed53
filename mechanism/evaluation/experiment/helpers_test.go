package experiment

import (
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study/studytest"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

func testDefinition() study.Definition {
	return study.Definition{
		Name: "wander", Title: "Wanderers", Timestamps: 20, Least: 20, MaxGap: 2 * time.Minute,
		Folds: 3,
	}
}

func testData(tb testing.TB) *study.Data {
	tb.Helper()
	d, err := study.NewData(testDefinition(),
		studytest.Trainer(tb, studytest.Grid(tb), train.Options{}, 7, 60))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func testStudy(tb testing.TB) *study.Study {
	tb.Helper()
	s, err := study.New([]*study.Data{testData(tb)}, study.Options{
		Seed: 3, Also: study.Alsos(), TimeRuns: 3, Runs: 2, MaxUsers: 6, Epsilons: []float64{.5, 1},
		Deltas: []float64{.01, .1}, Vehicles: 20, FleetEpsilons: []float64{1},
		MechanismEpsilons: []float64{1, 4}, MechanismDeltas: []float64{.01, .3}, Tool: "test",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// walked returns what a measurement has of a point, measured here and now.
func walked(tb testing.TB, s *study.Study, w *study.Walks, at study.Point) (all study.Windows) {
	tb.Helper()
	for _, piece := range w.Pieces(s, at) {
		got, err := piece.Run(func(int64) error { return nil })
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, got.(study.Windows)...)
	}
	return all
}

// popular is a point of the popular model.
func popular(d *study.Data, v study.Variant, epsilon, delta float64) study.Point {
	return study.Point{
		Case: study.Case{Data: d, Kind: study.Popular}, Variant: v,
		Setting: study.Setting{Epsilon: epsilon, Delta: delta},
	}
}
