package kafkaconn

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
)

// OAuthBearer is the mechanism whose secret is a token, as Kafka spells it.
const OAuthBearer = "OAUTHBEARER"

// MSKIAM is the mechanism of Amazon MSK's IAM, as Amazon spells it. Brokers know it as OAUTHBEARER
// with a token that AWS's credentials have signed. It is in builds with the tag msk.
const MSKIAM = "AWS_MSK_IAM"

// OAuth says where the token of OAUTHBEARER comes from: a token endpoint that is asked with client
// credentials (RFC 6749, 4.4), or a file that somebody else keeps up to date.
type OAuth struct {
	TokenEndpointURL string `yaml:"token_endpoint_url"`
	ClientID         string `yaml:"client_id"`
	ClientSecret     Secret `yaml:"client_secret"`
	// ClientSecretFile is read for each token. It takes the place of ClientSecret.
	ClientSecretFile string `yaml:"client_secret_file"`
	Scope            string `yaml:"scope"`
	// CAFile has the authorities of the token endpoint's certificate; empty: the system's.
	CAFile string `yaml:"ca_file"`
	// TokenFile has the token itself, such as a projected service account token of Kubernetes. It
	// is read for each login.
	TokenFile string `yaml:"token_file"`
	// Extensions are sent to the broker beside the token (RFC 7628). Confluent Cloud wants
	// logicalCluster and identityPoolId.
	Extensions map[string]string `yaml:"extensions"`
}

func (o OAuth) isZero() bool {
	if len(o.Extensions) == 0 {
		o.Extensions = nil
	}
	return reflect.ValueOf(o).IsZero()
}

// What RFC 7628 allows in an extension, with KIP-342's names.
var (
	extensionName  = regexp.MustCompile(`^[A-Za-z]+$`)
	extensionValue = regexp.MustCompile(`^[\x21-\x7e \t\r\n]+$`)
)

// bearer is the mechanism OAUTHBEARER with one token.
type bearer struct {
	token      string
	extensions map[string]string
}

// Name implements sasl.Mechanism.
func (bearer) Name() string { return OAuthBearer }

// Start implements sasl.Mechanism. The message is that of RFC 7628, 3.1:
//
//	n,, 0x01 auth=Bearer TOKEN 0x01 (NAME=VALUE 0x01)* 0x01
func (b bearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	var m strings.Builder
	m.WriteString("n,,\x01auth=Bearer " + b.token + "\x01")
	for _, name := range slices.Sorted(maps.Keys(b.extensions)) {
		m.WriteString(name + "=" + b.extensions[name] + "\x01")
	}
	m.WriteString("\x01")
	return &bearerSession{}, []byte(m.String()), nil
}

// bearerSession is one login. A broker that takes the token answers with nothing. Another one
// answers with the reason in JSON, expects a 0x01, and then answers with an error.
type bearerSession struct{ reason string }

// Next implements sasl.StateMachine.
func (s *bearerSession) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	switch {
	case s.reason != "":
		return true, nil, fmt.Errorf("the token is refused: %s", s.reason)
	case len(challenge) == 0:
		return true, nil, nil
	}
	s.reason = string(challenge)
	return false, []byte{1}, nil
}

// tokens gives the token for each login. It asks the token endpoint once for all connections, and
// again when most of the token's life is over.
type tokens struct {
	oauth OAuth
	http  *http.Client
	now   func() time.Time
	// ask makes or gets another token, and says how long it lasts.
	ask func(context.Context) (token string, life time.Duration, err error)

	turn         chan struct{} // holds one element while nobody asks
	last         string
	renew, until time.Time // of the last token: when to ask for another, when it ends
}

// newTokenSource returns tokens of a function.
func newTokenSource(now func() time.Time,
	ask func(context.Context) (string, time.Duration, error),
) *tokens {
	t := &tokens{now: now, ask: ask, turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	return t
}

func newTokens(o OAuth, plaintext bool) (*tokens, error) {
	const section = "kafka.sasl.oauthbearer"
	for name, value := range o.Extensions {
		if !extensionName.MatchString(name) || name == "auth" ||
			!extensionValue.MatchString(value) {
			return nil, fmt.Errorf("%s.extensions: %q: names have letters, values printable "+
				"ASCII", section, name)
		}
	}
	t := newTokenSource(time.Now, nil)
	t.oauth, t.ask = o, t.askEndpoint
	if o.TokenFile != "" {
		o.TokenFile, o.Extensions = "", nil
		if !o.isZero() {
			return nil, fmt.Errorf("%s: token_file excludes token_endpoint_url and its "+
				"credentials", section)
		}
		_, err := t.fromFile()
		return t, err
	}
	endpoint, err := url.Parse(o.TokenEndpointURL)
	switch {
	case o.TokenEndpointURL == "":
		return nil, fmt.Errorf("%s: set token_endpoint_url, client_id and client_secret_file, or "+
			"token_file", section)
	case err != nil || endpoint.Host == "" || endpoint.User != nil:
		return nil, fmt.Errorf("%s.token_endpoint_url: write https://HOST/PATH, without "+
			"credentials", section)
	case endpoint.Scheme != "https" && (endpoint.Scheme != "http" || !plaintext):
		return nil, fmt.Errorf("%s.token_endpoint_url: write https://, or permit http:// with "+
			"sasl.allow_plaintext: true (no-tls)", section)
	case o.ClientID == "":
		return nil, fmt.Errorf("%s.client_id is not set", section)
	case o.ClientSecret == nil && o.ClientSecretFile == "":
		return nil, fmt.Errorf("%s.client_secret_file: name a file, or client_secret: ${NAME}",
			section)
	case o.ClientSecret != nil && o.ClientSecretFile != "":
		return nil, fmt.Errorf("%s: client_secret and client_secret_file exclude each other",
			section)
	}
	if _, err := t.secret(); err != nil {
		return nil, err
	}
	pool, err := readPool(section+".ca_file", o.CAFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:           http.ProxyFromEnvironment,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool},
	}
	t.http = &http.Client{
		Transport: transport,
		// A redirect would carry the secret to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return t, nil
}

func (t *tokens) secret() (string, error) {
	return secretFrom(t.oauth.ClientSecret, "kafka.sasl.oauthbearer.client_secret_file",
		t.oauth.ClientSecretFile)
}

// fromFile reads the token that somebody else has put into a file.
func (t *tokens) fromFile() (string, error) {
	const key = "kafka.sasl.oauthbearer.token_file"
	return tokenFrom(key, t.oauth.TokenFile)
}

// tokenFrom reads a bearer token from a file. key names the setting of the file in errors.
func tokenFrom(key, path string) (string, error) {
	token, err := secretFrom(nil, key, path)
	if err == nil && !tokenForm.MatchString(token) {
		return "", fmt.Errorf("%s: %s does not hold a token alone", key, path)
	}
	return token, err
}

// tokenForm is a bearer token (RFC 6750, 2.1).
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/=-]+$`)

// token returns a token that is valid now. While the endpoint fails, the last token serves until it
// ends.
func (t *tokens) token(ctx context.Context) (string, error) {
	if t.oauth.TokenFile != "" {
		return t.fromFile()
	}
	select {
	case <-t.turn:
		defer func() { t.turn <- struct{}{} }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := t.now()
	if now.Before(t.renew) {
		return t.last, nil
	}
	token, life, err := t.ask(ctx)
	if err != nil {
		if now.Before(t.until) {
			return t.last, nil
		}
		return "", &tokenError{err}
	}
	t.last, t.renew, t.until = token, now.Add(renewAt(life)), now.Add(life)
	return token, nil
}

// renewAt returns when to renew what lasts for a time: early enough that a slow renewal is done
// before the end.
func renewAt(life time.Duration) time.Duration { return life / 5 * 4 }

// tokenError says that there is no token.
type tokenError struct{ error }

// Unwrap returns the cause.
func (e *tokenError) Unwrap() error { return e.error }

// askEndpoint asks the endpoint for a token, and names it in errors.
func (t *tokens) askEndpoint(ctx context.Context) (string, time.Duration, error) {
	token, life, err := t.post(ctx)
	if err != nil {
		err = fmt.Errorf("token endpoint %s: %w", t.oauth.TokenEndpointURL, err)
	}
	return token, life, err
}

// post asks the endpoint for a token with the client's credentials.
func (t *tokens) post(ctx context.Context) (token string, life time.Duration, err error) {
	secret, err := t.secret()
	if err != nil {
		return "", 0, err
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if t.oauth.Scope != "" {
		form.Set("scope", t.oauth.Scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.oauth.TokenEndpointURL,
		strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	// RFC 6749, 2.3.1: both are form-encoded before they become a header.
	req.SetBasicAuth(url.QueryEscape(t.oauth.ClientID), url.QueryEscape(secret))
	res, err := t.http.Do(req)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // without the address, which is named already
		}
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			err = fmt.Errorf("its certificate is not trusted (kafka.sasl.oauthbearer.ca_file): %w",
				err)
		}
		return "", 0, err
	}
	defer res.Body.Close()
	const most = 1 << 20
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	if err != nil {
		return "", 0, err
	}
	var answer struct {
		Token       string  `json:"access_token"`
		Life        float64 `json:"expires_in"` // seconds
		Error       string  `json:"error"`
		Description string  `json:"error_description"`
	}
	if err := json.Unmarshal(body, &answer); err != nil && res.StatusCode == http.StatusOK {
		return "", 0, errors.New("it answered no JSON: is it a token endpoint?")
	}
	switch {
	case res.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("it answered %s %s: check client_id, client_secret_file and scope",
			res.Status, scrub(strings.TrimSpace(answer.Error+" "+answer.Description), secret))
	case !tokenForm.MatchString(answer.Token):
		return "", 0, errors.New("its answer has no access_token")
	}
	const unsaid = 5 * time.Minute // RFC 6749 only recommends expires_in
	if life = time.Duration(answer.Life * float64(time.Second)); life <= 0 {
		life = unsaid
	}
	return answer.Token, life, nil
}
