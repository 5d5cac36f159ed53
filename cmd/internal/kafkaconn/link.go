package kafkaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"

	"github.com/geodither/geodither/consumer/wire"
)

// dialer makes connections to brokers. It is safe for concurrent use.
type dialer struct {
	clientID  string
	tls       *TLS          // nil: plain text
	login     *login        // nil: none
	handshake time.Duration // how long a TLS handshake may take
	now       func() time.Time
	ends      ends
	renewed   func(broker string, lifetime time.Duration) // is told of a login that was repeated
}

// dial connects to a broker, with TLS and the login. kafka-go's transport calls it, with a context
// that ends after its DialTimeout. Every error is a net.OpError of the operation "dial": nothing of
// a request was sent.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn, dialer: d, broker: address}
	if err := l.open(ctx); err != nil {
		_ = conn.Close() // err says more
		return nil, dialError(network, err)
	}
	return l, nil
}

// handshakePatience is less than the time that a dial may take, so that the error says which part
// of it had no answer: a server that does not speak TLS may wait for more to read.
const handshakePatience = 3 * time.Second

// dialError marks an error as one of dialling. The address is not named: a LinkError names it.
func dialError(network string, err error) error {
	return &net.OpError{Op: "dial", Net: network, Err: err}
}

// link is a connection to a broker. kafka-go has one goroutine for it, which sends a request, reads
// its answer, and only then sends the next one.
type link struct {
	net.Conn // with TLS, the encrypted one
	dialer   *dialer
	broker   string // host:port

	version int16     // of SaslAuthenticate
	renew   time.Time // when to log in again; zero: never

	requests int // sent, whole or in part
	left     int // bytes that the request being sent still has
	size     []byte
	answered bool // something was read
}

// open does the TLS handshake, the first request and the login, as far as there are any.
func (l *link) open(ctx context.Context) error {
	d := l.dialer
	if d.tls == nil && d.login == nil {
		return nil
	}
	// A deadline alone would not notice that the caller gives up.
	raw := l.Conn
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if deadline, ok := ctx.Deadline(); ok {
		if err := l.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if err := l.secure(ctx); err != nil {
		return err
	}
	// The first request shows whether this is a broker, and whether it takes the client's
	// certificate: in TLS 1.3 that comes after the handshake.
	version, err := askVersions(l.Conn, d.clientID)
	if err != nil {
		if d.tls != nil && !wire.RanOut(err) {
			return d.tls.explain(err, l.broker, d.now())
		}
		return explainClosed(err, l.broker, false)
	}
	if d.login != nil {
		if l.version = version; version < 0 {
			return &wire.LinkError{
				Broker: l.broker, Err: errHandshake,
				Advice: "it is too old for kafka.sasl: geodither needs Kafka 1.0 or later",
			}
		}
		if _, err := l.logIn(ctx); err != nil {
			return err
		}
	}
	return l.SetDeadline(time.Time{})
}

// askVersions asks what a broker can do: the first request of every connection. It returns the
// newest version of SaslAuthenticate that both sides know, -1 if the broker knows none.
func askVersions(conn net.Conn, clientID string) (authenticate int16, err error) {
	res, err := exchange[*apiversions.Response](conn, clientID, 0, new(apiversions.Request))
	if err != nil {
		return -1, err
	}
	if res.ErrorCode != 0 {
		return -1, kafka.Error(res.ErrorCode)
	}
	for _, k := range res.ApiKeys {
		if protocol.ApiKey(k.ApiKey) == protocol.SaslAuthenticate {
			return min(k.MaxVersion, 1), nil
		}
	}
	return -1, nil
}

// secure does the TLS handshake.
func (l *link) secure(ctx context.Context) error {
	t, now := l.dialer.tls, l.dialer.now()
	if t == nil {
		return nil
	}
	config, own, err := t.config(kafkaTLS, host(l.broker), now)
	if err != nil {
		return err
	}
	l.dialer.ends.set("", own)
	conn := tls.Client(l.Conn, config)
	ctx, cancel := context.WithTimeout(ctx, l.dialer.handshake)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return t.explain(err, l.broker, now)
	}
	l.Conn = conn
	if shown := conn.ConnectionState().PeerCertificates; len(shown) > 0 {
		l.dialer.ends.set(l.broker, shown[0].NotAfter)
	}
	return nil
}

// leastRenewal is how soon a broker takes another login on a connection: Kafka treats one within a
// second as an error.
const leastRenewal = 1100 * time.Millisecond

// host returns the name in host:port.
func host(address string) string {
	if name, _, err := net.SplitHostPort(address); err == nil {
		return name
	}
	return address
}

// logIn logs in, for the first time or again. It returns how long the session lasts, 0 forever.
func (l *link) logIn(ctx context.Context) (time.Duration, error) {
	d := l.dialer
	began := d.now()
	lifetime, err := d.login.run(ctx, l.Conn, d.clientID, l.version)
	if err != nil {
		return 0, d.login.explain(err, l.broker)
	}
	l.renew = time.Time{}
	if lifetime > 0 {
		l.renew = began.Add(max(renewAt(lifetime), leastRenewal))
	}
	return lifetime, nil
}

// renewalPatience bounds a login that is repeated; the deadline of the request that waits for it
// holds too.
const renewalPatience = 5 * time.Second

// Write implements net.Conn. Before a request it logs in again if the session is about to end. No
// answer is due then, so the login has the connection to itself.
func (l *link) Write(b []byte) (int, error) {
	if l.left == 0 && len(l.size) == 0 {
		if !l.renew.IsZero() && !l.dialer.now().Before(l.renew) {
			ctx, cancel := context.WithTimeout(context.Background(), renewalPatience)
			defer cancel()
			lifetime, err := l.logIn(ctx)
			if err != nil {
				return 0, dialError("tcp", err)
			}
			l.dialer.renewed(l.broker, lifetime)
		}
		l.requests++
	}
	n, err := l.Conn.Write(b)
	l.follow(b[:n])
	return n, err
}

// follow finds the ends of requests in what is sent: each is its size in 4 bytes, and as many
// bytes.
func (l *link) follow(sent []byte) {
	for len(sent) > 0 {
		if l.left == 0 {
			take := min(4-len(l.size), len(sent))
			l.size, sent = append(l.size, sent[:take]...), sent[take:]
			if len(l.size) < 4 {
				return
			}
			l.left = int(binary.BigEndian.Uint32(l.size))
			l.size = l.size[:0]
			continue
		}
		take := min(l.left, len(sent))
		l.left -= take
		sent = sent[take:]
	}
}

// Read implements net.Conn. On a connection without a login it explains the ways in which a broker
// that wants one, or TLS, refuses the first requests, and an answer that is not a broker's.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	encrypted := l.dialer.tls != nil
	if l.dialer.login != nil {
		return n, err
	}
	const first = 2 // ApiVersions is answered to anybody; the next request only after a login
	switch {
	case err != nil && isClosed(err) && l.requests <= first:
		err = explainClosed(err, l.broker, encrypted)
	case n > 0 && !l.answered && !encrypted && isAlert(b[:n]):
		return 0, explainClosed(errAlert, l.broker, encrypted)
	case n > 0 && !l.answered && isStrange(b[:n]):
		return 0, &wire.LinkError{
			Broker: l.broker, Advice: "it answers with something else than Kafka's protocol: " +
				"name the address of a broker's listener", Err: errStrange, Unproven: true,
		}
	}
	l.answered = l.answered || n > 0
	return n, err
}

var errAlert = errors.New("it answered with a TLS alert")

// isAlert reports whether an answer begins as a TLS record of the type alert. Kafka's begin with
// their size, which would then be 352 MB.
func isAlert(b []byte) bool { return b[0] == 21 && (len(b) == 1 || b[1] == 3) }

var errStrange = errors.New("no answer of Kafka begins so")

// isStrange reports whether the first answer cannot be Kafka's, which begins with its size: it
// says which requests a broker knows, and takes some hundred bytes.
func isStrange(b []byte) bool {
	const most = 1 << 24
	return len(b) >= 4 && binary.BigEndian.Uint32(b) > most
}

// explainClosed says what to do about a broker that ends a connection without a login at once.
func explainClosed(err error, broker string, encrypted bool) error {
	if !isClosed(err) && !errors.Is(err, errAlert) {
		return err
	}
	missing := "TLS or a login; set kafka.tls and kafka.sasl, or use the port of its PLAINTEXT"
	if encrypted {
		missing = "a login; set kafka.sasl, or use the port of its SSL"
	}
	return &wire.LinkError{
		Broker: broker, Advice: "it closed the connection instead of answering: if this goes " +
			"on, the port probably wants " + missing + " listener",
		// Not err itself: kafka-go would put an error of its own in the place of any io.EOF.
		Err: errors.New(err.Error()),
		// An alert refuses this client. A closed connection does not: proxies and brokers that
		// are starting close them too.
		Unproven: isClosed(err),
	}
}

// isClosed reports whether the other side ended a connection.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// explain says what to do about a handshake that failed, or about a broker that ended the
// connection right after it. It returns an error without such a reason as it is.
func (t *TLS) explain(err error, broker string, now time.Time) error {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
	)
	advice, unproven := "", false
	switch {
	case errors.As(err, &unknown):
		advice = "its certificate is signed by an authority that this machine does not know: put " +
			"the authority's certificate into a file and name it as kafka.tls.ca_file"
		if t.CAFile != "" {
			advice = fmt.Sprintf("its certificate is not signed by any authority in "+
				"kafka.tls.ca_file (%s): put the authority's certificate into it", t.CAFile)
		}
	case errors.As(err, &name):
		advice = "its certificate is for other names: name the broker as the certificate does, " +
			"in brokers and in the broker's advertised.listeners, or set kafka.tls.server_name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired &&
		now.Before(invalid.Cert.NotBefore):
		advice = "its certificate is not valid yet: check the clocks of both machines"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		advice = "its certificate has expired: the broker needs a new one; if it is valid, check " +
			"this machine's clock"
	case errors.As(err, &invalid), errors.As(err, new(*tls.CertificateVerificationError)):
		advice = "its certificate cannot be used for a broker: it needs a new one"
	case errors.As(err, &record):
		unproven = true // a proxy in front of a broker that is away may answer in its place
		advice = "it does not speak TLS: use the port of its SSL or SASL_SSL listener, or " +
			"remove kafka.tls"
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded):
		unproven = true
		advice = "it does not answer the TLS handshake: if this goes on, the port is probably " +
			"one without TLS; use that of its SSL or SASL_SSL listener, or remove kafka.tls"
	case isClosed(err):
		unproven = true
		advice = "it closed the connection during the TLS handshake: if this goes on, the port " +
			"is probably one without TLS; use that of its SSL or SASL_SSL listener, or " +
			"remove kafka.tls"
	case strings.Contains(err.Error(), "remote error: tls: "):
		advice = t.explainAlert(err.Error())
	default:
		return err
	}
	return &wire.LinkError{Broker: broker, Advice: advice, Err: err, Unproven: unproven}
}

// explainAlert says what to do about the broker's own words. Java brokers have few of them.
func (t *TLS) explainAlert(text string) string {
	switch {
	case strings.Contains(text, "protocol version"),
		strings.Contains(text, "handshake failure") && t.CertFile != "":
		return "it has no TLS version or cipher in common with this client, which needs TLS " +
			"1.2 or later"
	case t.CertFile == "":
		return "it refuses a client without a certificate: set kafka.tls.cert_file and key_file, " +
			"or use a listener with ssl.client.auth=none"
	case strings.Contains(text, "expired"):
		return fmt.Sprintf("this client's certificate has expired, it answers: renew %s, or "+
			"check the broker's clock", t.CertFile)
	}
	return fmt.Sprintf("it refuses this client's certificate (%s): is it signed by an authority "+
		"in the broker's trust store, and valid?", t.CertFile)
}

// explain says what to do about a login that failed. It returns an error without such a reason as
// it is.
func (l *login) explain(err error, broker string) error {
	advice, unproven := "", false
	var refused *refusal
	user := fmt.Sprintf("user %q", l.sasl.Username)
	credentials := "check kafka.sasl.username and the password, and that the broker has " +
		"this user for " +
		l.sasl.Mechanism
	if l.sasl.Mechanism == OAuthBearer {
		user = "the token"
		credentials = "check the token's issuer, audience, scope and expiry against the broker's " +
			"settings, and kafka.sasl.oauthbearer.extensions"
	}
	if l.sasl.Mechanism == MSKIAM {
		user = "the token that AWS's credentials have signed"
		credentials = "check that their role may connect (kafka-cluster:Connect on the cluster), " +
			"AWS_REGION, the listener's port (9098, or 9198), and this machine's clock"
	}
	switch {
	case errors.As(err, &refused) && refused.code == kafka.UnsupportedSASLMechanism:
		advice = fmt.Sprintf("it does not offer kafka.sasl.mechanism %s: choose one of %s",
			l.sasl.Mechanism, strings.Join(refused.mechanisms, ", "))
	case errors.As(err, &refused) && refused.code == kafka.IllegalSASLState:
		advice = "it asks for no login on this port: use the port of its SASL_SSL listener, or " +
			"remove kafka.sasl"
	case errors.As(err, &refused):
		advice = "it refuses " + user + ": " + credentials
	case errors.As(err, new(*tokenError)):
		unproven = true
		advice = "no token to log in with"
	case isClosed(err) && errors.Is(err, errAuthenticate):
		unproven = true
		advice = "it closed the connection during the login of " + user + ": if this goes on, " +
			credentials
	case isClosed(err) && errors.Is(err, errHandshake):
		unproven = true
		advice = "it closed the connection at the login: if this goes on, this port probably " +
			"takes none; use that of its SASL_SSL listener"
	default:
		return err
	}
	return &wire.LinkError{Broker: broker, Advice: advice, Err: err, Unproven: unproven}
}
