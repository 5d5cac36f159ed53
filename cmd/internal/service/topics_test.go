package service

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/consumer/group"
)

// TestGrownRawTopic: a partition beyond those of the start would begin without
// its users' states; the instance stops and says why.
func TestGrownRawTopic(t *testing.T) {
	s := &Service{
		log: slog.New(slog.DiscardHandler), partitions: 4, stop: func() {},
		options: Options{Board: monitor.NewBoard()}, job: &sanitizing{},
	}
	s.runTask(t.Context(), nil, &group.Lease{Partition: 4})
	if err := s.failed(); err == nil || !strings.Contains(err.Error(),
		"has grown from 4 partitions") {
		t.Errorf("got %v", err)
	}
}
