package pipeline

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// TestCreatedTopicsKeepOldRecords: output carries the raw records' timestamps, so
// a topic made for it forgets no sooner than the raw topic and takes timestamps
// of any time.
func TestCreatedTopicsKeepOldRecords(t *testing.T) {
	w := newWorld(t, 0)
	ok(t, admin.CreateTopics(t.Context(), w.client, wire.Options{}, admin.Topic{
		Name: "archive", Partitions: 2, Initial: map[string]string{retentionMS: "123456789", retentionBytes: "987654321"},
	}))
	topics := Topics{Raw: "archive", Sanitized: "archive.out", Changelog: "archive.log", DeadLetters: "archive.dead"}
	ok(t, CreateTopics(t.Context(), w.client, topics))
	for _, name := range []string{topics.Sanitized, topics.DeadLetters} {
		got, err := admin.Configs(t.Context(), w.client, wire.Options{}, name, retentionMS, retentionBytes, timestampAhead)
		ok(t, err)
		if got[retentionMS] != "123456789" || got[retentionBytes] != "987654321" || got[timestampAhead] != "9223372036854775807" {
			t.Errorf("%s has %v", name, got)
		}
	}
	// An operator who changes a setting later is not refused.
	ok(t, CreateTopics(t.Context(), w.client, topics))
}

// TestGrownRawTopic: a partition beyond those of the start would begin without
// its users' states; the instance stops and says why.
func TestGrownRawTopic(t *testing.T) {
	s := &Service{log: slog.New(slog.DiscardHandler), partitions: 4, stop: func() {}}
	s.runTask(t.Context(), nil, nil, 4)
	if err := s.failed(); err == nil || !strings.Contains(err.Error(), "has grown from 4 partitions") {
		t.Errorf("got %v", err)
	}
}
