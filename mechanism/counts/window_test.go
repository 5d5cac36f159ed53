package counts

import (
	"fmt"
	"testing"
	"time"
)

func plan(t *testing.T, zone string, length time.Duration) *Plan {
	t.Helper()
	p, err := NewPlan(zone, length)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func date(t *testing.T, text string) Date {
	t.Helper()
	d, err := ParseDate(text)
	if err != nil || d.String() != text {
		t.Fatalf("%s is read as %v: %v", text, d, err)
	}
	return d
}

// TestDays: days of a clock change have 23 or 25 hours, and the doubled hour two windows.
func TestDays(t *testing.T) {
	for _, c := range []struct {
		zone, day string
		length    time.Duration
		windows   int
		hours     float64
	}{
		{"UTC", "2026-10-25", time.Hour, 24, 24},
		{"Europe/Berlin", "2026-10-25", time.Hour, 25, 25},
		{"Europe/Berlin", "2026-10-25", 2 * time.Hour, 13, 25}, // 0-2, 2-3, again 2-4
		{"Europe/Berlin", "2026-03-29", time.Hour, 23, 23},
		{"Europe/Berlin", "2026-03-29", 2 * time.Hour, 12, 23},     // 0-2, 3-4
		{"Europe/Berlin", "2026-03-29", 24 * time.Hour, 2, 23},     // 0-2, 3-24
		{"Australia/Lord_Howe", "2026-04-05", time.Hour, 25, 24.5}, // half an hour back
		{"Asia/Kathmandu", "2026-04-05", time.Hour, 24, 24},        // UTC+5:45
		{"America/Havana", "2026-11-01", time.Hour, 25, 25},        // back to midnight
		{"Africa/Cairo", "2026-04-24", time.Hour, 23, 23},          // no midnight
		{"America/St_Johns", "2010-11-06", time.Hour, 25, 24 + 59./60},
		{"America/St_Johns", "2010-11-07", time.Hour, 25, 24 + 1./60}, // its first minute is apart
		{"America/New_York", "2048-12-31", 15 * time.Minute, 96, 24},
	} {
		windows := plan(t, c.zone, c.length).Windows(date(t, c.day))
		sum := int64(0)
		for _, w := range windows {
			sum += w.EndMS - w.StartMS
		}
		if len(windows) != c.windows || float64(sum) != c.hours*3600_000 {
			t.Errorf("%s, %s, %v: %d windows of %.3f hours, want %d of %.3f", c.zone, c.day,
				c.length, len(windows), float64(sum)/3600_000, c.windows, c.hours)
		}
	}
}

// partition returns an error where windows of successive days do not cover time without a gap or
// an overlap, or where two of them are the same.
func partition(windows []Window) error {
	known := map[[2]int64]bool{}
	at, end := int64(0), int64(0)
	for i, w := range windows {
		if known[[2]int64{w.StartMS, w.EndMS}] || w.EndMS <= w.StartMS {
			return fmt.Errorf("window %d is empty or there twice", i)
		}
		known[[2]int64{w.StartMS, w.EndMS}] = true
		at += w.EndMS - w.StartMS
		end = max(end, w.EndMS)
	}
	if first := windows[0].StartMS; at != end-first {
		return fmt.Errorf("the windows take %d ms of %d", at, end-first)
	}
	return nil
}

// TestWindowsPartitionTime: over a year, in zones with and without clock changes, every moment has
// one window, on the day on which it starts.
func TestWindowsPartitionTime(t *testing.T) {
	for _, zone := range []string{
		"UTC", "Europe/London", "Australia/Lord_Howe", "America/St_Johns", "America/Havana",
		"Africa/Casablanca", "Pacific/Apia",
	} {
		p := plan(t, zone, 3*time.Hour)
		var all []Window
		for day := date(t, "2010-01-02"); day < date(t, "2012-02-01"); day++ {
			for _, w := range p.Windows(day) {
				if w.Day != day || w.EndMS-w.StartMS > p.Length().Milliseconds() {
					t.Fatalf("%s: a window of %v is on day %v", zone, w.Day, day)
				}
				all = append(all, w)
				for _, ms := range []int64{w.StartMS, (w.StartMS + w.EndMS) / 2, w.EndMS - 1} {
					if got := p.At(ms); got != w {
						t.Fatalf("%s: %d has the window %v, want %v", zone, ms, got, w)
					}
				}
			}
		}
		if err := partition(all); err != nil {
			t.Errorf("%s: %v", zone, err)
		}
	}
}

// TestLongestDay: no day of a plan takes longer, and some day does in the zones that go back.
func TestLongestDay(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]time.Duration{
		"UTC": 24 * time.Hour, "Europe/London": 25 * time.Hour, "Asia/Kolkata": 24 * time.Hour,
		"Australia/Lord_Howe": 24*time.Hour + 30*time.Minute, "America/St_Johns": 25 * time.Hour,
		"Antarctica/Troll": 26 * time.Hour, "Pacific/Apia": 25 * time.Hour,
	} {
		p, err := NewPlan(zone, 12*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.LongestDay(); got != want {
			t.Errorf("%s: %v, want %v", zone, got, want)
		}
		for day := Date(13_000); day < 16_000; day++ { // from 2005 to 2013
			all := p.Windows(day)
			if n := len(all); n > 0 &&
				time.Duration(all[n-1].EndMS-all[0].StartMS)*time.Millisecond > want {
				t.Fatalf("%s: %v is longer", zone, day)
			}
		}
	}
}

// TestPartitionNoticesFaults: windows that are named by the clock share the doubled hour.
func TestPartitionNoticesFaults(t *testing.T) {
	p := plan(t, "Europe/Berlin", time.Hour)
	var local, gap []Window
	for _, w := range p.Windows(date(t, "2026-10-25")) {
		shift := p.offset(w.StartMS)
		local = append(local, Window{w.StartMS + shift, w.EndMS + shift, w.Day})
		if p.Hour(w.StartMS) != 12 {
			gap = append(gap, w)
		}
	}
	if partition(local) == nil || partition(gap) == nil {
		t.Error("a doubled hour that is one window, or a window that is missing, is not found")
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, length := range []time.Duration{
		0, -time.Hour, time.Second, 90 * time.Second, 7 * time.Hour, 48 * time.Hour,
	} {
		if _, err := NewPlan("UTC", length); err == nil {
			t.Errorf("windows of %v are taken", length)
		}
	}
	if _, err := NewPlan("Europe/Nowhere", time.Hour); err == nil {
		t.Error("an unknown time zone is taken")
	}
	p := plan(t, "UTC", time.Hour)
	if _, err := p.Between(5, 4); err == nil {
		t.Error("a range without a day is taken")
	}
	if _, err := p.Between(0, maxDays); err == nil {
		t.Error("too many days are taken")
	}
	if days, err := p.Between(10, 11); err != nil || len(days) != 2 || len(days[1]) != 24 {
		t.Errorf("two days are %v, %v", days, err)
	}
	for _, text := range []string{"", "2026-11-31", "21.11.2026", "1970-01-01"} {
		if _, err := ParseDate(text); err == nil {
			t.Errorf("%q is read as a day", text)
		}
	}
	samoa, err := NewPlan("Pacific/Apia", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	left, err := ParseDate("2011-12-30") // the day that Samoa left out
	if err != nil {
		t.Fatal(err)
	}
	if days, err := samoa.Between(left-1, left+1); err != nil || len(days) != 2 {
		t.Errorf("%d days beside one that was left out, %v", len(days), err)
	}
	if _, err := samoa.Between(left, left); err == nil {
		t.Error("a day that was left out has windows")
	}
}
