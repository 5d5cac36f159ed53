package engine

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// reports runs fixes of one user, at so many seconds after the sentinel's, one
// after the other, and returns what came of each. It stores a state as the task
// does: where one was given.
func reports(t *testing.T, p *Processor, seconds ...int64) (all []servicetest.Effects) {
	t.Helper()
	var state []byte
	for i, s := range seconds {
		fix := servicetest.Sentinel()
		fix.Timestamp += s * 1000
		e := servicetest.Process(t, p, servicetest.Record(t, int64(i), fix), state)
		if len(e.State) > 0 {
			state = e.State
		}
		all = append(all, e)
	}
	return all
}

// TestKinds: what each kind of outcome publishes, keeps and counts, through the
// processor. In the wanted text an upper-case letter has its state stored.
func TestKinds(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	for _, c := range []struct {
		name    string
		release func(o *mechanism.Options)
		seconds []int64
		want    string // r released, = repeated, p predicted, l late; - nothing at all
		tally   Tally
	}{
		{
			"as it is", func(*mechanism.Options) {},
			[]int64{0, 10, 60, 30},
			"R=Rl",
			Tally{
				RecordsIn: 4, RecordsOut: 3, DeadLetters: 1, Releases: 2, Repeats: 1, Late: 1,
				Epsilon: 2,
			},
		},
		{
			"predicted between", func(o *mechanism.Options) { o.ReleaseInterval = 3 },
			[]int64{0, 60, 70, 120, 180},
			"RPpPR",
			Tally{RecordsIn: 5, RecordsOut: 5, Releases: 2, Predictions: 3, Epsilon: 2},
		},
		{
			"nothing between",
			func(o *mechanism.Options) { o.ReleaseInterval, o.Between = 3, mechanism.BetweenSkip },
			[]int64{0, 60, 70, 180},
			"R+-R",
			Tally{RecordsIn: 4, RecordsOut: 2, Releases: 2, Skipped: 2, Epsilon: 2},
		},
		{
			"budget, suppress", func(o *mechanism.Options) {
				o.Budget.Lifetime, o.Budget.Spent = 1, mechanism.SpentSuppress
			},
			[]int64{0, 10, 60, 70},
			"R=+-",
			Tally{
				RecordsIn: 4, RecordsOut: 2, Releases: 1, Repeats: 1, Suppressed: 2, Exhausted: 2,
				Epsilon: 1,
			},
		},
		{
			"budget, repeat", func(o *mechanism.Options) {
				o.Budget.Lifetime, o.Budget.Spent = 1, mechanism.SpentRepeat
			},
			[]int64{0, 60, 70},
			"RE=",
			Tally{RecordsIn: 3, RecordsOut: 3, Releases: 1, Repeats: 2, Exhausted: 2, Epsilon: 1},
		},
		{
			"budget, predict", func(o *mechanism.Options) {
				o.Budget.Lifetime, o.Budget.Spent = 1, mechanism.SpentPredict
			},
			[]int64{0, 60},
			"RP",
			Tally{
				RecordsIn: 2, RecordsOut: 2, Releases: 1, Predictions: 1, Exhausted: 1, Epsilon: 1,
			},
		},
		{
			"a window's budget comes back",
			func(o *mechanism.Options) {
				o.Budget = mechanism.Budget{
					Epsilon: 1, WindowSteps: 2, Spent: mechanism.SpentSuppress,
				}
			},
			[]int64{0, 60, 120, 180},
			"R++R",
			Tally{
				RecordsIn: 4, RecordsOut: 2, Releases: 2, Suppressed: 2, Exhausted: 2, Epsilon: 2,
			},
		},
	} {
		each(t, c.name, func(t *testing.T, mechanism string) {
			t.Helper()
			o := testSettings(t, model)
			o.Release.Mechanism = mechanism
			c.release(&o.Release)
			p := newTestProcessor(t, o, 0)
			var got strings.Builder
			for _, e := range reports(t, p, c.seconds...) {
				got.WriteString(letterOf(t, e, o))
			}
			if got.String() != c.want {
				t.Errorf("got %s, want %s", &got, c.want)
			}
			s, _ := p.Take()
			booked := s
			booked.SetCells, booked.Drifts, booked.Sets = 0, 0, SetSizes{}
			// they have tests of their own
			booked.Lateness, booked.Refusals = Lateness{}, Refusals{}
			if booked != c.tally {
				t.Errorf("tally %+v, want %+v", booked, c.tally)
			}
			if s.RecordsIn != s.RecordsOut+s.Silent()+s.DeadLetters ||
				s.RecordsOut != s.Releases+s.Repeats+s.Predictions || s.Epsilon != c.tally.Epsilon {
				t.Errorf("%+v does not add up", s)
			}
		})
	}
}

// each runs a test under both mechanisms with a proof.
func each(t *testing.T, name string, test func(t *testing.T, mechanism string)) {
	t.Helper()
	for _, mechanism := range []string{law.Lattice, law.Codebook} {
		t.Run(mechanism+" "+name, func(t *testing.T) { test(t, mechanism) })
	}
}

// TestRecordsFollowFromReleases: two users report at the same times from other places. Where chance
// gives them the same releases, everything else is the same too, byte for byte: records with their
// keys and times, dead letters, states, and counters without that of drift.
func TestRecordsFollowFromReleases(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	g := model.Grid
	// Of each user some fixes are of the same step, and four are late.
	seconds := []int64{0, 10, 60, 30, 20, 40, 50, 120, 180}
	places := [2][]grid.Cell{{0, 1, 1, 4, 5, 2, 0, 0, 4}, {9, 8, 14, 15, 3, 12, 7, 9, 10}}
	for name, change := range map[string]func(o *Settings){
		"as it is": func(*Settings) {},
		"pseudonyms and steps": func(o *Settings) {
			o.Publish = Publish{User: UserPseudonym, Timestamp: TimestampStep}
		},
		"between": func(o *Settings) {
			o.Release.ReleaseInterval, o.Release.Between = 2, mechanism.BetweenPredict
		},
		"budget": func(o *Settings) {
			o.Release.Budget = mechanism.Budget{Lifetime: 2, Spent: mechanism.SpentRepeat}
		},
	} {
		o := testSettings(t, model)
		o.Release.Mechanism = law.Codebook
		change(&o)
		all, of, compared := map[string]string{}, map[string]int{}, 0
		for seed := range uint64(80) {
			p, err := NewAudited(o, noise.NewKeyed(noise.KeyFromSeed(seed)))
			servicetest.OK(t, err)
			who := int(seed % 2)
			var state []byte
			releases, rest := "", ""
			for i, second := range seconds {
				fix := servicetest.Sentinel()
				fix.Timestamp += second * 1000
				fix.Latitude, fix.Longitude = g.ToDegrees(g.Centre(places[who][i]))
				e := servicetest.Process(t, p, servicetest.Record(t, int64(i), fix), state)
				if len(e.Output) > 0 {
					s := e.Sanitized(t, schemas.Avro)
					releases += fmt.Sprint(s.Kind, s.ReleaseLatitude, s.ReleaseLongitude, " ")
				}
				if rest += fmt.Sprintf("%+v", e); len(e.State) > 0 {
					state = e.State
				}
			}
			tally, _ := p.Take()
			tally.Drifts = 0 // of the trusted side
			rest += fmt.Sprintf("%+v", tally)
			if all[releases] == "" {
				all[releases], of[releases] = rest, who
			}
			if rest != all[releases] {
				t.Fatalf("%s: something of two places is published beside the releases", name)
			}
			if who != of[releases] {
				compared++
			}
		}
		if compared < 20 {
			t.Errorf("%s: two users had the same releases %d times", name, compared)
		}
	}
}

// TestOtherIDs: users whose ids look much the same have noise, pseudonyms and names of erased users
// of their own. From one place and one state equal noise would publish equal places.
func TestOtherIDs(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	long := strings.Repeat("vehicle-", 16)
	ids := []string{
		"car-1", "Car-1", "CAR-1", "car-1 ", " car-1", "car-01", "car_1", "car1", "cár-1",
		"ca\u0301r-1",
		"ｃar-1", "1", "01", "1.0", "1e0", "+1", long + "1", long + "2", "1" + long, "2" + long,
	}
	each(t, "ids", func(t *testing.T, mechanism string) {
		t.Helper()
		o := testSettings(t, model)
		o.Release.Mechanism = mechanism
		seen := map[string]string{}
		for _, user := range ids {
			p := newTestProcessor(t, o, 0)
			var state []byte
			published := ""
			for step := range int64(40) {
				fix := servicetest.Sentinel()
				fix.UserID, fix.Timestamp = user, fix.Timestamp+step*60_000
				e := servicetest.Process(t, p, servicetest.Record(t, step, fix), state)
				s := e.Sanitized(t, schemas.Avro)
				published += fmt.Sprint(s.ReleaseLatitude, s.ReleaseLongitude)
				state = e.State
			}
			if other, ok := seen[published]; ok {
				t.Errorf("%q and %q share their noise", user, other)
			}
			seen[published] = user
		}
	})
	names, eraser := map[string]string{}, NewEraser(servicetest.Key)
	for _, user := range ids {
		for _, name := range []string{
			Pseudonym(servicetest.Key, user), string(eraser.Kept([]byte(user))),
		} {
			if other, ok := names[name]; ok {
				t.Errorf("%q and %q have one name", user, other)
			}
			names[name] = user
		}
	}
}

// TestHoursOpen: of fixes around every border of the hours, on days of clock changes too, those are
// released whose step starts within the hours by a clock on the wall, and no others.
func TestHoursOpen(t *testing.T) {
	t.Parallel()
	model := servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)
	zone, err := hours.Zone("Europe/London")
	servicetest.OK(t, err)
	each(t, "hours", func(t *testing.T, mechanism string) {
		t.Helper()
		o := testSettings(t, model)
		o.Release.Mechanism = mechanism
		o.Release.Hours = []hours.Span{{Days: 0x7f, From: 6 * 60, To: 18 * 60, Zone: zone.String()}}
		p := newTestProcessor(t, o, 0)
		var state []byte
		released := map[bool]int{}
		for _, day := range []int{28, 29} { // of March 2026: summer time begins on the 29th
			for _, hour := range []int{6, 18} {
				border := time.Date(2026, 3, day, hour, 0, 0, 0, zone)
				for second := -180; second <= 180; second += 20 {
					fix := servicetest.Sentinel()
					at := border.Add(time.Duration(second)*time.Second - time.Millisecond)
					fix.Timestamp = at.UnixMilli()
					e := servicetest.Process(t, p, servicetest.Record(t, at.Unix(), fix), state)
					if len(e.State) > 0 {
						state = e.State
					}
					start := at.Truncate(model.Step).In(zone).Hour()
					open := start >= 6 && start < 18
					if got := e.Sanitized(t, schemas.Avro); open !=
						(got.Kind != schemas.KindPredicted) || !open && got.Epsilon > 0 {
						t.Errorf("at %v: %s, ε = %g", at, got.Kind, got.Epsilon)
					}
					released[open]++
				}
			}
		}
		if released[true] < 30 || released[false] < 30 {
			t.Errorf("%v", released)
		}
	})
}

// letterOf is the letter of TestKinds for what came of one record; + is a state
// without a record.
func letterOf(t *testing.T, e servicetest.Effects, o Settings) string {
	t.Helper()
	letter := "-"
	switch {
	case len(e.Dead) > 0:
		if l := e.Letter(t, schemas.Avro); l.Reason != schemas.ReasonLate {
			t.Errorf("dead letter %s", l.Reason)
		}
		return "l"
	case len(e.Output) > 0:
		s := e.Sanitized(t, schemas.Avro)
		letter = map[string]string{
			schemas.KindReleased: "r", schemas.KindRepeated: "=", schemas.KindPredicted: "p",
		}[s.Kind]
		if want := map[bool]float64{
			true: o.Release.Epsilon,
		}[s.Kind == schemas.KindReleased]; s.Epsilon != want {
			t.Errorf("a %s record costs %v", s.Kind, s.Epsilon)
		}
		if s.ReleaseLatitude.Known == (s.Kind == schemas.KindPredicted) {
			t.Errorf("a %s record has a release, or has none: %+v", s.Kind, s)
		}
	}
	if len(e.State) == 0 {
		return letter
	}
	if letter == "=" { // the posterior has moved on
		return "E"
	}
	return map[string]string{"r": "R", "p": "P", "-": "+"}[letter]
}

// TestOmitRelease: the release is left out, and nothing else changes.
func TestOmitRelease(t *testing.T) { each(t, "omitted", testOmitRelease) }

func testOmitRelease(t *testing.T, mechanism string) {
	t.Helper()
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Release.Mechanism = mechanism
	plain := reports(t, newTestProcessor(t, o, 0), 0, 60, 70)
	o.Publish.OmitRelease = true
	omitted := reports(t, newTestProcessor(t, o, 0), 0, 60, 70)
	for i := range omitted {
		want, got := plain[i].Sanitized(t, schemas.Avro), omitted[i].Sanitized(t, schemas.Avro)
		if !want.ReleaseLatitude.Known || !want.ReleaseLongitude.Known {
			t.Errorf("by default a %s record has no release", want.Kind)
		}
		want.ReleaseLatitude, want.ReleaseLongitude = schemas.Nullable{}, schemas.Nullable{}
		if got != want || !bytes.Equal(omitted[i].State, plain[i].State) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// TestStepTimestamps: neither the record nor its Kafka timestamp is exact, and a
// record without a Kafka timestamp keeps none.
func TestStepTimestamps(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	o.Publish.Timestamp, o.MaxAhead = TimestampStep, AnyAhead
	p := newTestProcessor(t, o, 0)
	rec := servicetest.Record(t, 0, servicetest.Sentinel())
	rec.Timestamp += 777
	got := servicetest.Process(t, p, rec, nil)
	if s := got.Sanitized(t, schemas.Avro); s.Timestamp != servicetest.StartMS ||
		s.Timestamp != s.Step*60_000 || got.Output[0].Timestamp != servicetest.StartMS {
		t.Errorf("timestamps %d and %d, want %d",
			s.Timestamp, got.Output[0].Timestamp, servicetest.StartMS)
	}
	rec.Timestamp = -1
	if got := servicetest.Process(t, p, rec, nil); got.Output[0].Timestamp != -1 {
		t.Errorf("a record without a timestamp got %d", got.Output[0].Timestamp)
	}
}

// TestPseudonym: it names the record and its key, and changes no place; it is the
// HMAC that the documentation says, and tells two users and two keys apart.
func TestPseudonym(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	plain := reports(t, newTestProcessor(t, o, 0), 0, 60)
	o.Publish.User = UserPseudonym
	hidden := reports(t, newTestProcessor(t, o, 0), 0, 60)
	user := servicetest.Sentinel().UserID
	want := Pseudonym(o.Key, user)
	for i := range hidden {
		s := hidden[i].Sanitized(t, schemas.Avro)
		if s.UserID != want || string(hidden[i].Output[0].Key) != want {
			t.Errorf("user %q, key %q, want %q", s.UserID, hidden[i].Output[0].Key, want)
		}
		s.UserID = user
		if s != plain[i].Sanitized(t, schemas.Avro) ||
			!bytes.Equal(hidden[i].State, plain[i].State) {
			t.Error("the pseudonym changes something else")
		}
	}
	mac := hmac.New(sha256.New, servicetest.Subkey(t, o.Key, "geodither 1: pseudonyms"))
	mac.Write([]byte("geodither pseudonym 1\x00" + user))
	if byHand := hex.EncodeToString(mac.Sum(nil)[:16]); byHand != want {
		t.Errorf("%s, by hand %s", want, byHand)
	}
	all := []string{
		want, Pseudonym(o.Key, user+"x"), Pseudonym(noise.KeyFromSeed(2), user),
		Pseudonym(o.Key, ""),
	}
	for i, p := range all {
		if slices.Contains(all[:i], p) || len(p) != 32 || strings.Contains(p, user) {
			t.Errorf("pseudonyms %q", all)
		}
	}
}

// TestPublishRefuses what is unknown, through the options of a service.
func TestPublishRefuses(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	o.Publish = Publish{Timestamp: "hour", User: "nobody"}
	err := o.Validate()
	if err == nil || !strings.Contains(err.Error(), `timestamp "hour"`) ||
		!strings.Contains(err.Error(), `user "nobody"`) {
		t.Errorf("got %v", err)
	}
	if _, err := New(o); err == nil {
		t.Error("an engine takes them")
	}
}
