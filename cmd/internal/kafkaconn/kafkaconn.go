package kafkaconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Options say how to connect to a cluster. The zero value connects in plain text, without a login.
type Options struct {
	ClientID string // what brokers call this client in quotas and logs; default geodither
	// where this client is, as in the brokers' broker.rack; empty: read from leaders
	Rack string
	TLS  *TLS  // nil: plain text
	SASL *SASL // nil: no login
}

// Connection makes connections to a cluster. It is safe for concurrent use, and one serves all
// clients of a process: they share its OAuth token. The nil Connection connects in plain text.
type Connection struct {
	dialer
	rack string

	mu       sync.Mutex
	log      *slog.Logger // nil: nobody listens
	held     time.Duration
	reported time.Time // when throttling was logged last
}

// New returns a connection. It checks the options and reads the files that they name, so that
// mistakes are found at the start. It connects to nothing.
func New(o Options) (*Connection, error) {
	c := newConnection(o)
	var errs []error
	if o.TLS != nil {
		_, own, err := o.TLS.config(kafkaTLS, "localhost", c.now())
		c.ends.set("", own)
		errs = append(errs, err)
	}
	if o.SASL != nil {
		var err error
		c.login, err = newLogin(*o.SASL, o.TLS)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func newConnection(o Options) *Connection {
	c := &Connection{rack: o.Rack}
	c.dialer = dialer{
		clientID: cmp.Or(o.ClientID, "geodither"), tls: o.TLS,
		handshake: handshakePatience, now: time.Now, renewed: c.renewed,
	}
	return c
}

// renewed logs that a session was renewed over the connection that it had.
func (c *Connection) renewed(broker string, lifetime time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log != nil {
		c.log.Debug("logged in again before the session ended", "broker", broker,
			"session", lifetime)
	}
}

// Client returns a client of brokers given as host:port. It connects to nothing before it is used,
// and its connections are closed once nobody can use it any more: kafka-go asks for metadata every
// MetadataTTL until then.
func (c *Connection) Client(brokers []string) *kafka.Client {
	if c == nil {
		c = newConnection(Options{})
	}
	pools := &kafka.Transport{
		ClientID:    c.clientID,
		Dial:        c.dial,
		DialTimeout: 5 * time.Second,
		MetadataTTL: time.Second, // how long a new topic or a moved leader goes unnoticed
	}
	transport := &wire.Transport{Transport: pools, Rack: c.rack, Throttled: c.throttled}
	runtime.AddCleanup(transport, (*kafka.Transport).CloseIdleConnections, pools)
	return &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport}
}

// NewClient is Client of a connection in plain text, without a login.
func NewClient(brokers []string) *kafka.Client { return (*Connection)(nil).Client(brokers) }

// Certificates returns when TLS certificates end, by whose they are: "client" is this client's, as
// the last connection has read it from its file; "broker" is the first to end of those that brokers
// have shown last. Without TLS there are none.
func (c *Connection) Certificates() map[string]time.Time {
	if c == nil || c.tls == nil {
		return nil
	}
	return c.ends.first()
}

// Log begins to log what an operator has to know of the connection: now its protocol, and from now
// on that brokers hold this client up.
func (c *Connection) Log(log *slog.Logger) {
	log.Info("connecting to Kafka", "protocol", c.Protocol())
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = log
}

// Protocol is Kafka's name of what the connection speaks: PLAINTEXT, SSL, SASL_PLAINTEXT or
// SASL_SSL.
func (c *Connection) Protocol() string {
	switch {
	case c == nil || c.tls == nil && c.login == nil:
		return "PLAINTEXT"
	case c.login == nil:
		return "SSL"
	case c.tls == nil:
		return "SASL_PLAINTEXT"
	}
	return "SASL_SSL"
}

// throttleGap is the least time between two lines about throttling.
const throttleGap = time.Minute

// throttled adds up for how long brokers hold this client up. The time counts once a request, also
// where several wait at the same time.
func (c *Connection) throttled(api protocol.ApiKey, held time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held += held
	now := c.now()
	if c.log == nil || now.Sub(c.reported) < throttleGap {
		return
	}
	c.reported = now
	c.log.Warn("brokers throttle this client: a quota of its user or client id is used up",
		"client_id", c.clientID, "request", api.String(), "held", held, "held_in_all", c.held)
}

// patience is how long Connect waits for a broker before it reports that there is none. kafka-go
// may dial twice for the first request, and each time the handshake's own error says more.
const patience = 2*handshakePatience + time.Second

// Connect returns a client whose brokers have answered, for commands that a person waits for.
// Requests that follow wait longer for brokers that are away, because they were there.
func (c *Connection) Connect(ctx context.Context, brokers []string) (*kafka.Client, error) {
	return c.connect(ctx, brokers, patience)
}

func (c *Connection) connect(ctx context.Context, brokers []string, patience time.Duration) (
	*kafka.Client, error,
) {
	if len(brokers) == 0 {
		return nil, cli.Usagef("no broker is named: HOST:PORT,... in brokers or --brokers")
	}
	if err := CheckBrokers(brokers); err != nil {
		return nil, cli.Usagef("brokers: %w", err)
	}
	client := c.Client(brokers)
	err := admin.Ping(ctx, client, wire.Options{RequestTimeout: patience})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !wire.IsLinkError(err) {
		return nil, fmt.Errorf("no answer from %s within %v: is Kafka running there? (%w)",
			strings.Join(brokers, ", "), patience, err)
	}
	return client, err
}

// Refused asks the brokers once, and returns an error only if that is a refusal (wire.IsRefusal).
// Brokers that are away or close the connection are no error: a caller that goes on waits for them.
func (c *Connection) Refused(ctx context.Context, brokers []string) error {
	if _, err := c.connect(ctx, brokers, patience); wire.IsRefusal(err) {
		return err
	}
	return nil
}

// CheckBrokers refuses addresses of brokers that no client could connect to. It looks no name up.
// An error begins with the address.
func CheckBrokers(brokers []string) error {
	var errs []error
	for _, broker := range brokers {
		if err := checkBroker(broker); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func checkBroker(address string) error {
	host, port, err := net.SplitHostPort(address)
	number, noPort := strconv.ParseUint(port, 10, 16)
	wrong := ""
	switch {
	case strings.TrimSpace(address) == "":
		wrong = "it is empty; each is a host:port"
	case strings.Contains(address, ","):
		wrong = "it has a comma; write a list, [host:port, host:port]"
	case strings.Contains(address, "://"):
		wrong = "it names a protocol: write host:port alone; TLS and logins are settings of kafka"
	case strings.ContainsFunc(address, unicode.IsSpace):
		wrong = "it holds a space: write host:port"
	case err != nil && strings.Count(address, ":") > 1 && !strings.HasPrefix(address, "["):
		wrong = "write an IPv6 address in brackets, such as [::1]:9092"
	case err != nil || port == "":
		wrong = "it has no port: write host:port, such as kafka-1:9092"
	case noPort != nil || number == 0:
		wrong = "its port is no number from 1 to 65535"
	case host == "" || strings.ContainsAny(host, "/@?#"):
		wrong = "no host name: write host:port"
	default:
		return nil
	}
	if at := strings.LastIndex(address, "@"); at >= 0 {
		address = "..." + address[at:] // before it is perhaps a password
	}
	return fmt.Errorf("%q: %s", address, wrong)
}

// first returns the ends that come first, by whose certificate it is.
func (e *ends) first() map[string]time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := map[string]time.Time{}
	if !e.client.IsZero() {
		found["client"] = e.client
	}
	for _, end := range e.brokers {
		if known, ok := found["broker"]; !ok || end.Before(known) {
			found["broker"] = end
		}
	}
	return found
}
