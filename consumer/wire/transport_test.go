package wire

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// TestThrottle: how long a broker holds a client up is read from every sort of answer.
func TestThrottle(t *testing.T) {
	for name, c := range map[string]struct {
		answer protocol.Message
		want   time.Duration
	}{
		"kafka-go's":    {&fetch.Response{ThrottleTimeMs: 7}, 7 * time.Millisecond},
		"at the end":    {&produce.Response{ThrottleTimeMs: 7}, 7 * time.Millisecond},
		"hidden":        {&answer{&metadata.Response{ThrottleTimeMs: 7}}, 7 * time.Millisecond},
		"transactional": {&addpartitionstotxn.Response{ThrottleTimeMs: 7}, 7 * time.Millisecond},
		"none":          {&heartbeat.Response{}, 0},
		"negative":      {&fetch.Response{ThrottleTimeMs: -7}, 0},
		"bytes":         {&Frame{Body: []byte{0, 0, 1, 0, 9}}, 256 * time.Millisecond},
		"flexible bytes": {
			&Frame{Body: []byte{0, 0, 0, 1, 0}, flexible: true}, 256 * time.Millisecond,
		},
		"cut short":    {&Frame{Body: []byte{1, 1, 1, 1}, flexible: true}, 0},
		"no bytes":     {&Frame{}, 0},
		"nothing":      {nil, 0},
		"a nil answer": {(*fetch.Response)(nil), 0},
	} {
		if got := throttle(c.answer); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestLinkErrorHasItsOwnAdvice: a broker that was reached is not asked for, and the request was
// not sent if the error is one of dialling.
func TestLinkErrorHasItsOwnAdvice(t *testing.T) {
	client := &kafka.Client{Addr: kafka.TCP("b:1")}
	link := &LinkError{Broker: "b:1", Advice: "set this", Err: io.EOF}
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: link}
	if !NeverSent(dial) || NeverSent(link) || !IsLinkError(dial) || IsLinkError(io.EOF) {
		t.Error("what is known of the request is wrong")
	}
	if hint := ReachHint(client, dial); hint != "" {
		t.Errorf("the hint is %q", hint)
	}
	if hint := ReachHint(client, &net.OpError{Op: "dial", Err: io.EOF}); hint == "" {
		t.Error("no hint about a broker that is away")
	}
	if !errors.Is(dial, io.EOF) || !strings.Contains(dial.Error(), "broker b:1: set this (EOF)") {
		t.Errorf("the error is %v", dial)
	}
}

// TestClientID: a transport that has a name gives it in each request, and a plain one the default.
func TestClientID(t *testing.T) {
	named := &Transport{Transport: &kafka.Transport{ClientID: "truck"}, Rack: "a"}
	for transport, want := range map[kafka.RoundTripper]string{
		named: "truck", &Transport{Transport: &kafka.Transport{}}: "geodither",
		&kafka.Transport{}: "geodither",
	} {
		if got := clientID(transport); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if RackOf(&kafka.Client{Transport: named}) != "a" || RackOf(&kafka.Client{}) != "" {
		t.Error("the rack is not that of the transport")
	}
}
