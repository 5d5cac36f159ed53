package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Mechanisms, as Kafka spells them.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// Mechanisms returns the names of all that a login can use.
func Mechanisms() []string {
	return []string{Plain, ScramSHA256, ScramSHA512, OAuthBearer, MSKIAM}
}

// SASL says how to log in: the section kafka.sasl of a config.
type SASL struct {
	Mechanism string `yaml:"mechanism"`
	Username  string `yaml:"username"` // for PLAIN and SCRAM, as both of the next two
	Password  Secret `yaml:"password"`
	// PasswordFile has the password, and is read for each login. It takes the place of Password.
	PasswordFile string `yaml:"password_file"`
	// AllowPlaintext permits a login without TLS, one of PLAIN and OAUTHBEARER to a broker whose
	// certificate is not checked, and sending a client secret to a token endpoint over http.
	AllowPlaintext bool  `yaml:"allow_plaintext"`
	OAuth          OAuth `yaml:"oauthbearer"`
}

// login logs in to brokers. It is safe for concurrent use.
type login struct {
	sasl   SASL
	tokens *tokens // of OAUTHBEARER and AWS_MSK_IAM
}

// newLogin checks the settings, and that their files can be read. It asks no token endpoint.
func newLogin(s SASL, t *TLS) (*login, error) {
	l := &login{sasl: s}
	const section = "kafka.sasl"
	if !slices.Contains(Mechanisms(), s.Mechanism) {
		return nil, fmt.Errorf("%s.mechanism %q is unknown: choose %s", section, s.Mechanism,
			strings.Join(Mechanisms(), ", "))
	}
	const permit = "sasl.allow_plaintext: true if the network is your own"
	bears := s.Mechanism == OAuthBearer || s.Mechanism == MSKIAM
	reveals := s.Mechanism == Plain || bears
	switch {
	case s.AllowPlaintext:
	case t == nil && reveals:
		return nil, fmt.Errorf("%s: %s would send its secret in plain text; to permit it: %s "+
			"(no-tls)", section, s.Mechanism, permit)
	case t == nil:
		return nil, fmt.Errorf("%s: without TLS others can try passwords of %s; to permit it: %s "+
			"(no-tls)", section, s.Mechanism, permit)
	}
	switch {
	case bears && (s.Username != "" || s.Password != nil || s.PasswordFile != ""):
		return nil, fmt.Errorf("%s: username and password are not for %s: %s", section, s.Mechanism,
			map[string]string{
				OAuthBearer: "see oauthbearer",
				MSKIAM:      "AWS's own settings have the credentials",
			}[s.Mechanism])
	case s.Mechanism == OAuthBearer:
		var err error
		l.tokens, err = newTokens(s.OAuth, s.AllowPlaintext)
		return l, err
	case !s.OAuth.isZero():
		return nil, fmt.Errorf("%s.oauthbearer is for %s, not for %s", section, OAuthBearer,
			s.Mechanism)
	case s.Mechanism == MSKIAM:
		var err error
		l.tokens, err = newMSKTokens(time.Now)
		return l, err
	case s.Username == "":
		return nil, fmt.Errorf("%s.username: name a user for %s", section, s.Mechanism)
	case s.Password != nil && s.PasswordFile != "":
		return nil, fmt.Errorf("%s: password and password_file exclude each other", section)
	case s.Password == nil && s.PasswordFile == "":
		return nil, fmt.Errorf("%s.password_file: name a file, or password: ${NAME}", section)
	}
	_, _, err := l.mechanism(context.Background())
	return l, err
}

// mechanism returns the mechanism with the secret as it is now, and the secret itself, to scrub it
// from what others write.
func (l *login) mechanism(ctx context.Context) (sasl.Mechanism, string, error) {
	s := l.sasl
	if l.tokens != nil {
		token, err := l.tokens.token(ctx)
		return bearer{token, s.OAuth.Extensions}, token, err
	}
	password, err := secretFrom(s.Password, "kafka.sasl.password_file", s.PasswordFile)
	if err != nil {
		return nil, "", err
	}
	switch s.Mechanism {
	case ScramSHA256, ScramSHA512:
		algorithm := scram.SHA256
		if s.Mechanism == ScramSHA512 {
			algorithm = scram.SHA512
		}
		m, err := scram.Mechanism(algorithm, s.Username, password)
		if err != nil {
			err = errors.New("kafka.sasl: username or password has a character that SCRAM refuses")
		}
		return m, password, err
	}
	return plain.Mechanism{Username: s.Username, Password: password}, password, nil
}

// exchange makes one request of a connection that nobody else uses.
func exchange[T protocol.Message](conn net.Conn, clientID string, version int16,
	req protocol.Message,
) (T, error) {
	var none T
	const correlationID = 1
	res, err := protocol.RoundTrip(conn, version, correlationID, clientID, req)
	if err != nil {
		return none, err
	}
	got, ok := res.(T)
	if !ok {
		return none, fmt.Errorf("the broker answered with %T", res)
	}
	return got, nil
}

// refusal is a login that a broker refused, in Kafka's code and the broker's own words.
type refusal struct {
	code       kafka.Error
	words      string
	mechanisms []string // that the broker offers, where the mechanism was refused
}

func (e *refusal) Error() string {
	if e.words == "" {
		return e.code.Error()
	}
	return e.words
}

func (e *refusal) Unwrap() error { return e.code }

// run logs in over a connection, and returns how long the session lasts; 0: for as long as the
// connection. The exchange is SaslHandshake version 1, then SaslAuthenticate until the mechanism is
// done. It is the same for a login that is repeated (KIP-368).
func (l *login) run(ctx context.Context, conn net.Conn, clientID string, version int16) (
	lifetime time.Duration, err error,
) {
	m, secret, err := l.mechanism(ctx)
	if err != nil {
		return 0, err
	}
	shaken, err := exchange[*saslhandshake.Response](conn, clientID, 1,
		&saslhandshake.Request{Mechanism: m.Name()})
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errHandshake, err)
	}
	if shaken.ErrorCode != 0 {
		return 0, &refusal{code: kafka.Error(shaken.ErrorCode), mechanisms: shaken.Mechanisms}
	}
	state, message, err := m.Start(ctx)
	if err != nil {
		return 0, err
	}
	for done := false; !done; {
		res, err := exchange[*saslauthenticate.Response](conn, clientID, version,
			&saslauthenticate.Request{AuthBytes: message})
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errAuthenticate, err)
		}
		if res.ErrorCode != 0 {
			return 0, &refusal{
				code: kafka.Error(res.ErrorCode), words: scrub(res.ErrorMessage, secret),
			}
		}
		if done, message, err = state.Next(ctx, res.AuthBytes); err != nil {
			return 0, &refusal{
				code: kafka.SASLAuthenticationFailed, words: scrub(err.Error(), secret),
			}
		}
		lifetime = time.Duration(res.SessionLifetimeMs) * time.Millisecond
	}
	return lifetime, nil
}

// Steps of a login at which a broker may close the connection instead of answering.
var (
	errHandshake    = errors.New("no answer to the SASL handshake")
	errAuthenticate = errors.New("no answer to the SASL credentials")
)
