package experiment

import (
	"fmt"
	"slices"
)

// All returns the experiments in the order of the report.
func All() []Experiment {
	return []Experiment{overTime, parameters, knn, adversaries, mechanisms}
}

// Names are those of all experiments.
func Names() (names []string) {
	for _, e := range All() {
		names = append(names, e.Name)
	}
	return names
}

// Choose returns the experiments of some names, in the order of All; "all" stands for all of them.
func Choose(names []string) ([]Experiment, error) {
	for _, name := range names {
		if name != "all" && !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("experiment %q is unknown: choose of %v, or all", name, Names())
		}
	}
	return slices.DeleteFunc(All(), func(e Experiment) bool {
		return !slices.Contains(names, "all") && !slices.Contains(names, e.Name)
	}), nil
}
