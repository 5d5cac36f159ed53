package topics

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// TestCreatedTopicsKeepOldRecords: output carries the raw records' timestamps, so
// a topic made for it forgets no sooner than the raw topic and takes timestamps
// of any time.
func TestCreatedTopicsKeepOldRecords(t *testing.T) {
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	client := Cluster{Brokers: []string{broker.Addr()}}.Client()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(admin.CreateTopics(t.Context(), client, wire.Options{}, admin.Topic{
		Name: "archive", Partitions: 2,
		Initial: map[string]string{RetentionMS: "123456789", RetentionBytes: "987654321"},
	}))
	set := Set{
		Raw: "archive", Sanitized: "archive.out", Changelog: "archive.log",
		DeadLetters: "archive.dead",
	}
	ok(Create(t.Context(), client, wire.Options{}, set))
	for _, name := range []string{set.Sanitized, set.DeadLetters} {
		got, err := admin.Configs(t.Context(), client, wire.Options{}, name, RetentionMS,
			RetentionBytes, TimestampAhead)
		ok(err)
		if got[RetentionMS] != "123456789" || got[RetentionBytes] != "987654321" ||
			got[TimestampAhead] != "9223372036854775807" {
			t.Errorf("%s has %v", name, got)
		}
	}
	got, err := admin.Configs(t.Context(), client, wire.Options{}, set.Changelog, "cleanup.policy",
		"max.compaction.lag.ms", TimestampAhead)
	ok(err)
	if got["cleanup.policy"] != "compact" || got["max.compaction.lag.ms"] != "86400000" ||
		got[TimestampAhead] != "9223372036854775807" {
		t.Errorf("%s has %v", set.Changelog, got)
	}
	// An operator who changes a setting later is not refused.
	ok(Create(t.Context(), client, wire.Options{}, set))
}

func TestSimilarNames(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"fleet.raw", "fleet-raw"}:            true,
		{"fleet.raw", "Fleet_Raw"}:            true,
		{"fleet.raw", "flet.raw"}:             true,
		{"fleet.raw", "fleet.row"}:            true,
		{"raw", "raws"}:                       true,
		{"vehicle.positions", "vehicles.pos"}: false,
		{"fleet.raw", "fleet.sanitized"}:      false,
		{"raw", "log"}:                        false,
		{"a", "orders"}:                       false,
	} {
		if similar(pair[0], pair[1]) != want || similar(pair[1], pair[0]) != want {
			t.Errorf("%v: want %v", pair, want)
		}
	}
}

func TestShorterRetention(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1", "2", true},
		{"2", "2", false},
		{"-1", "2", false},
		{"2", "-1", true},
		{"-1", "-1", false},
		{"", "2", false},
		{"2", "", false},
	} {
		if got := ShorterRetention(c.a, c.b); got != c.want {
			t.Errorf("shorter(%q, %q) is %t", c.a, c.b, got)
		}
	}
}

// TestLostTopic: an error of a missing changelog tells nobody to make it.
func TestLostTopic(t *testing.T) {
	err := LostTopic(&admin.MissingTopicsError{Topics: []string{"g.log"}}, "g.log")
	var missing *admin.MissingTopicsError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "(changelog-lost)") ||
		strings.Contains(err.Error(), "create it, or") {
		t.Errorf("the error is %v", err)
	}
}
