package mechanism

import (
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Released.String(): "released", Repeated.String(): "repeated",
		Predicted.String(): "predicted", Late.String(): "late", Kind(9).String(): "Kind(9)",
		Unchanged.String(): "unchanged", PosteriorKept.String(): "posterior_kept",
		StartedAnew.String(): "started_anew",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	id, err := ParseID("0123456789abcdef")
	if err != nil || id.String() != "0123456789abcdef" {
		t.Errorf("%v, %v", id, err)
	}
	for _, digits := range []string{"", "0123", "0123456789abcdeg"} {
		if _, err := ParseID(digits); err == nil {
			t.Errorf("%q is an identifier", digits)
		}
	}
}
