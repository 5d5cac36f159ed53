package hours

import (
	"archive/zip"
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// plan reads spans written as "DAYS FROM-TO ZONE".
func plan(t testing.TB, texts ...string) *Hours {
	t.Helper()
	h, err := New(spansOf(t, texts...))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func spansOf(t testing.TB, texts ...string) (spans []Span) {
	t.Helper()
	for _, text := range texts {
		fields := strings.Fields(text)
		from, to, _ := strings.Cut(fields[1], "-")
		s := Span{Zone: fields[2]}
		var errs [3]error
		s.Days, errs[0] = ParseDays(fields[0])
		s.From, errs[1] = ParseClock(from)
		s.To, errs[2] = ParseClock(to)
		if errs != [3]error{} {
			t.Fatal(errs)
		}
		spans = append(spans, s)
	}
	return spans
}

func at(t testing.TB, text string) int64 {
	t.Helper()
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return moment.UnixMilli()
}

// TestOpen: the wall clock decides, on the days when clocks change too.
func TestOpen(t *testing.T) {
	const london = "mon-fri 06:00-18:00 Europe/London"
	for _, c := range []struct {
		plan, moment string
		want         bool
	}{
		{london, "2026-01-05T05:59:59Z", false}, // Monday, winter
		{london, "2026-01-05T06:00:00Z", true},
		{london, "2026-01-05T17:59:59Z", true},
		{london, "2026-01-05T18:00:00Z", false},
		{london, "2026-01-04T12:00:00Z", false}, // Sunday
		{london, "2026-07-06T05:00:00Z", true},  // Monday, summer
		{london, "2026-07-06T17:00:00Z", false},
		{london, "2060-07-05T05:00:00Z", true}, // by the rule for years to come
		// 25 October 2026, a Sunday: 01:00 to 02:00 come twice, at 00:00 and at 01:00 UTC.
		{"sun 01:30-02:00 Europe/London", "2026-10-25T00:15:00Z", false},
		{"sun 01:30-02:00 Europe/London", "2026-10-25T00:45:00Z", true},
		{"sun 01:30-02:00 Europe/London", "2026-10-25T01:15:00Z", false},
		{"sun 01:30-02:00 Europe/London", "2026-10-25T01:45:00Z", true},
		// 29 March 2026: 00:59 is followed by 02:00.
		{"sun 01:00-02:00 Europe/London", "2026-03-29T00:59:59Z", false},
		{"sun 01:00-02:00 Europe/London", "2026-03-29T01:00:00Z", false},
		{"sun 00:30-02:30 Europe/London", "2026-03-29T01:29:59Z", true},
		{"sun 00:30-02:30 Europe/London", "2026-03-29T01:30:00Z", false},
		// Over midnight a stretch belongs to the day on which it starts.
		{"fri 22:00-06:00 UTC", "2026-01-02T05:00:00Z", false}, // Friday
		{"fri 22:00-06:00 UTC", "2026-01-02T22:00:00Z", true},
		{"fri 22:00-06:00 UTC", "2026-01-03T05:59:59Z", true},
		{"fri 22:00-06:00 UTC", "2026-01-03T06:00:00Z", false},
		{"sat 22:00-06:00 UTC", "2026-01-04T05:00:00Z", true}, // over the end of the week
		{"fri 22:00-00:00 UTC", "2026-01-03T00:00:00Z", false},
		{"fri 22:00-24:00 UTC", "2026-01-02T23:59:59Z", true},
		// Zones whose offset is no whole hour, and one that shifts its clock by half of one.
		{"mon 00:00-00:15 Asia/Kathmandu", "2026-01-04T18:20:00Z", true},
		{"mon 00:00-00:15 Asia/Kathmandu", "2026-01-04T18:30:00Z", false},
		{"sun 01:30-02:00 Australia/Lord_Howe", "2026-04-04T15:10:00Z", true},
		{"sun 01:30-02:00 Australia/Lord_Howe", "2026-04-04T14:40:00Z", true},
		// Samoa had no 30 December 2011, a Friday.
		{"fri 00:00-24:00 Pacific/Apia", "2011-12-30T10:00:00Z", false},
		{"sat 00:00-24:00 Pacific/Apia", "2011-12-30T10:00:00Z", true},
	} {
		if got := plan(t, c.plan).Open(at(t, c.moment)); got != c.want {
			t.Errorf("%s at %s: %t", c.plan, c.moment, got)
		}
	}
	var always *Hours
	for _, ms := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		if !always.Open(ms) {
			t.Errorf("no hours are closed at %d", ms)
		}
		plan(t, london).Open(ms) // any moment has an answer
	}
}

var zoneNames = []string{
	"UTC", "Europe/London", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe",
	"Pacific/Apia", "America/St_Johns", "Africa/Casablanca", "Asia/Beirut", "Pacific/Chatham",
}

func randomSpan(rng *rand.Rand) Span {
	s := Span{
		Days: Days(1 + rng.IntN(127)), From: rng.IntN(day), To: rng.IntN(day + 1),
		Zone: zoneNames[rng.IntN(len(zoneNames))],
	}
	if s.From == s.To {
		s.To = (s.To + 1) % day
	}
	return s
}

// byCalendar is Open by the clock that the time package shows.
func byCalendar(zones map[string]*time.Location, spans []Span, ms int64) bool {
	for _, s := range spans {
		local := time.UnixMilli(ms).In(zones[s.Zone])
		minute, today := local.Hour()*60+local.Minute(), local.Weekday()
		yesterday := (today + 6) % 7
		switch {
		case s.From < s.To && s.Days.Has(today) && s.From <= minute && minute < s.To,
			s.From > s.To && s.Days.Has(today) && s.From <= minute,
			s.From > s.To && s.Days.Has(yesterday) && minute < s.To:
			return true
		}
	}
	return false
}

// TestOpenByCalendar compares random plans at random moments and around changes of clocks with the
// time package's calendar, and Between and Most with Open.
func TestOpenByCalendar(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	first := at(t, "2005-01-01T00:00:00Z")
	zones := map[string]*time.Location{}
	for _, name := range zoneNames {
		var err error
		if zones[name], err = Zone(name); err != nil {
			t.Fatal(err)
		}
	}
	open := 0
	for range 150 {
		spans := []Span{randomSpan(rng), randomSpan(rng)}[:1+rng.IntN(2)]
		h, err := New(spans)
		if err != nil {
			t.Fatal(err)
		}
		from := first + rng.Int64N(30*365*dayMS)
		to := from + rng.Int64N(15*dayMS)
		moments := []int64{first - rng.Int64N(first*2), from, to - 1}
		intervals := h.Between(from, to)
		for i, one := range intervals {
			moments = append(moments, one.From, one.To-1, one.To, one.From-1)
			if one.From >= one.To || one.From < from || one.To > to ||
				i > 0 && one.From <= intervals[i-1].To {
				t.Fatalf("%v: interval %d of %v, %v", spans, i, intervals, one)
			}
		}
		zone := zones[spans[0].Zone]
		if _, change := time.UnixMilli(from).In(zone).ZoneBounds(); !change.IsZero() {
			for range 20 {
				moments = append(moments, change.UnixMilli()+rng.Int64N(8*3600e3)-4*3600e3)
			}
		}
		for range 20 {
			moments = append(moments, from+rng.Int64N(to-from+1))
		}
		for _, ms := range moments {
			want := byCalendar(zones, spans, ms)
			if got := h.Open(ms); got != want {
				t.Fatalf("%v at %s: open %t", spans, time.UnixMilli(ms).UTC(), got)
			}
			if ms >= from && ms < to && within(intervals, ms) != want {
				t.Fatalf("%v at %s: not as Between has it", spans, time.UnixMilli(ms).UTC())
			}
			if want {
				open++
			}
		}
	}
	if open < 500 {
		t.Errorf("%d moments were open", open)
	}
}

func within(all []Interval, ms int64) bool {
	for _, one := range all {
		if one.From <= ms && ms < one.To {
			return true
		}
	}
	return false
}

// TestMost: no stretch has more open time or more intervals than Most, and some stretch has as
// much.
func TestMost(t *testing.T) {
	for _, c := range []struct {
		length time.Duration
		open   time.Duration
		pieces int
		plan   []string
	}{
		{24 * time.Hour, 12 * time.Hour, 2, []string{"mon-fri 06:00-18:00 UTC"}},
		{time.Hour, time.Hour, 1, []string{"mon-fri 06:00-18:00 UTC"}},
		{168 * time.Hour, 60 * time.Hour, 6, []string{"mon-fri 06:00-18:00 UTC"}},
		// One night of the year has an hour more.
		{24 * time.Hour, 9 * time.Hour, 2, []string{"mon-sun 22:00-06:00 Europe/London"}},
		{24 * time.Hour, 24 * time.Hour, 1, []string{"mon-sun 00:00-24:00 Asia/Tokyo"}},
		{24 * time.Hour, 8 * time.Hour, 3, []string{
			"mon-sun 06:00-10:00 UTC", "mon-sun 14:00-18:00 UTC",
		}},
	} {
		open, pieces := plan(t, c.plan...).Most(c.length)
		if open != c.open || pieces != c.pieces {
			t.Errorf("%s of %q: %s in %d pieces, want %s in %d", c.length, c.plan, open, pieces,
				c.open, c.pieces)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		h, err := New([]Span{randomSpan(rng), randomSpan(rng)})
		if err != nil {
			t.Fatal(err)
		}
		length := time.Duration(1+rng.IntN(100)) * time.Hour
		open, pieces := h.Most(length)
		for range 2000 {
			from := at(t, "2001-01-01T00:00:00Z") + rng.Int64N(36*365*dayMS)
			sum, some := int64(0), h.Between(from, from+length.Milliseconds())
			for _, one := range some {
				sum += one.To - one.From
			}
			if time.Duration(sum)*time.Millisecond > open || len(some) > pieces {
				t.Fatalf("%+v from %d: %d ms in %d pieces", h, from, sum, len(some))
			}
		}
	}
}

// TestCut: steps reach over the borders by what is left of them there, in UTC, whatever the clock
// of the zone shows.
func TestCut(t *testing.T) {
	t.Parallel()
	if late, beyond := (*Hours)(nil).Cut(time.Hour); late != 0 || beyond != 0 {
		t.Errorf("without hours: %v late, %v beyond", late, beyond)
	}
	for _, c := range []struct {
		step, late, beyond time.Duration
		plan               []string
	}{
		{30 * time.Second, 0, 0, []string{"mon-sun 06:00-18:00 UTC"}},
		{5 * time.Minute, 4 * time.Minute, 3 * time.Minute, []string{"mon-sun 06:01-18:02 UTC"}},
		{7 * time.Minute, 6 * time.Minute, 6 * time.Minute, []string{"mon-sun 06:00-18:00 UTC"}},
		{30 * time.Minute, 0, 0, []string{"mon-sun 06:00-18:00 Asia/Kolkata"}},
		{time.Hour, 30 * time.Minute, 30 * time.Minute, []string{
			"mon-sun 06:00-18:00 Asia/Kolkata",
		}},
		{5 * time.Minute, 0, 0, []string{"mon-sun 06:00-12:01 UTC", "mon-sun 12:01-18:00 UTC"}},
	} {
		if late, beyond := plan(t, c.plan...).Cut(c.step); late != c.late || beyond != c.beyond {
			t.Errorf("steps of %v in %q: %v late, %v beyond, want %v and %v", c.step, c.plan, late,
				beyond, c.late, c.beyond)
		}
	}
}

// TestZones: the archive is that of ZoneVersion, and every zone in it can be used.
func TestZones(t *testing.T) {
	const want = "2025c d37bf84af9b1621bb034ff2ab0a5d530ce3e7b771ba8586dc01abe72e453f2c9"
	if got := fmt.Sprintf("%s %x", ZoneVersion, sha256.Sum256([]byte(zoneinfo))); got != want {
		t.Errorf("the rules are %s, want %s: name the version of other rules", got, want)
	}
	archive, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.File) < 500 {
		t.Errorf("there are %d zones", len(archive.File))
	}
	for _, file := range archive.File {
		if h := plan(t, "mon-sun 00:00-24:00 "+file.Name); !h.Open(0) {
			t.Errorf("%s is never open", file.Name)
		}
	}
}

// TestSystemZones: the machine's own rules have no influence.
func TestSystemZones(t *testing.T) {
	t.Setenv("ZONEINFO", t.TempDir())
	t.Setenv("TZ", "Asia/Tokyo")
	if !plan(t, "mon 06:00-18:00 Europe/London").Open(at(t, "2026-07-06T05:00:00Z")) {
		t.Error("London has no summer time")
	}
	for _, name := range []string{"", "Local", "Europe/Londn", "europe/london", "../UTC"} {
		if _, err := New([]Span{{Days: everyDay, From: 0, To: 60, Zone: name}}); err == nil ||
			!strings.Contains(err.Error(), "IANA database") {
			t.Errorf("zone %q: %v", name, err)
		}
	}
}

func TestRefusedSpans(t *testing.T) {
	for _, s := range []Span{
		{Days: 0, From: 0, To: 60, Zone: "UTC"},
		{Days: 128, From: 0, To: 60, Zone: "UTC"},
		{Days: 1, From: -1, To: 60, Zone: "UTC"},
		{Days: 1, From: day, To: 60, Zone: "UTC"},
		{Days: 1, From: 0, To: day + 1, Zone: "UTC"},
		{Days: 1, From: 60, To: 60, Zone: "UTC"},
	} {
		if _, err := New([]Span{s}); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
	one := Span{Days: 1, From: 0, To: 60, Zone: "UTC"}
	many := make([]Span, maxSpans+1)
	for i := range many {
		many[i] = one
	}
	if _, err := New(many); err == nil {
		t.Errorf("%d entries are accepted", len(many))
	}
	if h, err := New(nil); h != nil || err != nil {
		t.Errorf("no entries: %v, %v", h, err)
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"mon-fri": "mon-fri", "sat": "sat", "wed,mon": "mon,wed", "Mon - Tue": "mon,tue",
		"sat-sun": "sat,sun", "fri-mon": "mon,fri-sun", "": "mon-sun", "sun,mon-sat": "mon-sun",
		"sun-sun": "sun",
	} {
		days, err := ParseDays(text)
		if err != nil || days.String() != want {
			t.Errorf("%q: %q, %v", text, days, err)
		}
		if again, err := ParseDays(days.String()); err != nil || again != days {
			t.Errorf("%q: %q is read as %q, %v", text, days, again, err)
		}
	}
	for _, text := range []string{"mo", "monday", "mon-", "-", ",", "mon,", "mon-fri-sat", "1-5"} {
		if days, err := ParseDays(text); err == nil {
			t.Errorf("%q is read as %q", text, days)
		}
	}
	for text, want := range map[string]int{"06:00": 360, "6:00": 360, "24:00": 1440, "00:00": 0} {
		if got, err := ParseClock(text); got != want || err != nil {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "6", "360", "24:01", "25:00", "6:0", "06:60", "-6:00", "+6:00", "6:+1", "006:00",
		"06:00:00", "6h",
	} {
		if got, err := ParseClock(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	if got := spansOf(t, "sat,mon-fri 06:00-24:00 Europe/London")[0].String(); got !=
		"mon-sat 06:00-24:00 Europe/London" {
		t.Errorf("a span is %q", got)
	}
}

func TestOpenDoesNotAllocate(t *testing.T) {
	h := plan(t, "mon-fri 06:00-18:00 Europe/London", "sat 22:00-06:00 America/New_York")
	ms := at(t, "2026-07-05T05:00:00Z")
	if n := testing.AllocsPerRun(100, func() { h.Open(ms); ms += 3600e3 }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOpen(b *testing.B) {
	h := plan(b, "mon-fri 06:00-18:00 Europe/London", "sat 22:00-06:00 America/New_York")
	ms := at(b, "2026-07-05T05:00:00Z")
	b.ReportAllocs()
	for b.Loop() {
		h.Open(ms)
		ms += 3600e3
	}
}
