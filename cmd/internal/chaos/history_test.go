package main

import (
	"bytes"
	"crypto/sha256"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/towntest"
)

func TestParseHistory(t *testing.T) {
	for args, want := range map[string]string{
		"--history 3":                "nothing to be compared with",
		"--history 1,x":              "write numbers of instances",
		"--history 0,2":              "write numbers of instances",
		"--history 1,3 --soak":       "exclude each other",
		"--history 1,3 --plant lost": "belongs to a run with faults",
		"--history 1,3,2 --seed 4 --records 1000 --nodes 1": "",
	} {
		var log bytes.Buffer
		s, err := parse(strings.Fields(args), &log)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", args, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if again, err := parse(strings.Fields(s.again()), &log); err != nil || again != s {
			t.Errorf("%s is repeated as %+v (%v)", args, again, err)
		}
	}
}

// TestDigests: passes whose records arrive in another order of users are equal. One is not that has
// a byte more, a record twice, two of a user the other way round, or lacks a user.
func TestDigests(t *testing.T) {
	record := func(user, value string, ms int64) *kgo.Record {
		return &kgo.Record{
			Key: []byte(user), Value: []byte(value), Timestamp: time.UnixMilli(ms),
		}
	}
	of := func(records ...*kgo.Record) *read {
		d := &read{digests: map[string][sha256.Size]byte{}}
		for _, r := range records {
			d.take(r, string(r.Key) == "")
		}
		return d
	}
	a1, a2, b1, dead := record("a", "1", 1), record("a", "2", 2), record("b", "1", 1),
		record("", "late", 3)
	one := of(a1, a2, b1, dead)
	if same := of(b1, dead, a1, a2); one.differ(same) != 0 || one.sum() != same.sum() ||
		one.sanitized != 3 || one.dead != 1 {
		t.Errorf("another order of users differs: %+v and %+v", one, same)
	}
	for name, other := range map[string]*read{
		"another value":     of(a1, record("a", "2 ", 2), b1, dead),
		"another time":      of(a1, record("a", "2", 3), b1, dead),
		"a record twice":    of(a1, a2, a2, b1, dead),
		"another order":     of(a2, a1, b1, dead),
		"a user less":       of(a1, a2, dead),
		"a user more":       of(a1, a2, b1, dead, record("c", "1", 1)),
		"no dead letter":    of(a1, a2, b1),
		"key against value": of(a1, a2, record("b1", "", 1), dead),
	} {
		if one.differ(other) == 0 || one.sum() == other.sum() {
			t.Errorf("%s has the same digest", name)
		}
	}
}

// TestHistoryConfig: the configs of two passes are accepted. They name the same raw topic, and
// share no group, no other topic and no length of transactions.
func TestHistoryConfig(t *testing.T) {
	model, err := towntest.Model()
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{dir: t.TempDir(), brokers: []string{"localhost:9092"}}
	if err := model.WriteFile(h.model()); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(h.dir, "noise.key")
	writeKey(t, key)
	used := map[any]bool{}
	for _, p := range passes([]int{1, 3}) {
		i, err := configFor(h, p, p.group())
		if err != nil {
			t.Fatal(err)
		}
		o, file, err := config.Service(i.config)
		if err != nil {
			t.Fatal(err)
		}
		if file.Topics.Raw != rawTopic {
			t.Errorf("pass %d reads %s", p.number, file.Topics.Raw)
		}
		for _, own := range []any{
			file.Group, file.Topics.Sanitized, file.Topics.Changelog, file.Topics.DeadLetters,
			file.Transaction.MaxRecords, o.StateDir,
		} {
			if used[own] {
				t.Errorf("two passes share %v", own)
			}
			used[own] = true
		}
	}
}
