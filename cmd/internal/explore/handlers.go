package explore

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// api answers requests. Nothing else decides what a side may say.
type api struct {
	truth  *Truth  // nil: there is no secret side
	public *Public // nil: there is no public side
	pasts  pasts
	fleets *publications
	log    *slog.Logger
}

// site is the page. "make page" builds its app.js.
//
//go:embed page/site
var site embed.FS

// handler answers what guard lets through.
func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	a := &api{
		truth: o.Truth, public: o.Public, log: o.Logger,
		pasts:  pasts{least: 2, most: 4},
		fleets: newPublications(o),
	}
	mux.HandleFunc("/api/about", func(w http.ResponseWriter, _ *http.Request) {
		write(w, aboutOf(o))
	})
	if o.Truth != nil {
		mux.HandleFunc("/api/map", a.mapOf(o.Truth.model))
		mux.HandleFunc("/api/users", answers(a, a.users))
		mux.HandleFunc("/api/course", under(a, a.course))
		mux.HandleFunc("/api/past", under(a, a.past))
		mux.HandleFunc("/api/step", under(a, a.step))
		mux.HandleFunc("/api/fleet", under(a, a.fleet))
		lines := o.Outline
		if lines == nil && o.Truth.sample { // not on the public side: they are true places
			lines = routesOf(o.Truth.users)
		}
		mux.HandleFunc("/api/outline", a.lines(lines, o.Truth.model.Grid))
	}
	if o.Public != nil {
		mux.HandleFunc("/api/live", answers(a, a.live))
		mux.HandleFunc("/api/live/map", a.mapOf(o.Public.model))
		mux.HandleFunc("/api/live/track", answers(a, a.liveTrack))
		mux.HandleFunc("/api/live/window", answers(a, a.liveWindow))
		mux.HandleFunc("/api/live/outline", a.lines(o.Outline, o.Public.model.Grid))
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "this page has no such answer; see /api/about")
	})
	files, err := fs.Sub(site, "page/site")
	if err != nil {
		panic(err) // the name is a constant
	}
	mux.Handle("/", http.FileServerFS(files))
	return mux
}

// About says what a page shows.
type About struct {
	Truth  bool `json:"truth"`  // it has the secret side
	Sample bool `json:"sample"` // its traces are the shipped buses
	Public bool `json:"public"` // it has the side of a sanitized topic

	Ratio    float64  `json:"ratio"`  // width of the map through its height
	StepS    float64  `json:"step_s"` // of the model, seconds
	User     string   `json:"user"`   // that is looked at first: the one that moves most
	Defaults Settings `json:"defaults"`
}

func aboutOf(o Options) About {
	g := o.maps()[0]
	about := About{
		Truth: o.Truth != nil, Public: o.Public != nil,
		Ratio: float64(g.Width()) / float64(g.Height()),
	}
	if t := o.Truth; t != nil {
		about.Sample, about.User, about.StepS = t.sample, t.moving(), t.model.Step.Seconds()
		about.Defaults = opening(o.Release, t.model.Step)
	}
	return about
}

// Map is the map of a model, and how popular its cells are.
type Map struct {
	Width      int     `json:"width"` // cells
	Height     int     `json:"height"`
	CellKM     float64 `json:"cell_km"`
	StepS      float64 `json:"step_s"`
	South      float64 `json:"south"` // of the south-west corner, degrees
	West       float64 `json:"west"`
	North      float64 `json:"north"` // of the north-east corner
	East       float64 `json:"east"`
	Popularity *Field  `json:"popularity"` // the initial distribution: the streets
	// Private says that the model was trained with differential privacy. Else the map tells about
	// the traces that it was trained on.
	Private bool `json:"private"`
}

// mapOfModel returns the map of a model, and of its popularity what a view has.
func mapOfModel(m *mobility.Model, a area) Map {
	g := m.Grid
	v := a.of(g)
	box := g.Box()
	north, east := g.ToDegrees(grid.Point{
		X: float64(g.Width()) * g.CellKM(), Y: float64(g.Height()) * g.CellKM(),
	})
	return Map{
		Width: g.Width(), Height: g.Height(), CellKM: g.CellKM(),
		StepS: m.Step.Seconds(), South: box.South, West: box.West, North: north, East: east,
		Popularity: fieldOfMass(v, &m.Initial), Private: m.Provenance.Privacy != nil,
	}
}

func (a *api) mapOf(model *mobility.Model) http.HandlerFunc {
	return answers(a, func(_ context.Context, query url.Values) (any, error) {
		shown, err := parseArea(query)
		if err != nil {
			return nil, err
		}
		return mapOfModel(model, shown), nil
	})
}

// Users are some of the users, by name.
type Users struct {
	Names []string `json:"names"` // at most maxUsers: the very name first, then by name
	Fixes []int    `json:"fixes"` // of each
}

// maxUsers is how many users an answer names.
const maxUsers = 200

func (a *api) users(_ context.Context, query url.Values) (any, error) {
	text := strings.ToLower(query.Get("q"))
	found := Users{Names: []string{}, Fixes: []int{}}
	add := func(u *User) {
		if len(found.Names) < maxUsers {
			found.Names = append(found.Names, u.Name)
			found.Fixes = append(found.Fixes, len(u.Fixes))
		}
	}
	exact, known := a.truth.byName[query.Get("q")]
	if known {
		add(&a.truth.users[exact])
	}
	for i := range a.truth.users {
		u := &a.truth.users[i]
		if (!known || i != exact) && strings.Contains(strings.ToLower(u.Name), text) {
			add(u)
		}
	}
	return found, nil
}

// count reads a whole number of a request, most at most and 0 if it is left out.
func count(query url.Values, name string, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, errOther(fmt.Sprintf("%s is no whole number from 0 to %d", name, most))
	}
	return n, nil
}

// partOf reads which part of a course or of a past a request wants: from which fix on, and within
// which time.
func partOf(query url.Values) (from int, within time.Duration, err error) {
	if from, err = count(query, "from", MaxFixes); err != nil {
		return 0, 0, err
	}
	ms, err := count(query, "within_ms", int(answerTime.Milliseconds()))
	return from, time.Duration(ms) * time.Millisecond, err
}

func (a *api) course(ctx context.Context, query url.Values, s Settings) (any, error) {
	c, err := a.truth.course(query.Get("user"), s)
	if err != nil {
		return nil, err
	}
	from, within, err := partOf(query)
	if err != nil {
		return nil, err
	}
	return c.part(ctx, from, maxRows, within)
}

// past answers with what later records tell about a user's fixes.
func (a *api) past(ctx context.Context, query url.Values, s Settings) (any, error) {
	from, within, err := partOf(query)
	if err != nil {
		return nil, err
	}
	lag, err := strconv.ParseInt(cmp.Or(query.Get("lag"), "1"), 10, 64)
	if err != nil || lag < mechanism.SmoothAll || lag == 0 {
		return nil, errOther("lag is no number of steps, at least 1, or -1 for all that follows")
	}
	p, err := pastOf{courseOf{query.Get("user"), s}, lag}.of(a.truth, &a.pasts)
	if err != nil {
		return nil, err
	}
	return p.part(ctx, from, within)
}

func (a *api) step(ctx context.Context, query url.Values, s Settings) (any, error) {
	c, err := a.truth.course(query.Get("user"), s)
	if err != nil {
		return nil, err
	}
	shown, err := parseArea(query)
	if err != nil {
		return nil, err
	}
	i, err := strconv.Atoi(query.Get("fix"))
	if err != nil || i < 0 || i >= len(c.Fixes) {
		return nil, errOther("fix is not the number of a fix of this user, from 0")
	}
	return dissect(ctx, a.truth, c, i, shown)
}

// fleet answers with where the fleet usually is, and with the maps of one slot.
func (a *api) fleet(ctx context.Context, query url.Values, s Settings) (any, error) {
	u, err := a.fleets.at(ctx, priced{s.Epsilon, s.Seed})
	if err != nil {
		return nil, err
	}
	slot, err := count(query, "slot", len(u.Slots)-1)
	if err != nil {
		return nil, err
	}
	return u.with(slot, query.Get("truth") != "0"), nil
}

func (a *api) live(_ context.Context, query url.Values) (any, error) {
	start, err := count(query, "start", math.MaxInt)
	since, also := count(query, "since", math.MaxInt)
	if err := cmp.Or(err, also); err != nil {
		return nil, err
	}
	return a.public.live(start, int64(since)), nil
}

// lines answers with the outline on a map.
func (a *api) lines(o Outline, g *grid.Grid) http.HandlerFunc {
	return answers(a, func(context.Context, url.Values) (any, error) { return o.on(g), nil })
}

func (a *api) liveTrack(_ context.Context, query url.Values) (any, error) {
	return a.public.trackOf(query.Get("user"))
}

func (a *api) liveWindow(_ context.Context, query url.Values) (any, error) {
	start, err := count(query, "start_ms", math.MaxInt)
	if err != nil {
		return nil, err
	}
	return a.public.fleet(int64(start))
}

// under makes a handler of a question about settings.
func under(
	a *api, answer func(context.Context, url.Values, Settings) (any, error),
) http.HandlerFunc {
	return answers(a, func(ctx context.Context, query url.Values) (any, error) {
		s, err := parseSettings(query)
		if err != nil {
			return nil, err
		}
		return answer(ctx, query, s)
	})
}

// answers makes a handler of a question. What is wrong with the question is told; what is wrong
// here is logged alone.
func answers(
	a *api, answer func(context.Context, url.Values) (any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := answer(r.Context(), r.URL.Query())
		if other, ok := errors.AsType[errOther](err); ok {
			refuse(w, http.StatusBadRequest, string(other))
			return
		}
		if errors.Is(err, context.DeadlineExceeded) {
			refuse(w, http.StatusServiceUnavailable, "this takes too long, and asking again does "+
				"not help: choose a user with fewer fixes, a model with fewer cells, or mechanism "+
				law.Codebook)
			return
		}
		if err != nil {
			if r.Context().Err() == nil {
				a.log.Error("an answer of the page failed", "path", r.URL.Path, "error", err)
			}
			refuse(w, http.StatusInternalServerError, "this failed; the terminal says why")
			return
		}
		write(w, value)
	}
}

// write writes JSON.
func write(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the caller may be gone
}

// refuse answers with what is wrong.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": text}) // as in write
}
