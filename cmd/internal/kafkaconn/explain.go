package kafkaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/wire"
)

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
			"kafka.sasl.aws_region, the listener's port (9098, or 9198), and this machine's clock"
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
