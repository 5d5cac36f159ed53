//go:build kafka

package kafkatest

import (
	"reflect"
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
