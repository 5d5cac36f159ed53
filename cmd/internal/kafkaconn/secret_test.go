package kafkaconn

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"go.yaml.in/yaml/v3"
)

// TestSecretsAreNotTold plants a password, a client secret, a token and a private key, lets
// everything go wrong that can, and looks for them in what can be printed.
func TestSecretsAreNotTold(t *testing.T) {
	const password, clientSecret, token = "canary-password 1", "canary-secret-2", "canary-token.3"
	a := newAuthority(t)
	a.sign("client", nil)
	a.sign("other", nil)
	key, err := os.ReadFile(a.path("client.key"))
	must(t, err)
	secrets := map[string]string{
		"password": password, "client secret": clientSecret, "token": token,
		"password in base64": base64.StdEncoding.EncodeToString([]byte(password))[:16],
		"password in a URL":  url.QueryEscape(password),
		"credentials as a head": base64.StdEncoding.EncodeToString(
			[]byte("c:" + clientSecret))[:16],
		"private key": strings.Split(string(key), "\n")[1],
	}
	var told bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tell := func(what ...any) {
		for _, v := range what {
			fmt.Fprintf(&told, "%v %+v %#v %s %q %x %d\n", v, v, v, v, v, v, v)
			log.Info("told", "value", v)
			data, err := json.Marshal(v)
			fmt.Fprintln(&told, string(data), err)
		}
	}
	// Settings and connections, in every form.
	plainLogin := SASL{
		Mechanism: Plain, Username: "u", Password: NewSecret(password), AllowPlaintext: true,
	}
	bearerLogin := SASL{Mechanism: OAuthBearer, AllowPlaintext: true, OAuth: OAuth{
		TokenEndpointURL: "http://127.0.0.1:1/token", ClientID: "c",
		ClientSecret: NewSecret(clientSecret),
	}}
	tell(NewSecret(password), plainLogin, &plainLogin, bearerLogin, Options{SASL: &plainLogin},
		[]Secret{NewSecret(token)})
	text, err := yaml.Marshal(plainLogin)
	tell(string(text), err)

	// Brokers that refuse, and repeat what they were sent.
	echo := &script{authenticate: func(m []byte) *saslauthenticate.Response {
		return &saslauthenticate.Response{
			ErrorCode: int16(kafka.SASLAuthenticationFailed), ErrorMessage: "refused: " + string(m),
		}
	}}
	broker := echo.start(t)
	tokenFile := file(t, token)
	for _, s := range []SASL{
		plainLogin, bearerLogin,
		{Mechanism: Plain, Username: "u", PasswordFile: file(t, password), AllowPlaintext: true},
		{
			Mechanism: ScramSHA256, AllowPlaintext: true, Username: "u",
			Password: NewSecret(password),
		},
		{Mechanism: OAuthBearer, AllowPlaintext: true, OAuth: OAuth{TokenFile: tokenFile}},
	} {
		conn, _ := connection(t, Options{SASL: &s})
		conn.Log(log)
		_, err := conn.dial(t.Context(), "tcp", broker)
		if err == nil {
			t.Error("no error")
		}
		tell(err, errors.Unwrap(err))
	}
	if echo.count(protocol.SaslAuthenticate) < 4 {
		t.Error("the test sends less than it means to")
	}
	// Settings that cannot be used.
	for _, s := range []SASL{
		{Mechanism: "none", Password: NewSecret(password)},
		{
			Mechanism: Plain, Username: "u", Password: NewSecret(password),
			PasswordFile: file(t, password),
		},
		{
			Mechanism: ScramSHA256, AllowPlaintext: true, Username: "u",
			Password: NewSecret(password + "\x00"),
		},
		{
			Mechanism: OAuthBearer,
			OAuth:     OAuth{TokenEndpointURL: "https://c:" + clientSecret + "@idp.example/"},
		},
		{Mechanism: OAuthBearer, OAuth: OAuth{TokenFile: file(t, token+" "+token)}},
	} {
		_, err := New(Options{TLS: a.trusting(), SASL: &s})
		if err == nil {
			t.Error("no error")
		}
		tell(err)
	}
	for _, pair := range [][2]string{
		{"client.key", "client.crt"}, {"client.key", "client.key"}, {"other.crt", "client.key"},
	} {
		_, err := New(Options{TLS: &TLS{CertFile: a.path(pair[0]), KeyFile: a.path(pair[1])}})
		if err == nil {
			t.Error("no error")
		}
		tell(err)
	}
	for name, secret := range secrets {
		for i, line := range strings.Split(told.String(), "\n") {
			if strings.Contains(line, secret) {
				t.Errorf("line %d has the %s: %s", i+1, name, line)
			}
		}
	}
	if !strings.Contains(told.String(), redacted) {
		t.Error("nothing is redacted: the test prints less than it means to")
	}
}
