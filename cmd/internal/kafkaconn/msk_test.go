//go:build msk

package kafkaconn

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
)

// awsEnvironment sets static credentials, and keeps the machine's own out.
func awsEnvironment(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "top/secret",
		"AWS_SESSION_TOKEN": "session", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

// TestMSKToken: a token is the URL of a request to the region's endpoint, signed for a quarter of
// an hour, and the secret is not in it. It is made again before it ends.
func TestMSKToken(t *testing.T) {
	awsEnvironment(t)
	t.Setenv("AWS_REGION", "eu-central-1")
	at := &clock{at: time.Now()}
	tokens, err := newMSKTokens(at.now)
	must(t, err)
	token, err := tokens.token(t.Context())
	must(t, err)
	text, err := base64.RawURLEncoding.DecodeString(token)
	must(t, err)
	signed, err := url.Parse(string(text))
	must(t, err)
	if signed.Scheme != "https" || signed.Host != "kafka.eu-central-1.amazonaws.com" {
		t.Errorf("the token is for %s://%s", signed.Scheme, signed.Host)
	}
	query := signed.Query()
	for name, want := range map[string]string{
		"Action": "kafka-cluster:Connect", "X-Amz-Expires": "900",
		"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-SignedHeaders": "host",
		"X-Amz-Security-Token": "session",
	} {
		if got := query.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	made, err := time.Parse("20060102T150405Z", query.Get("X-Amz-Date"))
	if err != nil || time.Since(made) > time.Hour ||
		!strings.HasPrefix(query.Get("X-Amz-Credential"), "AKIDEXAMPLE/") ||
		!strings.HasSuffix(query.Get("X-Amz-Credential"),
			"/eu-central-1/kafka-cluster/aws4_request") ||
		len(query.Get("X-Amz-Signature")) != 64 || strings.Contains(string(text), "top/secret") {
		t.Errorf("the token is not signed as it has to be: %v, %v", query, err)
	}
	if !tokenForm.MatchString(token) {
		t.Error("the token cannot be sent as one of OAUTHBEARER")
	}
	at.pass(11 * time.Minute)
	if again, err := tokens.token(t.Context()); err != nil || again != token {
		t.Errorf("before four fifths of its life there is another token: %v", err)
	}
	at.pass(2 * time.Minute)
	if tokens.renew.After(at.now()) {
		t.Errorf("the token is kept until %v", tokens.renew)
	}
}

// TestMSKRegion: the region comes from AWS's own settings.
func TestMSKRegion(t *testing.T) {
	awsEnvironment(t)
	if _, err := newMSKTokens(time.Now); err == nil ||
		!strings.Contains(err.Error(), "set AWS_REGION") {
		t.Errorf("without a region: %v", err)
	}
	t.Setenv("AWS_REGION", "us-west-2")
	tokens, err := newMSKTokens(time.Now)
	must(t, err)
	token, err := tokens.token(t.Context())
	must(t, err)
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !strings.Contains(string(text), "https://kafka.us-west-2.amazonaws.com/") {
		t.Errorf("the token is for %s, %v", text, err)
	}
}

// TestMSKWithoutCredentials: the error says where credentials can come from.
func TestMSKWithoutCredentials(t *testing.T) {
	awsEnvironment(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_REGION", "eu-central-1")
	tokens, err := newMSKTokens(time.Now)
	must(t, err)
	if _, err := tokens.token(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "AWS gives no credentials; set AWS_ACCESS_KEY_ID") {
		t.Errorf("without credentials: %v", err)
	}
}

// TestMSKLogin: a login is one of OAUTHBEARER, and is repeated with a new token before the session
// ends.
func TestMSKLogin(t *testing.T) {
	awsEnvironment(t)
	t.Setenv("AWS_REGION", "eu-central-1")
	sent := make(chan string, 4)
	const session = 15 * time.Minute
	s := &script{authenticate: func(message []byte) *saslauthenticate.Response {
		sent <- string(message)
		return &saslauthenticate.Response{SessionLifetimeMs: session.Milliseconds()}
	}}
	address := s.start(t)
	c, at := connection(t, Options{SASL: &SASL{
		Mechanism: MSKIAM, AllowPlaintext: true,
	}})
	conn, err := c.dial(t.Context(), "tcp", address)
	must(t, err)
	defer conn.Close()
	at.pass(renewAt(session) + time.Second)
	if _, err := conn.Write(nil); err != nil {
		t.Fatal(err)
	}
	if n := s.count(protocol.SaslAuthenticate); n != 2 {
		t.Errorf("%d logins in a session's life, want 2", n)
	}
	close(sent)
	for message := range sent {
		if !strings.HasPrefix(message, "n,,\x01auth=Bearer aHR0cHM6Ly9rYWZrYS") {
			t.Errorf("the login is %.40q", message)
		}
	}
}
