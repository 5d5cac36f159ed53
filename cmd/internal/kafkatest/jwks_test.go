//go:build kafka

package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
)

// issuer signs tokens, as an identity provider does (RFC 7519, ES256 of RFC 7518).
type issuer struct{ key *ecdsa.PrivateKey }

func newIssuer(t *testing.T) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{key}
}

// keys is the set of keys that a broker checks tokens by (RFC 7517).
func (i issuer) keys() string {
	point, err := i.key.PublicKey.Bytes() // 4 | x 32 | y 32
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"1",`+
		`"x":%q,"y":%q}]}`, encode(point[1:33]), encode(point[33:]))
}

// token is for an audience named kafka.
func (i issuer) token(subject string, life time.Duration) string {
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	text := encode([]byte(`{"alg":"ES256","kid":"1"}`)) + "." + encode(fmt.Appendf(nil,
		`{"iss":"test","aud":"kafka","scope":"kafka","sub":%q,"iat":%d,"exp":%d}`, subject,
		now.Unix(), now.Add(life).Unix()))
	digest := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	if err != nil {
		panic(err)
	}
	var signature [64]byte
	r.FillBytes(signature[:32])
	v.FillBytes(signature[32:])
	return text + "." + encode(signature[:])
}

// TestSignedTokens: a broker that checks tokens by an identity provider's keys takes those of the
// endpoint, again and again, and refuses all others.
func TestSignedTokens(t *testing.T) {
	t.Parallel()
	provider, stranger := newIssuer(t), newIssuer(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, provider.keys())
	}))
	t.Cleanup(server.Close)
	s := privateSecured(t, "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="+server.URL,
		"listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class="+
			"org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
		// The default of Kafka 4.1.1 takes tokens that anybody has signed.
		"sasl.oauthbearer.jwt.validator.class="+
			"org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
		"sasl.oauthbearer.jwks.endpoint.url="+server.URL,
		"sasl.oauthbearer.expected.audience=kafka", "sasl.oauthbearer.expected.issuer=test")
	w := s.world(2, 10)
	w.createRaw()
	w.feed(20)
	o := w.options("signed")
	s.grant(login, o.ACLs())
	o.Brokers, o.Connection = s.sasl, s.connection(kafkaconn.Options{
		TLS: s.tls(), SASL: &kafkaconn.SASL{
			Mechanism: kafkaconn.OAuthBearer, OAuth: s.endpoint(provider.token),
		},
	})
	service := s.serve(o)
	o.Connection.Log(slog.New(slog.NewTextHandler(service.log,
		&slog.HandlerOptions{Level: slog.LevelDebug})))
	s.says(service, "logged in again before the session ended")
	w.feed(5)
	s.eventually("all is answered", func() bool { return service.ended() || w.answered(o) })
	service.stop()
	w.exactlyOnce(w.options("signed"))

	for name, token := range map[string]string{
		"unsigned":      unsigned("geodither", time.Minute),
		"of a stranger": stranger.token("geodither", time.Minute),
		"expired":       provider.token("geodither", -time.Minute),
	} {
		file := filepath.Join(t.TempDir(), "token")
		s.ok(os.WriteFile(file, []byte(token), 0o600))
		_, err := s.connection(kafkaconn.Options{TLS: s.tls(), SASL: &kafkaconn.SASL{
			Mechanism: kafkaconn.OAuthBearer, OAuth: kafkaconn.OAuth{TokenFile: file},
		}}).Connect(t.Context(), s.sasl)
		if err == nil || !strings.Contains(err.Error(), "refuses the token") {
			t.Errorf("a token that is %s: %v", name, err)
		}
	}
}
