package kafkaconn

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestConnect: the error names a broker that does not answer, and what to do.
func TestConnect(t *testing.T) {
	if _, err := (*Connection)(nil).Connect(t.Context(),
		nil); !errors.As(err, new(cli.UsageError)) {
		t.Errorf("no brokers: %v", err)
	}
	const hint = "127.0.0.1:1: is Kafka running there?"
	if _, err := (*Connection)(nil).Connect(t.Context(), []string{"127.0.0.1:1"}); err == nil ||
		!strings.Contains(err.Error(), hint) {
		t.Errorf("nobody listens: %v", err)
	}

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.Addr().String()
	if _, err := (*Connection)(nil).connect(t.Context(), []string{addr},
		50*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "no answer from "+addr+" within 50ms") {
		t.Errorf("a server that does not answer: %v", err)
	}
}
