package service_test

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// feedRaw sends n records of fixes in the middle of the first window, which a test changes.
func (f *countedFleet) feedRaw(
	t *testing.T, n int, change func(n int, fix *schemas.Raw, r *producer.Record),
) {
	t.Helper()
	start := f.settings.Plan.Windows(f.settings.First)[0].StartMS
	lat, lon := f.w.Model.Grid.ToDegrees(f.w.Model.Grid.Centre(0))
	var records []producer.Record
	for i := range n {
		fix := schemas.Raw{
			UserID: fmt.Sprintf("user-%02d", i%20), Timestamp: start + 3_600_000 + int64(i),
			Latitude: lat, Longitude: lon,
		}
		r := producer.Record{Timestamp: fix.Timestamp}
		if change != nil {
			change(i, &fix, &r)
		}
		if r.Key == nil {
			r.Key = []byte(fix.UserID)
		}
		if r.Value == nil {
			r.Value = servicetest.Encode(t, schemas.Avro, fix)
		}
		records = append(records, r)
	}
	f.w.Send(t, records...)
}

// otherNames are records whose fields have other names.
func otherNames(_ int, fix *schemas.Raw, r *producer.Record) {
	r.Value = fmt.Appendf(nil, `{"device":%q,"time":%d,"lat":%v,"lon":%v}`, fix.UserID,
		fix.Timestamp, fix.Latitude, fix.Longitude)
}

// afterGrace are fixes that are appended three hours after their window.
func afterGrace(_ int, _ *schemas.Raw, r *producer.Record) { r.Timestamp += 5 * 3_600_000 }

// awaitRefused waits until so many fixes were refused, and returns the reasons.
func (f *countedFleet) awaitRefused(
	t *testing.T, r *servicetest.Running, n int64,
) map[string]int64 {
	t.Helper()
	servicetest.Await(t, "fixes are refused", func() bool {
		return f.counters[0].Snapshot().DeadLetters >= n
	}, r)
	found, refusals := map[string]int64{}, f.counters[0].Snapshot().Refusals
	for reason, n := range refusals.All() {
		if n > 0 {
			found[string(reason)] = n
		}
	}
	return found
}

// TestCountingSaysWhatItRefuses: of each fix that cannot count by itself there is a number by
// reason, in the counters and over HTTP, and a line in the log. There is none of windows and zones,
// nor of what the cap leaves out and of repeats: equal records of one user change no number but
// that of records.
func TestCountingSaysWhatItRefuses(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.windows.RawEncoding = schemas.Auto
	f.feedRaw(t, 120, nil) // twenty users, six times each, under a cap of three windows
	f.feedRaw(t, 7, otherNames)
	f.feedRaw(t, 11, afterGrace)
	f.feedRaw(t, 5, func(_ int, fix *schemas.Raw, _ *producer.Record) {
		fix.Latitude, fix.Longitude = 0, 0
	})
	f.feedRaw(t, 3, func(_ int, _ *schemas.Raw, r *producer.Record) { r.Value = []byte("x") })
	f.feedRaw(t, 2, func(_ int, _ *schemas.Raw, r *producer.Record) { r.Timestamp -= 600_000 })
	f.feedRaw(t, 4, func(_ int, fix *schemas.Raw, _ *producer.Record) {
		fix.Timestamp -= 3 * 24 * 3_600_000
	})
	for _, user := range servicetest.Users(40) {
		if home := servicetest.Murmur2Place(user); home != 0 {
			lat, lon := f.w.Model.Grid.ToDegrees(f.w.Model.Grid.Centre(0))
			f.w.Write(t, true, "raw", 0, servicetest.Line{
				Key: string(user), Timestamp: f.settings.Plan.Windows(f.settings.First)[0].StartMS,
				Value: string(servicetest.Encode(t, schemas.Avro, schemas.Raw{
					UserID: string(user), Latitude: lat, Longitude: lon,
					Timestamp: f.settings.Plan.Windows(f.settings.First)[0].StartMS,
				})),
			})
			break
		}
	}
	r, _ := f.start(t, "")
	found := f.awaitRefused(t, r, 29)
	want := map[string]int64{
		"missing_field: user_id": 7, "after_grace": 11, "null_island": 5, "malformed": 3,
		"timestamp_ahead": 2, "wrong_partition": 1,
	}
	if !maps.Equal(found, want) {
		t.Errorf("refused are %v, want %v", found, want)
	}
	servicetest.Await(t, "all partitions are read", func() bool {
		now := f.counters[0].Snapshot()
		return now.RecordsIn >= 153 && now.RecordsSkipped >= 4
	}, r)
	now := f.counters[0].Snapshot()
	if now.RecordsIn != 153 || now.RecordsSkipped != 4 || now.Misplaced != 1 || now.Late != 0 ||
		now.Skipped+now.Suppressed+now.Repeats+now.Releases != 0 {
		t.Errorf("the counters are %+v", now)
	}
	r.Stop(t)
	if said := r.Log.String(); !strings.Contains(said, "more than a tenth of the records is "+
		"refused") || !strings.Contains(said, "after_grace 11") {
		t.Errorf("the log says\n%s", said)
	}
	f.requireShown(t, want)
}

// requireShown requires that the totals are in /metrics and /status.
func (f *countedFleet) requireShown(t *testing.T, want map[string]int64) {
	t.Helper()
	server, err := monitor.Open(monitor.Options{Listen: "127.0.0.1:0"}, monitor.Source{
		Board: monitor.NewBoard(), Counters: f.counters[0],
		Certificates: func() map[string]time.Time { return nil },
	}, slog.New(slog.DiscardHandler))
	servicetest.OK(t, err)
	defer server.Close()
	_, metrics := get(t, server.Addr, "/metrics")
	_, status := get(t, server.Addr, "/status")
	for reason, n := range want {
		line := fmt.Sprintf("geodither_dead_letters_total{reason=%q} %d\n", reason, n)
		if !strings.Contains(metrics, line) ||
			!strings.Contains(status, fmt.Sprintf("%q:%d", reason, n)) {
			t.Errorf("/metrics or /status lacks %s", line)
		}
	}
}

// TestCountingAfterGrace: where all fixes come after their window's grace, numbers and a line show
// it at once. That is how history in a topic looks, so the service goes on and publishes.
func TestCountingAfterGrace(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.feedRaw(t, 300, afterGrace)
	r, _ := f.start(t, "")
	if found := f.awaitRefused(t, r, 300); found["after_grace"] != 300 {
		t.Errorf("refused are %v", found)
	}
	servicetest.Await(t, "the log has a line", func() bool {
		return strings.Contains(r.Log.String(), `msg="every record is refused" records=300 `+
			`refused=300 reasons="after_grace 300" likely="fixes come later than counts.grace`)
	}, r)
	f.awaitWindows(t, r)
	r.Stop(t)
}

// TestCountingFew: few records with other names do not stop the service, and are no secret.
func TestCountingFew(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.windows.RawEncoding = schemas.JSON
	f.feedRaw(t, 50, otherNames)
	r, _ := f.start(t, "")
	if found := f.awaitRefused(t, r, 50); found["missing_field: user_id"] != 50 {
		t.Errorf("refused are %v", found)
	}
	servicetest.Await(t, "the log has a line", func() bool {
		return strings.Contains(r.Log.String(), `msg="every record is refused"`) &&
			strings.Contains(r.Log.String(), `reasons="missing_field: user_id 50"`)
	}, r)
	r.Stop(t)
}

// TestCountingHopeless: the service that counts does not begin either where nearly all of the first
// records would be refused, or lie in a zone only with latitude and longitude exchanged. Doctor
// finds it too. Nothing is published before it is told to go on.
func TestCountingHopeless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words  string
		change func(n int, fix *schemas.Raw, r *producer.Record)
	}{
		{"400 of 400, missing_field: user_id 400", otherNames},
		{"400 of 400 would lie on the map if", func(_ int, fix *schemas.Raw, _ *producer.Record) {
			fix.Latitude, fix.Longitude = fix.Longitude, fix.Latitude
		}},
		{"null_island 400", func(_ int, fix *schemas.Raw, _ *producer.Record) {
			fix.Latitude, fix.Longitude = 0, 0
		}},
	} {
		f := newCountedFleet(t)
		f.windows.RawEncoding = schemas.Auto
		f.feedRaw(t, 400, c.change)
		r, _ := f.start(t, ".a")
		err := r.Wait(t)
		if !errors.Is(err, service.ErrRefused) || !strings.Contains(err.Error(), c.words) {
			t.Fatalf("%s: the service ends with %v", c.words, err)
		}
		if n := f.counters[0].Snapshot().RecordsIn; n != 0 {
			t.Errorf("%s: %d records were processed", c.words, n)
		}
		if f.w.Exists(t, f.totals.Topics.Sanitized) && len(f.have(t, true)) > 0 {
			t.Errorf("%s: counts were published", c.words)
		}
		var found []checks.Finding
		service.ExamineCounting(t.Context(), f.windows, f.common(),
			func(one checks.Finding) { found = append(found, one) })
		if said := atwork.Details(found, checks.Failure); !strings.Contains(said, c.words) {
			t.Errorf("%s: doctor says %q", c.words, said)
		}
		f.windows.AcceptRefused = true
		r, _ = f.start(t, ".a")
		f.awaitWindows(t, r)
		r.Stop(t)
	}
}

// TestCountingProducersTimes: records with their producers' times are counted as refused, once
// each, and stop nobody.
func TestCountingProducersTimes(t *testing.T) {
	t.Parallel()
	f := newCountedFleet(t)
	f.windows.RawEncoding = schemas.Auto
	f.feedRaw(t, 300, otherNames)
	f.w.Alter(t, "raw", "message.timestamp.type", "LogAppendTime")
	f.trust = false
	r, _ := f.start(t, "")
	if found := f.awaitRefused(t, r, 300); found["producer_time"] != 300 {
		t.Errorf("refused are %v", found)
	}
	f.awaitWindows(t, r)
	r.Stop(t)
	if n := f.counters[0].Snapshot().DeadLetters; n != 300 {
		t.Errorf("%d are refused", n)
	}
}
