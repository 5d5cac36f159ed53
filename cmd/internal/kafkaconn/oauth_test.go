package kafkaconn

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
)

// idp is a token endpoint.
type idp struct {
	*httptest.Server
	asked  atomic.Int32
	answer http.HandlerFunc
}

func newIDP(t *testing.T, answer http.HandlerFunc) *idp {
	t.Helper()
	p := &idp{answer: answer}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(
		w http.ResponseWriter, r *http.Request,
	) {
		p.asked.Add(1)
		p.answer(w, r)
	}))
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

// settings are those of a client that the endpoint knows.
func (p *idp) settings(t *testing.T) OAuth {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	return OAuth{
		TokenEndpointURL: p.URL + "/token", ClientID: "fleet:1",
		ClientSecretFile: file(t, "top secret\n"), Scope: "kafka read", CAFile: file(t, string(ca)),
		Extensions: map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool-2"},
	}
}

func grant(token string, seconds int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": token, "token_type": "Bearer", "expires_in": seconds,
		})
	}
}

// TestOAuth: the endpoint gets the client's credentials, and the broker the endpoint's token with
// the extensions, by RFC 6749 and RFC 7628.
func TestOAuth(t *testing.T) {
	p := newIDP(t, nil)
	p.answer = func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost ||
			r.URL.Path != "/token" ||
			user != "fleet%3A1" || password != "top+secret" ||
			r.PostForm.Encode() != "grant_type=client_credentials&scope=kafka+read" {
			t.Errorf("%s %s by %q, %q: %v", r.Method, r.URL, user, r.PostForm, err)
		}
		grant("abc.def", 300)(w, r)
	}
	s := &script{authenticate: func(m []byte) *saslauthenticate.Response {
		const want = "n,,\x01auth=Bearer " +
			"abc.def\x01identityPoolId=pool-2\x01logicalCluster=lkc-1\x01\x01"
		if string(m) != want {
			t.Errorf("the message is %q, want %q", m, want)
		}
		return &saslauthenticate.Response{}
	}}
	broker := s.start(t)
	conn, _ := connection(t, Options{
		SASL: &SASL{Mechanism: OAuthBearer, OAuth: p.settings(t), AllowPlaintext: true},
	})
	for range 3 {
		c, err := conn.dial(t.Context(), "tcp", broker)
		must(t, err)
		must(t, c.Close())
	}
	if n := p.asked.Load(); n != 1 {
		t.Errorf("%d tokens for three connections of one client", n)
	}
}

// TestOAuthRefused: a broker that refuses a token says why in JSON, and gets the answer that it
// waits for. The token is not repeated.
func TestOAuthRefused(t *testing.T) {
	step := 0
	s := &script{authenticate: func(m []byte) *saslauthenticate.Response {
		if step++; step == 1 {
			return &saslauthenticate.Response{AuthBytes: []byte(`{"status":"invalid_token"}`)}
		}
		if string(m) != "\x01" {
			t.Errorf("the client answers %q to a refusal", m)
		}
		return &saslauthenticate.Response{
			ErrorCode:    int16(kafka.SASLAuthenticationFailed),
			ErrorMessage: `{"status":"invalid_token"} abc.def`,
		}
	}}
	broker := s.start(t)
	o := OAuth{TokenFile: file(t, "abc.def")}
	conn, _ := connection(t, Options{
		SASL: &SASL{Mechanism: OAuthBearer, OAuth: o, AllowPlaintext: true},
	})
	_, err := conn.dial(t.Context(), "tcp", broker)
	mustRefuse(t, err, "refuses the token", "audience", "invalid_token", "[redacted]")
	if strings.Contains(err.Error(), "abc.def") {
		t.Errorf("the error has the token: %v", err)
	}
	// A broker that does not end the login itself.
	session := bearerSession{}
	_, _, err = session.Next(t.Context(), []byte(`{"status":"insufficient_scope"}`))
	must(t, err)
	if _, _, err := session.Next(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "insufficient_scope") {
		t.Errorf("a refusal without an error code is taken for a login: %v", err)
	}
}

// TestTokens: a token is renewed when most of its life is over; while the endpoint fails, the last
// one serves until it ends.
func TestTokens(t *testing.T) {
	p := newIDP(t, grant("one", 100))
	c := &clock{at: time.Now()}
	tokens, err := newTokens(p.settings(t), false)
	tokens.now = c.now
	must(t, err)
	want := func(token string, asked int32) {
		t.Helper()
		got, err := tokens.token(t.Context())
		must(t, err)
		if got != token || p.asked.Load() != asked {
			t.Fatalf("%q after %d requests, want %q after %d", got, p.asked.Load(), token, asked)
		}
	}
	want("one", 1)
	c.pass(79 * time.Second)
	want("one", 1)
	p.answer = grant("two", 0) // its life is not said: five minutes
	c.pass(2 * time.Second)
	want("two", 2)
	c.pass(3 * time.Minute)
	want("two", 2)
	p.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	c.pass(90 * time.Second)
	want("two", 3) // the endpoint is asked, and fails
	c.pass(time.Minute)
	if token, err := tokens.token(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "502") {
		t.Errorf("after its end %q is still used: %v", token, err)
	}
}

// TestTokenEndpointErrors: what the endpoint says is in the error, and the secret is not.
func TestTokenEndpointErrors(t *testing.T) {
	p := newIDP(t, nil)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"not top secret"}`)
		}, "401 Unauthorized invalid_client not [redacted]: check client_id"},
		"a web page": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
			"no JSON",
		},
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<html>")
		}, "404 Not Found"},
		"no token": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"expires_in":3}`) },
			"no access_token",
		},
		"a bad token": {grant("a\x01b", 3), "no access_token"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/token", http.StatusTemporaryRedirect)
		}, "307 Temporary Redirect"},
	} {
		p.answer = c.answer
		tokens, err := newTokens(p.settings(t), false)
		must(t, err)
		_, err = tokens.token(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), p.URL) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "top secret") {
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
	untrusted := p.settings(t)
	untrusted.CAFile = ""
	tokens, err := newTokens(untrusted, false)
	must(t, err)
	if _, err := tokens.token(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("an endpoint that is not trusted: %v", err)
	}
}

// TestTokenFile: the file is read for each login.
func TestTokenFile(t *testing.T) {
	path := file(t, "first\n")
	tokens, err := newTokens(OAuth{TokenFile: path}, false)
	must(t, err)
	for _, want := range []string{"first", "second"} {
		must(t, os.WriteFile(path, []byte(want+"\n"), 0o600))
		if got, err := tokens.token(t.Context()); err != nil || got != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}
