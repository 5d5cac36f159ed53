package study

import "fmt"

// Gathered puts the folds' results, one for each of their traces, in the order of [Study.Traces].
func Gathered[T any](s *Study, d *Data, get func(fold int) ([]T, error)) ([]T, error) {
	all := make([]T, len(s.Traces(d)))
	for fold := range d.Folds {
		of, at := s.Fold(d, fold)
		if len(of) == 0 {
			continue
		}
		got, err := get(fold)
		if err != nil {
			return nil, err
		}
		if len(got) != len(of) {
			return nil, fmt.Errorf("experiment: %d results of %d traces", len(got), len(of))
		}
		for i, result := range got {
			all[at[i]] = result
		}
	}
	return all, nil
}

// Timestamps returns how many timestamps some traces have together.
func Timestamps(traces []Trace) (n int64) {
	for i := range traces {
		n += int64(len(traces[i].Steps))
	}
	return n
}

// tickEvery is after how many timestamps progress is told.
const tickEvery = 250

// Strides returns what is to be called with the number of each timestamp of a trace, in order. It
// tells tick of them after each stride and at the end.
func Strides(steps int, tick Tick) func(number int) error {
	told := 0
	return func(number int) error {
		n := number + 1
		if n-told < tickEvery && n < steps {
			return nil
		}
		work := int64(n - told)
		told = n
		return tick(work)
	}
}
