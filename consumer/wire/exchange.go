package wire

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

// AnyBroker routes a message to whichever broker the transport has at hand.
const AnyBroker int32 = -1

// MaxAnswerBytes bounds what an answer may claim to hold. A fetch is answered
// with at most its MaxBytes, or one batch, whichever is more.
const MaxAnswerBytes = 1 << 30

// Exchange carries a message to a broker of our choice over kafka-go's
// connections, and can take the answer as bytes. kafka-go chooses the broker by
// the message's type and by metadata up to 6 s old, and decodes by reflection.
//
// An exchange and its buffer are used once if the call fails: after a timeout
// the connection may still be reading into it.
type Exchange struct {
	Message protocol.Message
	To      int32
	Raw     bool   // answer with a *frame
	Buf     []byte // for the frame, grown as needed
	version int16
	// cut, if set, closes the connection when it ends. Without it an exchange
	// that nobody waits for any more goes on until its deadline.
	Cut context.Context
}

// Frame is an answer from behind its correlation id.
type Frame struct {
	Key     protocol.ApiKey
	Version int16
	Body    []byte
}

// answer hides an answer's type from the transport, which takes every metadata
// response for one to a request of its own.
type answer struct{ protocol.Message }

// Encoder is a message that writes itself, for versions kafka-go does not know.
type Encoder interface {
	protocol.Message
	// encode returns the request behind its size, and its version.
	Encode(correlationID int32, clientID string) (request []byte, version int16)
}

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (f *Frame) ApiKey() protocol.ApiKey { return f.Key } //nolint:revive // kafka-go's name

// ApiKey, with kafka-go's spelling, implements protocol.Message.
func (x *Exchange) ApiKey() protocol.ApiKey { return x.Message.ApiKey() } //nolint:revive // kafka-go's name

// Broker implements protocol.BrokerMessage.
func (x *Exchange) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if x.To == AnyBroker {
		return protocol.Broker{ID: AnyBroker}, nil
	}
	if broker, ok := cluster.Brokers[x.To]; ok {
		return broker, nil
	}
	return protocol.Broker{}, fmt.Errorf("broker %d is not in the cluster's metadata", x.To)
}

// Required implements protocol.RawExchanger: always, with the version that this
// connection and its broker agreed on.
func (x *Exchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.version = versions[x.Message.ApiKey()]
	return true
}

// RawExchange implements protocol.RawExchanger. A connection carries one
// exchange at a time, so that one correlation id is enough.
func (x *Exchange) RawExchange(rw io.ReadWriter) (res protocol.Message, err error) {
	const correlationID, clientID = 1, "geodither"
	if conn, ok := rw.(net.Conn); ok && x.Cut != nil {
		stop := context.AfterFunc(x.Cut, func() { _ = conn.Close() }) // the exchange will say so
		defer func() {
			if !stop() {
				res, err = nil, context.Cause(x.Cut) // an error keeps the connection from being used again
			}
		}()
	}
	if !x.Raw {
		res, err := protocol.RoundTrip(rw, x.version, correlationID, clientID, x.Message)
		if err != nil {
			return nil, err
		}
		return &answer{res}, nil
	}
	version := x.version
	if own, ok := x.Message.(Encoder); ok {
		var request []byte
		request, version = own.Encode(correlationID, clientID)
		if _, err := rw.Write(request); err != nil {
			return nil, err
		}
	} else if err := protocol.WriteRequest(rw, version, correlationID, clientID, x.Message); err != nil {
		return nil, err
	}
	body, err := readFrame(rw, correlationID, x.Buf)
	if err != nil {
		return nil, err
	}
	return &Frame{Key: x.Message.ApiKey(), Version: version, Body: body}, nil
}

// readFrame reads one answer into buf, or into a larger one.
func readFrame(r io.Reader, correlationID int32, buf []byte) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if size < 0 || size > MaxAnswerBytes {
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

// RoundTrip sends a message once and waits for its answer, no longer than
// timeout: kafka-go sets a connection's deadline from the context's.
func RoundTrip(ctx context.Context, client *kafka.Client, x *Exchange, timeout time.Duration) (protocol.Message, error) {
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
