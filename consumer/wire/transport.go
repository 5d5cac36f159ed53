package wire

import (
	"context"
	"net"
	"reflect"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Transport is kafka-go's transport, with what requests have to know beside it. A client may have
// kafka-go's own instead; then it has no rack, and nobody hears of throttling.
type Transport struct {
	*kafka.Transport

	// Rack says where this client is, in the words of the brokers' broker.rack. A fetcher then
	// reads from the nearest replica (KIP-392). Empty: from the leader.
	Rack string

	// Throttled is told how long a broker holds this client up, for the sake of a quota. It must be
	// safe for concurrent use. Nil: nobody is told.
	Throttled func(protocol.ApiKey, time.Duration)
}

// RoundTrip implements kafka.RoundTripper.
func (t *Transport) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	res, err := t.Transport.RoundTrip(ctx, addr, req)
	if t.Throttled != nil && err == nil {
		if held := throttle(res); held > 0 {
			t.Throttled(res.ApiKey(), held)
		}
	}
	return res, err
}

// transportOf returns the client's transport.
func transportOf(client *kafka.Client) kafka.RoundTripper {
	if client.Transport == nil {
		return kafka.DefaultTransport
	}
	return client.Transport
}

// Outcome is how one request ended.
type Outcome struct {
	API   protocol.ApiKey
	Took  time.Duration // until the answer or the error, with the wait for a connection
	Held  time.Duration // how long the broker holds this client up, for the sake of a quota
	Codes []kafka.Error // for which the broker refused the request, or parts of it
	Err   error         // why there is no answer
}

// Observed returns a client that works over another one's connections, and tells how each of its
// requests ended. The function must be safe for concurrent use, and quick: the caller waits for it.
// A client may be observed by several.
func Observed(client *kafka.Client, tell func(Outcome)) *kafka.Client {
	own := *client
	own.Transport = &observed{transportOf(client), tell}
	return &own
}

type observed struct {
	kafka.RoundTripper
	tell func(Outcome)
}

// RoundTrip implements kafka.RoundTripper.
func (o *observed) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	began := time.Now()
	res, err := o.RoundTripper.RoundTrip(ctx, addr, req)
	told := Outcome{API: req.ApiKey(), Took: time.Since(began), Err: err}
	if err == nil {
		told.Held, told.Codes = throttle(res), codes(res)
	}
	o.tell(told)
	return res, err
}

// unobserved returns what a transport observes, if it does, and itself otherwise.
func unobserved(transport kafka.RoundTripper) kafka.RoundTripper {
	for {
		o, ok := transport.(*observed)
		if !ok {
			return transport
		}
		transport = o.RoundTripper
	}
}

// RackOf returns where a client is, empty if that is not known.
func RackOf(client *kafka.Client) string {
	if t, ok := unobserved(transportOf(client)).(*Transport); ok {
		return t.Rack
	}
	return ""
}

// defaultClientID is what brokers hear of a client that does not say its name.
const defaultClientID = "geodither"

// codes returns the codes for which a broker refused a request, or parts of it, each once. Of
// answers that are read as bytes it knows those of a fetch and of a group's membership.
func codes(res protocol.Message) (found []kafka.Error) {
	add := func(code int16) {
		if e := kafka.Error(code); e != 0 && !slices.Contains(found, e) {
			found = append(found, e)
		}
	}
	if hidden, ok := res.(*answer); ok {
		res = hidden.Message
	}
	f, ok := res.(*Frame)
	if !ok {
		walkCodes(reflect.ValueOf(res), add)
		return found
	}
	r := &Reader{Rest: f.Body}
	switch {
	case f.Key == protocol.Fetch && f.Version >= 7:
		r.Int32() // throttle time
		add(r.Int16())
		r.Int32() // session
		if r.Count(6) == 1 {
			r.String() // topic
			if r.Count(18) == 1 {
				r.Int32() // partition
				add(r.Int16())
			}
		}
	case f.Key == protocol.JoinGroup, f.Key == protocol.SyncGroup, f.Key == protocol.Heartbeat,
		f.Key == protocol.LeaveGroup:
		r.SkipTags()
		r.Int32() // throttle time
		add(r.Int16())
	}
	return found
}
