package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/sanitize"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// MaxFixes is how many raw fixes a page keeps: 100 MB.
const MaxFixes = 2_000_000

// Truth is the secret side: raw fixes, and the model that they are released under. It does not
// change, except for what it keeps of earlier answers. Any number of goroutines may use it.
type Truth struct {
	model  *mobility.Model
	sample bool
	users  []User // by name
	byName map[string]int

	courses shelf[courseOf, *course]
}

// User is a user's raw fixes, in the order of the input. Fixes are exported: fmt redacts them so.
type User struct {
	Name  string
	Fixes []schemas.Raw
}

// SampleTruth is the truth about the shipped buses, under a model that is trained on them.
func SampleTruth() (*Truth, error) {
	fixes, err := fleet.Sample()
	if err != nil {
		return nil, err
	}
	model, err := fleet.SampleModel(fixes)
	if err != nil {
		return nil, err
	}
	t := newTruth(model)
	t.sample = true
	for _, fix := range fixes {
		t.add(fix)
	}
	return t.sorted(), nil
}

// ReadTruth reads traces for a model. It refuses more than MaxFixes of them.
func ReadTruth(model *mobility.Model, reader *traces.Reader) (*Truth, error) {
	t := newTruth(model)
	n := 0
	for fix, err := range reader.Fixes() {
		if err != nil {
			return nil, err
		}
		if n++; n > MaxFixes {
			return nil, fmt.Errorf("the traces have more than %d fixes", MaxFixes)
		}
		t.add(fix)
	}
	if err := reader.Skips().Nothing(int64(n)); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("the traces hold no fix")
	}
	return t.sorted(), nil
}

func newTruth(model *mobility.Model) *Truth {
	return &Truth{
		model: model, byName: map[string]int{},
		courses: shelf[courseOf, *course]{least: 2, most: keptCourses},
	}
}

func (t *Truth) add(fix schemas.Raw) {
	i, ok := t.byName[fix.UserID]
	if !ok {
		i = len(t.users)
		t.byName[fix.UserID] = i
		t.users = append(t.users, User{Name: fix.UserID})
	}
	t.users[i].Fixes = append(t.users[i].Fixes, fix)
}

// sorted sorts the users by name.
func (t *Truth) sorted() *Truth {
	slices.SortFunc(t.users, func(a, b User) int { return strings.Compare(a.Name, b.Name) })
	for i := range t.users {
		t.byName[t.users[i].Name] = i
	}
	return t
}

// moving is the user who changed the cell most often.
func (t *Truth) moving() string {
	name, most := "", -1
	for _, u := range t.users {
		moves, last := 0, grid.Cell(-1)
		for _, fix := range u.Fixes {
			if cell := t.model.Grid.Locate(fix.Latitude, fix.Longitude); cell != last {
				moves, last = moves+1, cell
			}
		}
		if moves > most {
			name, most = u.Name, moves
		}
	}
	return name
}

// run starts a course of a user who is released under settings, by the code of "sanitize" and with
// the noise of "sanitize --seed".
func (t *Truth) run(s Settings) (*sanitize.Course, error) {
	c, err := sanitize.NewCourse(sanitize.Settings{Settings: t.settings(s)})
	if err != nil { // the settings do not fit the map
		return nil, errOther(err.Error())
	}
	return c, nil
}

// settings returns those of an engine.
func (t *Truth) settings(s Settings) engine.Settings {
	return engine.Settings{
		Model: t.model, Key: noise.KeyFromSeed(s.Seed), Release: s.options(t.model.Step),
	}
}
