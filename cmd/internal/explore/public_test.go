package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// publishedRecords returns the sample's records in order of time, as a service would publish them.
func publishedRecords(t *testing.T, truth *Truth, s Settings) []schemas.Sanitized {
	t.Helper()
	var all []schemas.Sanitized
	for _, u := range truth.users {
		run, err := truth.run(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, fix := range u.Fixes {
			step, err := run.Next(fix)
			if err != nil {
				t.Fatal(err)
			}
			if step.Refused == "" && step.Outcome.Kind.Published() {
				all = append(all, step.Record)
			}
		}
	}
	// Stable, so that a user's records stay in their order.
	slices.SortStableFunc(all, func(a, b schemas.Sanitized) int {
		return cmp.Compare(a.Timestamp, b.Timestamp)
	})
	return all
}

// publicOf returns a public side that reads some records, and then waits for the context's end.
func publicOf(t *testing.T, truth *Truth, s Settings, source Source) *Public {
	t.Helper()
	p, err := NewPublic(PublicOptions{
		Topic: "out", Source: source, Window: 15 * time.Minute,
		Known: follow.Public{
			Models: follow.Models{truth.model}, Release: s.options(truth.model.Step),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return p
}

// until waits until the page says something.
func until(t *testing.T, p *Public, holds func(Live) bool) Live {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if l := p.live(0, 0); holds(l) {
			return l
		} else if time.Now().After(deadline) {
			t.Fatalf("the page stays at %d records, %q, %q", l.Records, l.Trouble, l.NoFleet)
		}
	}
}

// TestPublic follows the sample's records: the page has the last record of each vehicle, its way,
// and windows of the fleet whose vehicles add up.
func TestPublic(t *testing.T) {
	truth, s := sampleTruth(t), DefaultSettings()
	s.Delta = 0
	all := publishedRecords(t, truth, s)
	tries := 0
	p := publicOf(t, truth, s, func(ctx context.Context, each func(schemas.Sanitized) error) error {
		if tries++; tries == 1 { // the first reading breaks off
			return errors.Join(each(all[0]), errors.New("the broker is gone"))
		}
		for _, r := range all {
			if err := each(r); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	})
	until(t, p, func(l Live) bool { return strings.Contains(l.Trouble, "the broker is gone") })
	l := until(t, p, func(l Live) bool { return l.Records == int64(len(all)) && l.Trouble == "" })
	if l.Users != 8 || len(l.Vehicles.User) != 8 || l.More != 0 || l.NoFleet != "" ||
		l.Seeded != l.Records || len(l.Windows) < 3 {
		t.Fatalf("the page says %+v", l)
	}
	g := truth.model.Grid
	for i, user := range l.Vehicles.User {
		var last schemas.Sanitized
		n := 0
		for _, r := range all {
			if r.UserID == user {
				last = r
				n++
			}
		}
		at := g.ToMap(last.Latitude, last.Longitude)
		if l.Vehicles.EstimateX[i] != at.X || l.Vehicles.EstimateY[i] != at.Y ||
			l.Vehicles.TimeMS[i] != last.Timestamp || l.Vehicles.RadiusKM[i] != last.RadiusM/1000 {
			t.Errorf("%s: the page does not have the last record", user)
		}
		way, err := p.trackOf(user)
		if err != nil || len(way.User) != min(n, trackLength) {
			t.Errorf("%s: %v, %d records of %d", user, err, len(way.User), n)
		}
	}
	for _, w := range l.Windows {
		f, err := p.fleet(w.StartMS)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.
		for _, x := range values(t, f.Posterior) {
			sum += x
		}
		if w.Vehicles == 0 || math.Abs(sum-float64(w.Vehicles)) > .01*float64(w.Vehicles) {
			t.Errorf("%d vehicles, but the zones hold %g", w.Vehicles, sum)
		}
	}
	checkPublicAPI(t, p, l)
}

// checkPublicAPI asks a page that has the public side alone.
func checkPublicAPI(t *testing.T, p *Public, l Live) {
	t.Helper()
	h := handler(Options{Public: p, Logger: quiet()})
	var about About
	var again Live
	var m Map
	ask(t, h, "/api/about", &about)
	ask(t, h, "/api/live", &again)
	ask(t, h, "/api/live/map", &m)
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	private, err := fleet.SampleModel(fixes)
	if err != nil {
		t.Fatal(err)
	}
	private.Provenance.Privacy = new(mobility.Privacy)
	if m.Private || !mapOfModel(private, nil).Private {
		t.Error("the map does not say whether the model was trained with differential privacy")
	}
	if about.Truth || !about.Public || again.Records != l.Records ||
		m.CellKM != .25 {
		t.Errorf("the page says %+v, %d records, cells of %g km", about, again.Records, m.CellKM)
	}
	for target, want := range map[string]int{
		"/api/live/track?user=" + bus: 200, "/api/live/track?user=nobody": 400,
		"/api/live/window?start_ms=" + fmt.Sprint(l.Windows[0].StartMS): 200,
		"/api/live/window?start_ms=1":                                   400,
		"/api/live/window":                                              400,
		// The other side is not there.
		"/api/map": 404, "/api/users": 404, "/api/course?user=" + bus: 404,
		"/api/step?user=" + bus + "&fix=1": 404,
		"/api/fleet":                       404,
		"/api/fleet?slot=8":                404,
	} {
		if status, body := ask(t, h, target, nil); status != want {
			t.Errorf("%s: %d, want %d: %.100s", target, status, want, body)
		}
	}
	if status, _ := ask(t, sampleHandler(t), "/api/live", nil); status != http.StatusNotFound {
		t.Errorf("a page without a topic answers about it: %d", status)
	}
}

// TestPublicMemory: what is kept of the records of as many vehicles as there may be takes no more
// than API.md says, though each record comes with strings of its own.
func TestPublicMemory(t *testing.T) {
	const most = 70e6
	truth, s := sampleTruth(t), DefaultSettings()
	s.Delta = 0
	p, err := NewPublic(PublicOptions{Known: follow.Public{
		Models: follow.Models{truth.model}, Release: s.options(truth.model.Step),
	}})
	if err != nil {
		t.Fatal(err)
	}
	record := publishedRecords(t, truth, s)[0]
	used := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := used()
	for i := range maxVehicles {
		for range trackLength + 1 {
			r := record
			r.UserID = fmt.Sprintf("a vehicle whose name is no short one: %d", i)
			r.Kind, r.ModelID = strings.Clone(r.Kind), strings.Clone(r.ModelID)
			r.Mechanism = strings.Clone(r.Mechanism)
			p.take(r)
		}
	}
	if took := used() - before; took > most {
		t.Errorf("%d records of %d vehicles take %.0f MB, more than the %.0f that are promised",
			maxVehicles*trackLength, maxVehicles, took/1e6, most/1e6)
	} else {
		t.Logf("%.1f MB", took/1e6)
	}
	runtime.KeepAlive(p)
}

// TestLiveWithoutLock: while an answer is made, the reader of the topic does not wait.
func TestLiveWithoutLock(t *testing.T) {
	truth, s := sampleTruth(t), DefaultSettings()
	s.Delta = 0
	p := publicOf(t, truth, s, func(ctx context.Context, _ func(schemas.Sanitized) error) error {
		<-ctx.Done()
		return nil
	})
	r := publishedRecords(t, truth, s)[0]
	for _, user := range []string{"b", "c", "a"} {
		r.UserID = user
		p.take(r)
	}
	l, last := p.copied(0, 0)
	if l.Users != 3 || len(last) != 3 || len(l.Vehicles.User) != 0 {
		t.Errorf("%d users and %d records are copied, %d added", l.Users, len(last),
			len(l.Vehicles.User))
	}
	if _, some := p.copied(l.Start, 2); len(some) != 1 || some[0].user != "a" {
		t.Errorf("since the second record there are %d others", len(some))
	}
	if _, all := p.copied(l.Start+1, 2); len(all) != 3 {
		t.Errorf("after another start %d users are told", len(all))
	}
	p.mu.Lock() // what follows needs no lock, or this test hangs
	l = l.with(last)
	p.mu.Unlock()
	if !slices.Equal(l.Vehicles.User, []string{"a", "b", "c"}) {
		t.Errorf("the vehicles are %v", l.Vehicles.User)
	}
}

// TestPublicBounds: what is kept of a topic is bounded, and what cannot be estimated is said.
func TestPublicBounds(t *testing.T) {
	truth, s := sampleTruth(t), DefaultSettings()
	s.Delta = 0
	all := publishedRecords(t, truth, s)
	stop := func(ctx context.Context, _ func(schemas.Sanitized) error) error {
		<-ctx.Done()
		return nil
	}
	p := publicOf(t, truth, s, stop)
	r := all[0]
	for i := range maxVehicles + 5 {
		r.UserID = fmt.Sprint("user ", i)
		p.take(r)
	}
	for range trackLength + 5 {
		p.take(all[0])
	}
	r.UserID = "user 1"
	for range trackLength + 5 {
		p.take(r)
	}
	l := p.live(0, 0)
	if l.Users != maxVehicles || l.More != 5+trackLength+5 {
		t.Errorf("%d users are kept, %d records are not", l.Users, l.More)
	}
	if way, err := p.trackOf("user 1"); err != nil || len(way.User) != trackLength {
		t.Errorf("%v: %d records of one user are kept", err, len(way.User))
	}

	bare := all[0]
	bare.ReleaseLatitude, bare.ReleaseLongitude = schemas.Nullable{}, schemas.Nullable{}
	blinded := publicOf(t, truth, s,
		func(ctx context.Context, each func(schemas.Sanitized) error) error {
			return errors.Join(each(bare), each(all[1]), stop(ctx, each))
		})
	l = until(t, blinded, func(l Live) bool { return l.Records == 2 })
	if !strings.Contains(l.NoFleet, "release") || l.Trouble != "" {
		t.Errorf("records without releases: %q, %q", l.NoFleet, l.Trouble)
	}
	if _, err := NewPublic(PublicOptions{}); err == nil {
		t.Error("a public side without a model is made")
	}
}
