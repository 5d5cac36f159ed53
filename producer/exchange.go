package producer

import (
	"context"
	"fmt"
	"io"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// anyBroker routes a message to whichever broker the transport has at hand.
const anyBroker int32 = -1

// exchange carries a message to a broker of our choice over kafka-go's
// connections. kafka-go routes by the message's own type, which costs a
// FindCoordinator request before every transactional one, serves metadata from
// a cache up to 6 s old, and cannot send an InitProducerId without a
// transactional id. The wrapper hides the type, names the broker, and leaves
// the encoding to kafka-go.
//
// An exchange is used once: after a timeout the connection may still read it.
type exchange struct {
	message protocol.Message
	broker  int32
	version int16
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (x *exchange) ApiKey() protocol.ApiKey { return x.message.ApiKey() } //nolint:revive // kafka-go's name

// Broker implements protocol.BrokerMessage.
func (x *exchange) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if x.broker == anyBroker {
		return protocol.Broker{ID: anyBroker}, nil
	}
	if broker, ok := cluster.Brokers[x.broker]; ok {
		return broker, nil
	}
	return protocol.Broker{}, &routingError{x.broker}
}

// Required implements protocol.RawExchanger: always, with the version that this
// connection and its broker agreed on.
func (x *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.version = versions[x.message.ApiKey()]
	return true
}

// RawExchange implements protocol.RawExchanger. A connection carries one
// exchange at a time, so that the correlation id has nothing to tell apart.
func (x *exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const correlationID, clientID = 1, "geodither"
	res, err := protocol.RoundTrip(rw, x.version, correlationID, clientID, x.message)
	if err != nil {
		return nil, err
	}
	return &answer{res}, nil
}

// answer hides an answer's type from the transport, which takes every metadata
// response for one to a request of its own.
type answer struct{ protocol.Message }

// routingError is a message that was not sent, because the transport does not
// know its broker yet (it will, when it refreshes its metadata).
type routingError struct{ broker int32 }

func (e *routingError) Error() string {
	return fmt.Sprintf("broker %d is not in the cluster's metadata", e.broker)
}

// roundTrip sends a message once and waits for its answer, no longer than
// timeout: kafka-go sets a connection's deadline from the context's.
func roundTrip(ctx context.Context, client *kafka.Client, broker int32, message protocol.Message, timeout time.Duration) (protocol.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport := client.Transport
	if transport == nil {
		transport = kafka.DefaultTransport
	}
	res, err := transport.RoundTrip(ctx, client.Addr, &exchange{message: message, broker: broker})
	if wrapped, ok := res.(*answer); ok {
		return wrapped.Message, err
	}
	return res, err
}
