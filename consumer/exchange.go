package consumer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// anyBroker routes a message to whichever broker the transport has at hand.
const anyBroker int32 = -1

// maxAnswerBytes bounds what an answer may claim to hold. A fetch is answered
// with at most its MaxBytes, or one batch, whichever is more.
const maxAnswerBytes = 1 << 30

// exchange carries a message to a broker of our choice over kafka-go's
// connections, and can take the answer as bytes. kafka-go chooses the broker by
// the message's type and by metadata up to 6 s old, and decodes by reflection.
//
// An exchange and its buffer are used once if the call fails: after a timeout
// the connection may still be reading into it.
type exchange struct {
	message protocol.Message
	broker  int32
	raw     bool   // answer with a *frame
	buf     []byte // for the frame, grown as needed
	version int16
	// cut, if set, closes the connection when it ends. Without it an exchange
	// that nobody waits for any more goes on until its deadline.
	cut context.Context
}

// frame is an answer from behind its correlation id.
type frame struct {
	key     protocol.ApiKey
	version int16
	body    []byte
}

// answer hides an answer's type from the transport, which takes every metadata
// response for one to a request of its own.
type answer struct{ protocol.Message }

// encoded is a message that writes itself, for versions kafka-go does not know.
type encoded interface {
	protocol.Message
	// encode returns the request behind its size, and its version.
	encode(correlationID int32, clientID string) (request []byte, version int16)
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (f *frame) ApiKey() protocol.ApiKey { return f.key } //nolint:revive // kafka-go's name

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
	return protocol.Broker{}, fmt.Errorf("broker %d is not in the cluster's metadata", x.broker)
}

// Required implements protocol.RawExchanger: always, with the version that this
// connection and its broker agreed on.
func (x *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.version = versions[x.message.ApiKey()]
	return true
}

// RawExchange implements protocol.RawExchanger. A connection carries one
// exchange at a time, so that one correlation id is enough.
func (x *exchange) RawExchange(rw io.ReadWriter) (res protocol.Message, err error) {
	const correlationID, clientID = 1, "geodither"
	if conn, ok := rw.(net.Conn); ok && x.cut != nil {
		stop := context.AfterFunc(x.cut, func() { _ = conn.Close() }) // the exchange will say so
		defer func() {
			if !stop() {
				res, err = nil, context.Cause(x.cut) // an error keeps the connection from being used again
			}
		}()
	}
	if !x.raw {
		res, err := protocol.RoundTrip(rw, x.version, correlationID, clientID, x.message)
		if err != nil {
			return nil, err
		}
		return &answer{res}, nil
	}
	version := x.version
	if own, ok := x.message.(encoded); ok {
		var request []byte
		request, version = own.encode(correlationID, clientID)
		if _, err := rw.Write(request); err != nil {
			return nil, err
		}
	} else if err := protocol.WriteRequest(rw, version, correlationID, clientID, x.message); err != nil {
		return nil, err
	}
	body, err := readFrame(rw, correlationID, x.buf)
	if err != nil {
		return nil, err
	}
	return &frame{key: x.message.ApiKey(), version: version, body: body}, nil
}

// readFrame reads one answer into buf, or into a larger one.
func readFrame(r io.Reader, correlationID int32, buf []byte) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if size < 0 || size > maxAnswerBytes {
		return nil, fmt.Errorf("an answer of %d bytes: not a Kafka broker, or one that expects TLS", size)
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != correlationID {
		return nil, fmt.Errorf("an answer to another request: %d, not %d", id, correlationID)
	}
	if int64(cap(buf)) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err := io.ReadFull(r, buf)
	return buf, err
}

// roundTrip sends a message once and waits for its answer, no longer than
// timeout: kafka-go sets a connection's deadline from the context's.
func roundTrip(ctx context.Context, client *kafka.Client, x *exchange, timeout time.Duration) (protocol.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	transport := client.Transport
	if transport == nil {
		transport = kafka.DefaultTransport
	}
	res, err := transport.RoundTrip(ctx, client.Addr, x)
	if wrapped, ok := res.(*answer); ok {
		return wrapped.Message, err
	}
	return res, err
}
