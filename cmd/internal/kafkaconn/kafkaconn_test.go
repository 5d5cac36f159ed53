package kafkaconn

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/wire"
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

// TestLog: an operator hears at the start that certificates are not checked, once a minute that
// brokers throttle this client, and at level debug that sessions are renewed.
func TestLog(t *testing.T) {
	var told bytes.Buffer
	c, clock := connection(t, Options{TLS: &TLS{InsecureSkipVerify: true}, ClientID: "truck"})
	transport := c.Client([]string{"b:1"}).Transport.(*wire.Transport)
	transport.Throttled(protocol.Fetch, time.Second) // nobody listens yet
	c.Log(slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for range 100 {
		transport.Throttled(protocol.Produce, time.Second)
		clock.pass(time.Second)
	}
	c.renewed("b:1", time.Minute)
	text := told.String()
	for words, times := range map[string]int{
		"insecure_skip_verify: the brokers' certificates are not checked":                      1,
		"level=WARN msg=\"brokers throttle this client":                                        2,
		"client_id=truck request=Produce held=1s held_in_all=2s":                               1,
		"client_id=truck request=Produce held=1s held_in_all=1m2s":                             1,
		"level=DEBUG msg=\"logged in again before the session ended\" broker=b:1 session=1m0s": 1,
	} {
		if got := strings.Count(text, words); got != times {
			t.Errorf("%q is said %d times, want %d:\n%s", words, got, times, text)
		}
	}
	(*Connection)(nil).Log(slog.Default()) // a connection in plain text has nothing to say
}
