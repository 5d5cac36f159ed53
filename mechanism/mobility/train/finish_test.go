package train

import (
	"reflect"
	"slices"
	"testing"

	"github.com/geodither/geodither/mechanism/mobility"
)

// TestPersonals: what the trainer hands out is each user's own, whatever the others did, and
// whatever the order of fixes.
func TestPersonals(t *testing.T) {
	g := plainGrid(t, 12, 12)
	fixes := wander(g, 4, 300, 1)
	tr := trainer(t, g, Options{}, shuffled(fixes, 2))
	users, total := []string{}, 0.0
	for name, counts := range tr.Personals(3) {
		users = append(users, name)
		alone := trainer(t, g, Options{}, slices.DeleteFunc(slices.Clone(fixes), func(f Fix) bool {
			return f.User != name
		}))
		for same, want := range alone.Personals(3) {
			if same != name || !reflect.DeepEqual(counts, want) {
				t.Errorf("%s: other counts among others", name)
			}
		}
		m, _ := finished(t, tr)
		if _, err := mobility.NewPersonal(m, counts); err != nil {
			t.Error(err)
		}
		for _, c := range counts.Transitions {
			total += c.N
		}
	}
	if want := []string{"user0", "user1", "user2", "user3"}; !slices.Equal(users, want) {
		t.Errorf("users %v", users)
	}
	if _, report := finished(t, tr); total != float64(report.Transitions) {
		t.Errorf("%v transitions of users, %d of all", total, report.Transitions)
	}
}
