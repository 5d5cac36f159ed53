package kafkaconn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/consumer/wire"
)

// file writes a file that only its owner can read, and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestLogin: every mechanism that has a password, over TLS, with the password in the config or in
// a file.
func TestLogin(t *testing.T) {
	a := newAuthority(t)
	_, brokers := cluster(t, kfake.TLS(a.server("broker", nil)), kfake.EnableSASL(),
		kfake.Superuser(Plain, "u", "plain word"), kfake.Superuser(ScramSHA256, "u", "256 word"),
		kfake.Superuser(ScramSHA512, "u", "512 word"))
	for mechanism, password := range map[string]string{
		Plain: "plain word", ScramSHA256: "256 word", ScramSHA512: "512 word",
	} {
		for name, s := range map[string]SASL{
			"config": {Password: NewSecret(password)},
			"file":   {PasswordFile: file(t, password+"\n")},
		} {
			s.Mechanism, s.Username = mechanism, "u"
			conn, _ := connection(t, Options{TLS: a.trusting(), SASL: &s})
			client, err := conn.Connect(t.Context(), brokers)
			if err != nil {
				t.Errorf("%s, password from the %s: %v", mechanism, name, err)
				continue
			}
			if _, err := client.Metadata(t.Context(), &kafka.MetadataRequest{}); err != nil {
				t.Errorf("%s: the requests of kafka-go: %v", mechanism, err)
			}
		}
	}
}

// TestLoginRefused: each refusal says which part to look at.
func TestLoginRefused(t *testing.T) {
	scripted := func(code kafka.Error, words string) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			s := &script{authenticate: func([]byte) *saslauthenticate.Response {
				return &saslauthenticate.Response{ErrorCode: int16(code), ErrorMessage: words}
			}}
			return s.start(t)
		}
	}
	faked := func(options ...kfake.Opt) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			_, brokers := cluster(t, options...)
			return brokers[0]
		}
	}
	login := SASL{
		Mechanism: ScramSHA512, Username: "fleet", Password: NewSecret("wrong"),
		AllowPlaintext: true,
	}
	for name, c := range map[string]struct {
		broker func(*testing.T) string
		sasl   *SASL
		words  []string
		waits  bool // for a service it is a broker that is away
	}{
		"Kafka's own words": {
			scripted(kafka.SASLAuthenticationFailed, "Authentication failed during "+
				"authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"),
			&login,
			[]string{`refuses user "fleet"`, "kafka.sasl.username", "invalid credentials"},
			false,
		},
		"words that repeat the password": {
			scripted(kafka.SASLAuthenticationFailed, "no such password: wrong"),
			&login,
			[]string{"no such password: [redacted]"},
			false,
		},
		"a closed connection": {
			faked(kfake.EnableSASL(), kfake.Superuser(ScramSHA512, "fleet", "right")),
			&login,
			[]string{
				`closed the connection during the login of user "fleet"`,
				"if this goes on, check kafka.sasl.username",
			},
			true,
		},
		"a mechanism that is not offered": {
			func(t *testing.T) string {
				t.Helper()
				c, brokers := cluster(t, kfake.EnableSASL(),
					kfake.Superuser(Plain, "fleet", "right"))
				c.ControlKey(int16(kmsg.SASLHandshake),
					func(req kmsg.Request) (kmsg.Response, error, bool) {
						c.KeepControl()
						res := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
						res.ErrorCode, res.SupportedMechanisms = int16(
							kafka.UnsupportedSASLMechanism), []string{Plain}
						return res, nil, true
					})
				return brokers[0]
			},
			&login,
			[]string{"does not offer kafka.sasl.mechanism SCRAM-SHA-512: choose one of PLAIN"},
			false,
		},
		"a port without a login": {
			func(t *testing.T) string {
				t.Helper()
				c, brokers := cluster(t)
				c.ControlKey(int16(kmsg.SASLHandshake),
					func(req kmsg.Request) (kmsg.Response, error, bool) {
						c.KeepControl()
						res := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
						res.ErrorCode = int16(kafka.IllegalSASLState)
						return res, nil, true
					})
				return brokers[0]
			},
			&login,
			[]string{"asks for no login on this port"},
			false,
		},
		"no login where one is wanted": {
			faked(kfake.EnableSASL(), kfake.Superuser(Plain, "fleet", "right")),
			nil,
			[]string{"closed the connection", "kafka.sasl"},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			broker := c.broker(t)
			conn, _ := connection(t, Options{SASL: c.sasl})
			_, err := conn.Connect(t.Context(), []string{broker})
			mustRefuse(t, err, append(c.words, broker)...)
			if strings.Contains(err.Error(), "wrong") {
				t.Errorf("the error has the password: %v", err)
			}
			if err := conn.Refused(t.Context(), []string{broker}); (err == nil) != c.waits {
				t.Errorf("a service would wait for %v: %t", err, !c.waits)
			}
		})
	}
	if err := (*Connection)(nil).Refused(t.Context(), []string{"127.0.0.1:1"}); err != nil {
		t.Errorf("a broker that is away refuses nobody: %v", err)
	}
}

// TestChangedPassword: a password that is replaced in its file is used by the next login.
func TestChangedPassword(t *testing.T) {
	password := "first"
	s := &script{}
	s.authenticate = func(m []byte) *saslauthenticate.Response {
		if string(m) != "\x00u\x00"+password {
			return &saslauthenticate.Response{ErrorCode: int16(kafka.SASLAuthenticationFailed)}
		}
		return &saslauthenticate.Response{}
	}
	broker := s.start(t)
	path := file(t, "first")
	conn, _ := connection(t, Options{
		SASL: &SASL{Mechanism: Plain, Username: "u", PasswordFile: path, AllowPlaintext: true},
	})
	dial := func() error {
		c, err := conn.dial(t.Context(), "tcp", broker)
		if err == nil {
			must(t, c.Close())
		}
		return err
	}
	must(t, dial())
	password = "second"
	mustRefuse(t, dial(), `refuses user "u"`)
	must(t, os.WriteFile(path, []byte("second"), 0o600))
	must(t, dial())
	must(t, os.Remove(path))
	if err := dial(); err == nil || !strings.Contains(err.Error(), "kafka.sasl.password_file") {
		t.Errorf("without the file: %v", err)
	}
}

// TestLoginAgain: a connection whose session is about to end logs in again, between two requests
// and on the same connection, both whole requests and requests in pieces; and one whose session
// does not end never does.
func TestLoginAgain(t *testing.T) {
	const session = time.Minute
	lifetime, refuse := session, false
	s := &script{}
	s.authenticate = func([]byte) *saslauthenticate.Response {
		if refuse {
			return &saslauthenticate.Response{
				ErrorCode: int16(kafka.SASLAuthenticationFailed), ErrorMessage: "gone",
			}
		}
		return &saslauthenticate.Response{SessionLifetimeMs: lifetime.Milliseconds()}
	}
	broker := s.start(t)
	c, clock := connection(t, Options{
		ClientID: "truck", SASL: &SASL{
			Mechanism: Plain, Username: "u", Password: NewSecret("p"), AllowPlaintext: true,
		},
	})
	conn, err := c.dial(t.Context(), "tcp", broker)
	must(t, err)
	defer conn.Close()
	request := func() error {
		_, err := exchange[*apiversions.Response](conn, "truck", 0, new(apiversions.Request))
		return err
	}
	logins := func(want int) {
		t.Helper()
		if got := s.count(protocol.SaslAuthenticate); got != want ||
			s.count(protocol.SaslHandshake) != want {
			t.Fatalf("%d logins, want %d", got, want)
		}
	}
	must(t, request())
	logins(1)
	clock.pass(session*4/5 - time.Second)
	must(t, request())
	logins(1) // not yet
	clock.pass(time.Second)
	const versions = "\x00\x00\x00\x0f\x00\x12\x00\x00\x00\x00\x00\x01\x00\x05truck" // ApiVersions
	for range 2 {
		for i := range len(versions) {
			_, err := conn.Write([]byte(versions[i : i+1]))
			must(t, err)
			if i == 2 || i == 9 {
				clock.pass(session / 2) // in the middle of a request nothing happens
			}
		}
		_, _, err := protocol.ReadResponse(conn, protocol.ApiVersions, 0)
		must(t, err)
	}
	logins(3) // before each of the two requests
	lifetime = 0
	clock.pass(session)
	must(t, request())
	logins(4)
	clock.pass(1000 * session)
	must(t, request())
	logins(4)

	// A refused login is an error of a connection on which nothing was sent.
	lifetime = session
	conn, err = c.dial(t.Context(), "tcp", broker)
	must(t, err)
	defer conn.Close()
	refuse = true
	clock.pass(session)
	err = request()
	mustRefuse(t, err, `refuses user "u"`, "gone")
	if !wire.NeverSent(err) {
		t.Error("nothing was sent")
	}
	if len(s.clients) != 1 || !s.clients["truck"] {
		t.Errorf("the client ids are %v", s.clients)
	}
}

// TestSASLOptions: settings that cannot work are errors at the start.
func TestSASLOptions(t *testing.T) {
	tls := &TLS{}
	plain := SASL{Mechanism: Plain, Username: "u", Password: NewSecret("p")}
	scram := SASL{Mechanism: ScramSHA256, Username: "u", Password: NewSecret("p")}
	allowed := func(s SASL) *SASL {
		s.AllowPlaintext = true
		return &s
	}
	good := OAuth{
		TokenEndpointURL: "https://idp.example/token", ClientID: "c", ClientSecret: NewSecret("s"),
	}
	but := func(change func(*OAuth)) *SASL {
		o := good
		change(&o)
		return &SASL{Mechanism: OAuthBearer, OAuth: o}
	}
	for name, c := range map[string]struct {
		tls  *TLS
		sasl *SASL
		want string // "": none
	}{
		"PLAIN":                        {tls, &plain, ""},
		"PLAIN, allowed":               {nil, allowed(plain), ""},
		"SCRAM in plain text":          {nil, &scram, "sasl.allow_plaintext: true"},
		"SCRAM in plain text, allowed": {nil, allowed(scram), ""},
		"OAUTHBEARER":                  {tls, but(func(*OAuth) {}), ""},
		"a token file": {tls, &SASL{
			Mechanism: OAuthBearer,
			OAuth: OAuth{
				TokenFile: file(t, "a.b.c\n"), Extensions: map[string]string{"x": "y"},
			},
		}, ""},
		"no mechanism": {
			tls, &SASL{Username: "u"}, `mechanism "" is unknown: choose PLAIN, SCRAM-SHA-256`,
		},
		"lower case": {tls, &SASL{Mechanism: "scram-sha-256"}, "is unknown: choose"},
		"PLAIN in plain text": {
			nil, &plain, "sasl.allow_plaintext: true",
		},
		"a token in plain text": {nil, but(func(*OAuth) {}), "(no-tls)"},
		"no user": {
			tls, &SASL{Mechanism: Plain, Password: NewSecret("p")},
			"kafka.sasl.username: name a user",
		},
		"no password": {
			tls, &SASL{Mechanism: Plain, Username: "u"}, "kafka.sasl.password_file: name a file",
		},
		"two passwords": {
			tls,
			&SASL{Mechanism: Plain, Username: "u", Password: NewSecret("p"), PasswordFile: "f"},
			"exclude each other",
		},
		"no such file": {
			tls, &SASL{Mechanism: Plain, Username: "u", PasswordFile: "/none"},
			"kafka.sasl.password_file: open /none",
		},
		"an empty file": {
			tls, &SASL{Mechanism: Plain, Username: "u", PasswordFile: file(t, "\n")}, "is empty",
		},
		"a control character": {
			tls, &SASL{Mechanism: ScramSHA512, Username: "u", Password: NewSecret("a\x00b")},
			"SCRAM refuses",
		},
		"OAuth for SCRAM": {
			tls,
			&SASL{Mechanism: ScramSHA512, Username: "u", Password: NewSecret("p"), OAuth: good},
			"is for OAUTHBEARER",
		},
		"a password for OAuth": {
			tls, &SASL{Mechanism: OAuthBearer, Username: "u", OAuth: good}, "see oauthbearer",
		},
		"a password for IAM": {
			tls, &SASL{Mechanism: MSKIAM, Username: "u"}, "AWS's own settings have the credentials",
		},
		"IAM in plain text": {nil, &SASL{Mechanism: MSKIAM}, "(no-tls)"},
		"nothing for OAuth": {tls, &SASL{Mechanism: OAuthBearer}, "or token_file"},
		"http": {
			tls, but(func(o *OAuth) { o.TokenEndpointURL = "http://idp.example/token" }),
			"write https://",
		},
		"no address": {
			tls, but(func(o *OAuth) { o.TokenEndpointURL = "idp.example/token" }),
			"write https://HOST/PATH",
		},
		"credentials in it": {
			tls, but(func(o *OAuth) { o.TokenEndpointURL = "https://c:s@idp.example" }),
			"write https://HOST/PATH",
		},
		"no client": {
			tls, but(func(o *OAuth) { o.ClientID = "" }), "oauthbearer.client_id",
		},
		"no client secret": {
			tls, but(func(o *OAuth) { o.ClientSecret = nil }), "oauthbearer.client_secret_file",
		},
		"two client secrets": {
			tls, but(func(o *OAuth) { o.ClientSecretFile = "f" }), "exclude each other",
		},
		"no such client secret": {
			tls, but(func(o *OAuth) { o.ClientSecret, o.ClientSecretFile = nil, "/none" }),
			"client_secret_file: open /none",
		},
		"no such authority": {
			tls, but(func(o *OAuth) { o.CAFile = "/none" }), "oauthbearer.ca_file: open /none",
		},
		"both sources": {
			tls, but(func(o *OAuth) { o.TokenFile = file(t, "a.b.c") }),
			"token_file excludes",
		},
		"no token in the file": {tls, &SASL{
			Mechanism: OAuthBearer, OAuth: OAuth{TokenFile: file(t, "{\"access_token\": 1}")},
		}, "does not hold a token alone"},
		"a name with digits": {
			tls, but(func(o *OAuth) { o.Extensions = map[string]string{"pool1": "x"} }),
			"printable ASCII",
		},
		"an extension named auth": {
			tls, but(func(o *OAuth) { o.Extensions = map[string]string{"auth": "x"} }),
			"printable ASCII",
		},
		"a value that ends it": {
			tls, but(func(o *OAuth) { o.Extensions = map[string]string{"x": "a\x01b"} }),
			"printable ASCII",
		},
	} {
		_, err := New(Options{TLS: c.tls, SASL: c.sasl})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
