package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// AnyBroker sends a message to whichever broker the transport has at hand.
const AnyBroker int32 = -1

// MaxAnswerBytes bounds what an answer may claim to hold. Kafka answers a fetch with at most its
// MaxBytes, or with one batch, whichever is more.
const MaxAnswerBytes = 1 << 30

// Exchange is one request to one broker, and its answer, over kafka-go's connections.
//
// Without it kafka-go chooses the broker by the message's type, which costs a FindCoordinator
// request before each transactional one; it serves metadata from a cache that is up to 6 s old;
// and it decodes every answer by reflection. An Exchange hides the message's type from the
// transport, names the broker, and can return the answer as bytes.
//
// An exchange and its buffer are for one attempt: after a timeout the connection may still be
// reading the message, or writing into the buffer.
type Exchange struct {
	Op      string           // what errors call the request
	Message protocol.Message // one of kafka-go's, or a *Request
	To      int32            // the id of a broker, or AnyBroker
	Timeout time.Duration    // for the request and its answer together
	// Raw asks for the answer as a *Frame, which is what a *Request is always answered with.
	Raw bool
	Buf []byte // memory for the frame, which may be replaced by a larger one
	// Cut, if set, closes the connection when it ends. Without it an exchange that nobody waits
	// for any more goes on until its deadline.
	Cut context.Context

	version    int16 // of a kafka-go message: what the connection and its broker agreed on
	clientID   string
	advertised string // host:port of the broker To, as the cluster tells it; empty: not known yet
}

// RoundTrip sends the message and waits for the answer. Any error is that of the connection or of
// the context; NeverSent says whether the broker can have received the message.
func RoundTrip(ctx context.Context, client *kafka.Client, x Exchange) (protocol.Message, error) {
	// kafka-go sets the connection's deadline from the context's.
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	transport := transportOf(client)
	x.clientID = clientID(transport)
	res, err := transport.RoundTrip(ctx, client.Addr, &x)
	if err != nil && x.advertised != "" {
		err = &advertisedError{x.advertised, err}
	}
	if hidden, ok := res.(*answer); ok {
		return hidden.Message, err
	}
	return res, err
}

// clientID returns the name that a transport gives itself.
func clientID(transport kafka.RoundTripper) string {
	if t, ok := unobserved(transport).(*Transport); ok && t.ClientID != "" {
		return t.ClientID
	}
	return defaultClientID
}

// Ask is RoundTrip for an answer of one type. Any error is an *Error: a temporary one if the
// exchange failed.
func Ask[T protocol.Message](ctx context.Context, client *kafka.Client, x Exchange) (T, error) {
	var none T
	res, err := RoundTrip(ctx, client, x)
	if err != nil {
		return none, &Error{Op: x.Op, Temporary: true, Hint: ReachHint(client, err), Err: err}
	}
	got, ok := res.(T)
	if !ok { // a broken transport
		return none, &Error{Op: x.Op, Err: fmt.Errorf("the transport answered with %T", res)}
	}
	return got, nil
}

// NeverSent reports whether a failed exchange cannot have reached a broker, because the transport
// did not know the broker or could not connect. Any other failed exchange may have arrived.
func NeverSent(err error) bool {
	var dial *net.OpError
	return errors.As(err, new(*routingError)) ||
		errors.Is(err, kafka.BrokerNotAvailable) ||
		errors.As(err, &dial) && dial.Op == "dial"
}

// ReachHint names the brokers if an exchange failed because none of them could be reached, or the
// one that did not answer where the cluster has told its address. It is empty otherwise; a
// LinkError has advice of its own.
func ReachHint(client *kafka.Client, err error) string {
	var broker *advertisedError
	switch {
	case !NeverSent(err) || errors.As(err, new(*routingError)) || IsLinkError(err):
		return ""
	case errors.As(err, &broker):
		return Advertised(broker.address)
	case client.Addr != nil:
		return fmt.Sprintf("cannot reach any of %s: is Kafka running there?", client.Addr)
	}
	return ""
}

// Advertised says what to do about a broker whose address the cluster tells and that cannot be
// reached there.
func Advertised(address string) string {
	return fmt.Sprintf("the cluster advertises a broker as %s, which cannot be reached from here: "+
		"correct its advertised.listeners, or this machine's name service or firewall", address)
}

// advertisedError is an exchange that failed with a broker at an address that the cluster has told.
type advertisedError struct {
	address string // host:port
	error
}

func (e *advertisedError) Unwrap() error { return e.error }

// routingError is a message that was not sent, because the transport does not know its broker
// yet. It will when it has refreshed its metadata.
type routingError struct{ broker int32 }

func (e *routingError) Error() string {
	return fmt.Sprintf("broker %d is not in the cluster's metadata", e.broker)
}

// ApiKey implements protocol.Message.
//
//nolint:revive // kafka-go's name
func (x *Exchange) ApiKey() protocol.ApiKey { return x.Message.ApiKey() }

// Broker implements protocol.BrokerMessage.
func (x *Exchange) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if x.To == AnyBroker {
		return protocol.Broker{ID: AnyBroker}, nil
	}
	if broker, ok := cluster.Brokers[x.To]; ok {
		x.advertised = net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
		return broker, nil
	}
	return protocol.Broker{}, &routingError{x.To}
}

// Required implements protocol.RawExchanger: RawExchange is always used, with the version of the
// message that this connection and its broker agreed on.
func (x *Exchange) Required(versions map[protocol.ApiKey]int16) bool {
	x.version = versions[x.Message.ApiKey()]
	return true
}

// RawExchange implements protocol.RawExchanger.
func (x *Exchange) RawExchange(rw io.ReadWriter) (res protocol.Message, err error) {
	if conn, ok := rw.(net.Conn); ok && x.Cut != nil {
		stop := context.AfterFunc(x.Cut, func() { _ = conn.Close() }) // the exchange fails then
		defer func() {
			if !stop() {
				// An error keeps kafka-go from using the closed connection again.
				res, err = nil, context.Cause(x.Cut)
			}
		}()
	}
	version, flexible := x.version, false
	if own, ok := x.Message.(*Request); ok {
		version, flexible = own.version, true
		_, err = rw.Write(own.frame(x.clientID))
	} else if x.Raw {
		err = protocol.WriteRequest(rw, version, correlationID, x.clientID, x.Message)
	} else {
		res, err = protocol.RoundTrip(rw, version, correlationID, x.clientID, x.Message)
		if err != nil {
			return nil, err
		}
		return &answer{res}, nil
	}
	if err != nil {
		return nil, err
	}
	body, err := readFrame(rw, x.Buf)
	if err != nil {
		return nil, err
	}
	return &Frame{Key: x.Message.ApiKey(), Version: version, Body: body, flexible: flexible}, nil
}

// frame returns the request as it is sent:
//
//	size 4 | key 2 | version 2 | correlation id 4 | client id string | tags | body
func (q *Request) frame(clientID string) []byte {
	be := binary.BigEndian
	b := make([]byte, 4, 4+2+2+4+2+len(clientID)+1+len(q.body))
	b = be.AppendUint16(b, uint16(q.key))
	b = be.AppendUint16(b, uint16(q.version))
	b = be.AppendUint32(b, correlationID)
	b = be.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	b = append(b, 0) // no tagged fields
	b = append(b, q.body...)
	be.PutUint32(b, uint32(len(b)-4))
	return b
}

// readFrame reads one answer into buf, or into a larger one.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if size < 0 || size > MaxAnswerBytes {
		return nil, fmt.Errorf("an answer of %d bytes: not Kafka, or TLS is expected", size)
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
