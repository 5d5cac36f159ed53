package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
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

// TestCodes: what a broker refused is read from every sort of answer, each code once.
func TestCodes(t *testing.T) {
	refused := func(codes ...int16) *produce.Response {
		var topics []produce.ResponseTopic
		for _, code := range codes {
			topics = append(topics, produce.ResponseTopic{
				Partitions: []produce.ResponsePartition{{ErrorCode: code}},
			})
		}
		return &produce.Response{Topics: topics}
	}
	// throttle 4 | error 2 | session 4 | one topic: its name, one partition: its number, error 2
	fetched := []byte{0, 0, 0, 0, 0, 71, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0}
	fetched = append(fetched, 0, 6)
	fetched = append(fetched, make([]byte, 32)...)
	for name, c := range map[string]struct {
		answer protocol.Message
		want   []kafka.Error
	}{
		"kafka-go's": {&heartbeat.Response{ErrorCode: 27}, []kafka.Error{27}},
		"hidden":     {&answer{&heartbeat.Response{ErrorCode: 27}}, []kafka.Error{27}},
		"of parts":   {refused(0, 6, 6, 7), []kafka.Error{6, 7}},
		"none":       {refused(0), nil},
		"fetch": {
			&Frame{Key: protocol.Fetch, Version: 11, Body: fetched}, []kafka.Error{71, 6},
		},
		"an old fetch": {&Frame{Key: protocol.Fetch, Version: 6, Body: fetched}, nil},
		"cut short":    {&Frame{Key: protocol.Fetch, Version: 11, Body: fetched[:5]}, nil},
		"membership": {&Frame{
			Key: protocol.SyncGroup, Version: 5, Body: []byte{0, 0, 0, 0, 0, 0, 27}, flexible: true,
		}, []kafka.Error{27}},
		"unknown bytes": {&Frame{Key: protocol.Metadata, Body: []byte{0, 0, 0, 0, 0, 27}}, nil},
		"nothing":       {nil, nil},
		"a nil answer":  {(*heartbeat.Response)(nil), nil},
	} {
		if got := codes(c.answer); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// answering is a transport that gives one answer.
type answering struct {
	kafka.RoundTripper
	answer protocol.Message
	err    error
}

func (a answering) RoundTrip(context.Context, net.Addr, kafka.Request) (kafka.Response, error) {
	return a.answer, a.err
}

// TestObserved: every observer hears how a request ended, and the rack and the name are those of
// the transport below.
func TestObserved(t *testing.T) {
	var heard []Outcome
	tell := func(o Outcome) {
		if o.Took < 0 {
			t.Errorf("it took %v", o.Took)
		}
		o.Took = 0
		heard = append(heard, o)
	}
	own := &Transport{Transport: &kafka.Transport{ClientID: "truck"}, Rack: "a"}
	client := Observed(Observed(&kafka.Client{Transport: own}, tell), tell)
	if RackOf(client) != "a" || clientID(client.Transport) != "truck" {
		t.Error("an observed client has lost its rack or its name")
	}
	for _, c := range []struct {
		answering
		want Outcome
	}{
		{
			answering{answer: &heartbeat.Response{ErrorCode: 27, ThrottleTimeMs: 7}},
			Outcome{Held: 7 * time.Millisecond, Codes: []kafka.Error{27}},
		},
		{answering{err: io.EOF}, Outcome{Err: io.EOF}},
	} {
		heard = nil
		client := Observed(Observed(&kafka.Client{Transport: c.answering}, tell), tell)
		_, err := RoundTrip(t.Context(), client, Exchange{
			Message: &heartbeat.Request{}, To: AnyBroker, Timeout: time.Minute,
		})
		c.want.API = protocol.Heartbeat
		want := []Outcome{c.want, c.want}
		if !errors.Is(err, c.err) || !reflect.DeepEqual(heard, want) {
			t.Errorf("heard %+v, want %+v; the error is %v", heard, want, err)
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
