package experiment

import (
	"fmt"
	"slices"

	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
)

// All returns the experiments in the order of the report.
func All() []study.Experiment {
	return []study.Experiment{
		overTime, parameters, knn, adversaries, whereFleet, mechanisms, claims,
	}
}

// Choose returns the experiments of some names, in the order of All; "all" stands for all of them.
func Choose(names []string) ([]study.Experiment, error) {
	var known []string
	all := All()
	for _, e := range all {
		known = append(known, e.Name)
	}
	for _, name := range names {
		if name != "all" && !slices.Contains(known, name) {
			return nil, fmt.Errorf("experiment %q is unknown: choose of %v, or all", name, known)
		}
	}
	return slices.DeleteFunc(all, func(e study.Experiment) bool {
		return !slices.Contains(names, "all") && !slices.Contains(names, e.Name)
	}), nil
}
