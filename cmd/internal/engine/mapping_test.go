package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// mappingOf makes a mapping.
func mappingOf(tb testing.TB, o mapping.Options) *mapping.Mapping {
	tb.Helper()
	m, err := mapping.New(o)
	servicetest.OK(tb, err)
	return m
}

// mappedSettings are those of the tests with a mapping.
func mappedSettings(tb testing.TB, o mapping.Options) Settings {
	tb.Helper()
	s := testSettings(tb, servicetest.NeighbourModel(tb, servicetest.Town, 1000, 4))
	s.Input.Mapping = mappingOf(tb, o)
	return s
}

// traccar is a message of Traccar's forwarder.
func traccar(fix schemas.Raw, valid bool) []byte {
	at := time.UnixMilli(fix.Timestamp).UTC().Format("2006-01-02T15:04:05.000-07:00")
	return fmt.Appendf(nil, `{"position":{"valid":%t,"outdated":false,"fixTime":%q,"latitude":%v,`+
		`"longitude":%v,"accuracy":0.0},"device":{"uniqueId":"868"}}`, valid, at, fix.Latitude,
		fix.Longitude)
}

// walk are fixes of one user, a minute apart.
func walk(n int) (fixes []schemas.Raw) {
	for i := range n {
		fix := servicetest.Sentinel()
		fix.Timestamp += int64(i) * 60_000
		fix.Latitude += float64(i) * .003
		fixes = append(fixes, fix)
	}
	return fixes
}

// TestMappedRecords: a record of another form gives what the same fix in raw.avsc gives, byte for
// byte, and what a rule skips gives nothing and counts.
func TestMappedRecords(t *testing.T) {
	s := mappedSettings(t, mapping.Options{Preset: mapping.Traccar})
	plain := s
	plain.Input.Mapping = nil
	if a, b := s.Input.Encoding(schemas.Avro), plain.Input.Encoding(schemas.Avro); a != "traccar" ||
		b != "avro" {
		t.Errorf("raw records are said to be %q, and without a preset %q", a, b)
	}
	p, q := newTestProcessor(t, s, 0), newTestProcessor(t, plain, 0)
	var state, want []byte
	for i, fix := range walk(3) {
		rec := servicetest.Record(t, int64(i), fix)
		expected := servicetest.Process(t, q, rec, want)
		rec.Value = traccar(fix, true)
		got := servicetest.Process(t, p, rec, state)
		servicetest.RequireEqual(t, "the mapped record", expected, got)
		state, want = got.State, expected.State

		rec.Value = traccar(fix, false)
		if got := servicetest.Process(t, p, rec, state); len(got.Output)+len(got.Dead)+
			len(got.State) > 0 {
			t.Error("something comes of a record that a rule skips")
		}
	}
	rec := servicetest.Record(t, 9, servicetest.Sentinel())
	rec.Value = []byte(`{"position":{"valid":true,"latitude":"53.4"}}`)
	letter := servicetest.Process(t, p, rec, state).Letter(t, schemas.Avro)
	if letter.Reason != "missing_field: timestamp" || letter.Offset != 9 {
		t.Errorf("the dead letter says %q of offset %d", letter.Reason, letter.Offset)
	}
	tally := p.Tally()
	rule := slices.Index(s.Input.Rules(), "position.valid is true")
	if tally.RecordsSkipped != 3 || rule < 0 || tally.SkippedByRule[rule] != 3 ||
		tally.RecordsIn != 7 ||
		tally.Fixes() != 4 || tally.Silent() != 3 {
		t.Errorf("the tally is %+v", *tally)
	}
}

// telemetry is an MDS record of several fixes.
func telemetry(fixes ...schemas.Raw) []byte {
	var parts []string
	for _, fix := range fixes {
		parts = append(parts, fmt.Sprintf(
			`{"device_id":%q,"timestamp":%d,"location":{"lat":%v,"lng":%v}}`, fix.UserID,
			fix.Timestamp, fix.Latitude, fix.Longitude))
	}
	return []byte("[" + strings.Join(parts, ",") + "]")
}

// TestSeveralFixes: a record of several fixes gives what they give one by one, in their order, and
// a fix that is refused takes none of the others with it.
func TestSeveralFixes(t *testing.T) {
	s := mappedSettings(t, mapping.Options{Preset: mapping.MDS})
	fixes := walk(5)
	fixes[2].Latitude = 91
	fixes[3].Timestamp = fixes[0].Timestamp - 120_000 // late
	p, q := newTestProcessor(t, s, 0), newTestProcessor(t, s, 0)
	rec := servicetest.Record(t, 7, fixes[4])
	rec.Value = telemetry(fixes...)
	got := servicetest.Process(t, p, rec, nil)

	var want servicetest.Effects
	for _, fix := range fixes {
		rec.Value = telemetry(fix)
		one := servicetest.Process(t, q, rec, want.State)
		want.Output = append(want.Output, one.Output...)
		want.Dead = append(want.Dead, one.Dead...)
		if len(one.State) > 0 {
			want.State = one.State
		}
	}
	servicetest.RequireEqual(t, "the batch", want, got)
	if len(got.Output) != 3 || len(got.Dead) != 2 || len(got.State) == 0 {
		t.Errorf("%d records, %d dead letters", len(got.Output), len(got.Dead))
	}
	if tally := p.Tally(); tally.RecordsIn != 1 || tally.Fixes() != 5 || tally.Late != 1 {
		t.Errorf("the tally is %+v", *tally)
	}
	again := servicetest.Process(t, p, task.Record{
		Offset: 7, Timestamp: rec.Timestamp, Key: rec.Key, Value: telemetry(fixes...),
	}, nil)
	servicetest.RequireEqual(t, "the batch once more", want, again)

	var fx task.Effects
	rec.Value = telemetry(fixes...)
	servicetest.OK(t, newTestProcessor(t, s, 0).Process(rec, nil, &fx))
	for i, want := range []string{"3", "4"} {
		headers := fx.DeadLetters[i].Headers
		if last := headers[len(headers)-1]; last.Name != "geodither.errors.fix" ||
			last.Value != want {
			t.Errorf("dead letter %d is of fix %q, want %s", i, last.Value, want)
		}
	}

	other := walk(2)
	other[1].UserID = "somebody else"
	rec.Value = telemetry(other...)
	letter := servicetest.Process(t, p, rec, got.State).Letter(t, schemas.Avro)
	if letter.Reason != schemas.ReasonSeveralUsers {
		t.Errorf("two users: %s", letter.Reason)
	}
}

// TestSeveralFixesOfDestroyedDays: if the noise of one fix of a record is gone, the record as a
// whole is refused, in the first release and, by its offset alone, in a recomputation under a key
// that still has the day.
func TestSeveralFixesOfDestroyedDays(t *testing.T) {
	s := mappedSettings(t, mapping.Options{Preset: mapping.MDS})
	fixes := walk(2)
	fixes[1].Timestamp += 24 * 60 * 60 * 1000
	rec := servicetest.Record(t, 7, fixes[1])
	rec.Value = telemetry(fixes...)

	advanced := s
	advanced.Key = servicetest.NextDay(t)
	first := newTestProcessor(t, advanced, 0)
	got := servicetest.Process(t, first, rec, nil)
	if letter := got.Letter(t, schemas.Avro); letter.Reason != schemas.ReasonKeyDestroyed {
		t.Fatalf("the dead letter says %s", letter.Reason)
	}
	if tally := first.Tally(); tally.Releases != 0 || tally.Destroyed != 1 ||
		tally.DeadLetters != 1 {
		t.Errorf("the tally is %+v", *tally)
	}
	second := newTestProcessor(t, s, 0)
	refused := new(Offsets)
	refused.Add(7)
	second.Refuse(refused)
	servicetest.RequireEqual(t, "the recomputed record", got, servicetest.Process(t, second, rec,
		nil))
}

// TestKeysOfAnotherForm: the state and the sanitized record are under the user id, whatever the
// raw key looks like.
func TestKeysOfAnotherForm(t *testing.T) {
	fix := servicetest.Sentinel()
	for name, c := range map[string]struct {
		options mapping.Options
		key     string
	}{
		"json": {
			mapping.Options{
				Preset: mapping.MDS, User: mapping.User{From: mapping.FromKey},
				Key: mapping.KeyJSON, KeyCheck: mapping.KeyCheckOff,
			}, `{"id": "` + fix.UserID + `"}`,
		},
		"no check": {mapping.Options{Preset: mapping.MDS, KeyCheck: mapping.KeyCheckOff}, "any"},
	} {
		p := newTestProcessor(t, mappedSettings(t, c.options), 0)
		rec := servicetest.Record(t, 1, fix)
		rec.Key, rec.Value = []byte(c.key), telemetry(fix)
		got := servicetest.Process(t, p, rec, nil)
		key, _, err := p.Key(rec)
		if err != nil || string(key) != fix.UserID || len(got.Output) != 1 ||
			string(got.Output[0].Key) != fix.UserID {
			t.Errorf("%s: the state's key is right: %t; %d records (%v)", name,
				string(key) == fix.UserID, len(got.Output), err)
		}
	}
}

// TestReadsOnce: where the key does not tell the user, the record is decoded for the key, and not a
// second time for its fixes.
func TestReadsOnce(t *testing.T) {
	s := mappedSettings(t, mapping.Options{
		Preset: mapping.MDS, Format: mapping.Avro, KeyCheck: mapping.KeyCheckOff,
	})
	p := newTestProcessor(t, s, 0)
	read, fix := 0, servicetest.Sentinel()
	var err error
	p.reader.mapped, err = s.Input.Mapping.NewReader(mapping.Decoders{
		Value: func(value []byte, _ mapping.Headers) (any, error) {
			read++
			return schemas.DecodeTree(value[5:])
		},
	})
	servicetest.OK(t, err)
	rec := servicetest.Record(t, 1, fix)
	rec.Value = append([]byte{0, 0, 0, 0, 7}, telemetry(fix)...)
	for offset := range int64(3) {
		rec.Offset = offset
		key, fixes, err := p.Key(rec)
		servicetest.OK(t, err)
		rec.Read = fixes
		got := servicetest.Process(t, p, rec, nil)
		if string(key) != fix.UserID || len(got.Output) != 1 || read != int(offset)+1 {
			t.Errorf("%d records, and the value was read %d times", len(got.Output), read)
		}
	}
	rec.Offset, rec.Read = 3, nil
	if servicetest.Process(t, p, rec, nil); read != 4 {
		t.Errorf("a record without a look at its key was read %d times", read-3)
	}
}
