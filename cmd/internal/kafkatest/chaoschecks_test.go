//go:build kafka

package kafkatest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestSchedule wants the asked number of hard faults, all kinds, nothing outside
// of the feed, targets that exist, and the same again from the same seed.
func TestSchedule(t *testing.T) {
	for seed := range uint64(50) {
		s := settings{
			Seed: seed + 1, Faults: 20, Duration: 140 * time.Second, Instances: 3, Nodes: 3,
		}
		faults := schedule(s)
		if !reflect.DeepEqual(faults, schedule(s)) {
			t.Fatalf("seed %d gives two schedules", s.Seed)
		}
		count, kinds := 0, map[kind]bool{}
		for _, f := range faults {
			kinds[f.kind] = true
			if slices.Contains(hard, f.kind) {
				count++
			}
			if f.at < 0 || f.at > s.Duration || f.target < 0 || f.target > 2 {
				t.Errorf("seed %d: %+v", s.Seed, f)
			}
			if f.kind == instanceFreeze && f.lasts <= sessionTimeout {
				t.Errorf("seed %d: a freeze of %v leaves the member in the group", s.Seed, f.lasts)
			}
		}
		if count != s.Faults || len(kinds) != 7 {
			t.Errorf("seed %d: %d hard faults of %d kinds", s.Seed, count, len(kinds))
		}
	}
}

// TestOddRecordsAreTold wants every odd record's user and time to be its own.
func TestOddRecordsAreTold(t *testing.T) {
	l, err := newLedger(1)
	if err != nil {
		t.Fatal(err)
	}
	fixes := 0
	for n := range 20_000 {
		r, err := oddRecord(l.codec, n, time.UnixMilli(1_700_000_000_000))
		if err != nil {
			t.Fatal(err)
		}
		r.Offset = int64(n)
		l.addRaw(r)
		if fix, err := l.codec.DecodeRaw(r.Value); err == nil && fix.UserID == string(r.Key) {
			fixes++
		}
	}
	if l.FedTwice > 0 || l.Raw != 20_000 || fixes < 10_000 {
		t.Errorf("%d of %d records are fed twice, %d are fixes", l.FedTwice, l.Raw, fixes)
	}
}

// TestSmoothedIsCompared plants what a smoothing service must not do, and wants each to be found.
func TestSmoothedIsCompared(t *testing.T) {
	var text bytes.Buffer
	for step := range int64(60) {
		kind := "predicted"
		if step%20 == 5 {
			kind = "released"
		}
		for _, user := range []string{"a", "b"} {
			fmt.Fprintf(&text, "{\"user_id\":%q,\"step\":%d,\"kind\":%q}\n", user, step, kind)
		}
	}
	all, err := byUser(text.Bytes())
	if err != nil || len(all["a"]) != 60 {
		t.Fatalf("%d records, %v", len(all["a"]), err)
	}
	// The last release is of step 45.
	due := closed(all["a"])
	if due != 45-smoothingLag+1 {
		t.Fatalf("%d records are closed", due)
	}
	for name, plant := range map[string]struct {
		change func([]printed) []printed
		found  bool
	}{
		"nothing":   {func(l []printed) []printed { return l }, false},
		"one more":  {func([]printed) []printed { return all["a"][:due+1] }, false},
		"missing":   {func(l []printed) []printed { return l[:due-1] }, true},
		"left out":  {func(l []printed) []printed { return slices.Delete(l, 7, 8) }, true},
		"doubled":   {func(l []printed) []printed { return slices.Insert(l, 7, l[7]) }, true},
		"exchanged": {func(l []printed) []printed { l[7], l[8] = l[8], l[7]; return l }, true},
		"changed":   {func(l []printed) []printed { l[7].text += " "; return l }, true},
		"nobody's":  {func(l []printed) []printed { return l }, true},
	} {
		got := maps.Clone(all)
		got["a"] = plant.change(slices.Clone(all["a"][:due]))
		if name == "nobody's" {
			got["c"] = all["b"]
		}
		var s smoothed
		s.compare(all, got, all)
		if (len(s.Differing) > 0) != plant.found || s.Out != len(got["a"])+60 {
			t.Errorf("%s: %v, %d records", name, s.Differing, s.Out)
		}
	}
}

// TestMemoryIsSearched finds what this process holds, and nothing that another one does not. Where
// there is no /proc it is an error.
func TestMemoryIsSearched(t *testing.T) {
	held := make([]byte, 32)
	if _, err := rand.Read(held); err != nil {
		t.Fatal(err)
	}
	found, err := holds(os.Getpid(), held)
	if runtime.GOOS != "linux" {
		if err == nil {
			t.Error("memory is looked through without /proc")
		}
		return
	}
	if err != nil || !found {
		t.Errorf("what is there: %t, %v", found, err)
	}
	// The text that is looked for is in memory itself, so another process is looked through.
	if found, err := holds(os.Getppid(), held); err != nil || found {
		t.Errorf("in another process: %t, %v", found, err)
	}
}
