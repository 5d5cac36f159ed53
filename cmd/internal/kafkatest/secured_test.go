//go:build kafka

package kafkatest

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
)

// secured is what "kafka.sh up --secure" has beside the open listeners.
type secured struct {
	*harness
	nodes     nodes
	sasl, ssl []string // brokers
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	return newSecuredAt(newHarness(t), shared(t))
}

func newSecuredAt(h *harness, n nodes) *secured {
	h.Helper()
	s := &secured{harness: h, nodes: n}
	s.sasl = strings.Split(strings.TrimSpace(s.read("brokers-sasl")), ",")
	s.ssl = strings.Split(strings.TrimSpace(s.read("brokers-ssl")), ",")
	return s
}

func (s *secured) read(name string) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.nodes.dir, name))
	if err != nil {
		s.Fatalf("start the cluster with kafka.sh up --secure: %v", err)
	}
	return string(data)
}

func (s *secured) path(name string) string { return filepath.Join(s.nodes.dir, "tls", name) }

func (s *secured) tls() *kafkaconn.TLS { return &kafkaconn.TLS{CAFile: s.path("ca.crt")} }

func (s *secured) connection(o kafkaconn.Options) *kafkaconn.Connection {
	s.Helper()
	c, err := kafkaconn.New(o)
	s.ok(err)
	return c
}

// password is the login of kafka.sh's only user.
func (s *secured) password(mechanism string) *kafkaconn.SASL {
	return &kafkaconn.SASL{
		Mechanism: mechanism, Username: "geodither", PasswordFile: s.path("password"),
	}
}

// unsigned is a token for Kafka's own validator for development, which checks no signature.
func unsigned(subject string, life time.Duration) string {
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now()
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, subject, now.Unix(), now.Add(life).Unix())
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(claims)) + "."
}

// endpoint gives tokens of a short life, and returns the settings to get them by.
func (s *secured) endpoint(token func(subject string, life time.Duration) string) kafkaconn.OAuth {
	s.Helper()
	const life = 10 * time.Second
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, secret, _ := r.BasicAuth(); id != "client" || secret != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`,
			token("geodither", life), int(life.Seconds()))
	}))
	s.Cleanup(server.Close)
	ca := filepath.Join(s.TempDir(), "endpoint.crt")
	s.ok(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
	}), 0o600))
	return kafkaconn.OAuth{
		TokenEndpointURL: server.URL, ClientID: "client",
		ClientSecret: kafkaconn.NewSecret("secret"), CAFile: ca,
	}
}

// TestSecured: a service works through TLS with every sort of login, for several of the broker's
// sessions, and nobody notices that sessions end: no call fails, no record is lost, doubled or
// changed. Every service has another rack, so that two of three read from followers.
func TestSecured(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	w := s.world(2, 10)
	w.createRaw()
	w.feed(20)
	client := s.tls()
	client.CertFile, client.KeyFile = s.path("client.crt"), s.path("client.key")
	bearer := &kafkaconn.SASL{Mechanism: kafkaconn.OAuthBearer, OAuth: s.endpoint(unsigned)}
	const renewals = 4 // over all connections
	type service struct {
		name       string
		brokers    []string
		options    kafkaconn.Options
		renewed    bool // its sessions end
		connection *kafkaconn.Connection
		*running
	}
	services := []*service{
		{name: "scram", brokers: s.sasl, options: kafkaconn.Options{
			TLS: s.tls(), SASL: s.password(kafkaconn.ScramSHA512), Rack: "a",
		}, renewed: true},
		{name: "bearer", brokers: s.sasl, options: kafkaconn.Options{
			TLS: s.tls(), SASL: bearer, Rack: "b",
		}, renewed: true},
		{name: "mutual", brokers: s.ssl, options: kafkaconn.Options{TLS: client, Rack: "c"}},
	}
	for _, v := range services {
		o := w.options(v.name)
		v.connection = s.connection(v.options)
		for _, principal := range []string{login, certificate} {
			s.grant(principal, o.ACLs())
		}
		o.Brokers, o.Connection = v.brokers, v.connection
		v.running = s.serve(o)
		v.connection.Log(slog.New(slog.NewTextHandler(v.log,
			&slog.HandlerOptions{Level: slog.LevelDebug})))
	}
	const again = "logged in again before the session ended"
	s.eventually("the sessions were renewed", func() bool {
		w.feed(1)
		for _, v := range services {
			if v.ended() {
				t.Fatalf("%s has ended: %v", v.name, v.Err)
			}
			if v.renewed && strings.Count(v.log.String(), again) < renewals {
				return false
			}
		}
		return true
	})
	for _, v := range services {
		o := w.options(v.name) // by the open listener: run may not read what state verify reads
		s.eventually(v.name+" has answered", func() bool { return w.answered(o) })
		v.stop()
		if v.log.has("level=WARN") || v.renewed != v.log.has(again) {
			t.Errorf("%s: the end of a session was noticed:\n%s", v.name, v.log.first(5, "WARN"))
		}
		w.verified(o)
	}
}

// TestSecuredRefused: what a real broker says to each mistake is turned into what to do.
func TestSecuredRefused(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	wrong := s.password(kafkaconn.ScramSHA256)
	wrong.PasswordFile, wrong.Password = "", kafkaconn.NewSecret("wrong")
	plain := *wrong
	plain.Mechanism = kafkaconn.Plain
	expired := filepath.Join(t.TempDir(), "token")
	s.ok(os.WriteFile(expired, []byte(unsigned("geodither", -time.Minute)), 0o600))
	stale := &kafkaconn.SASL{
		Mechanism: kafkaconn.OAuthBearer, OAuth: kafkaconn.OAuth{TokenFile: expired},
	}
	self := s.tls()
	self.CertFile, self.KeyFile = s.path("client.crt"), s.path("client.key")
	login := s.password(kafkaconn.ScramSHA512)
	bare := *login
	bare.AllowPlaintext = true
	for name, c := range map[string]struct {
		brokers []string
		options kafkaconn.Options
		words   string // of the error; "": it connects
	}{
		"PLAIN": {s.sasl, kafkaconn.Options{TLS: s.tls(), SASL: s.password(kafkaconn.Plain)}, ""},
		"SCRAM-SHA-256": {
			s.sasl, kafkaconn.Options{TLS: s.tls(), SASL: s.password(kafkaconn.ScramSHA256)}, "",
		},
		"a wrong password": {
			s.sasl, kafkaconn.Options{TLS: s.tls(), SASL: wrong}, `refuses user "geodither"`,
		},
		"a wrong password, PLAIN": {
			s.sasl, kafkaconn.Options{TLS: s.tls(), SASL: &plain}, `refuses user "geodither"`,
		},
		"an expired token": {
			s.sasl, kafkaconn.Options{TLS: s.tls(), SASL: stale}, "refuses the token",
		},
		"an unknown authority": {
			s.sasl, kafkaconn.Options{TLS: &kafkaconn.TLS{}, SASL: login}, "kafka.tls.ca_file",
		},
		"no login": {s.sasl, kafkaconn.Options{TLS: s.tls()}, "wants a login; set kafka.sasl"},
		"no TLS":   {s.sasl, kafkaconn.Options{}, "set kafka.tls"},
		"no TLS, but a login": {
			s.sasl, kafkaconn.Options{SASL: &bare}, "set kafka.tls",
		},
		"no certificate": {
			s.ssl, kafkaconn.Options{TLS: s.tls()}, "refuses a client without a certificate",
		},
		"a login at a port without": {
			s.ssl, kafkaconn.Options{TLS: self, SASL: login}, "asks for no login on this port",
		},
		"TLS at a port without": {
			s.brokers, kafkaconn.Options{TLS: s.tls()}, "SSL or SASL_SSL listener",
		},
		"TLS and a login at a port without": {
			s.brokers, kafkaconn.Options{TLS: s.tls(), SASL: login}, "SSL or SASL_SSL listener",
		},
	} {
		connection := s.connection(c.options)
		_, err := connection.Connect(s.Context(), c.brokers)
		for try := 0; try < 3 && wire.RanOut(err); try++ { // a machine at its limits
			_, err = connection.Connect(s.Context(), c.brokers)
		}
		switch {
		case c.words == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)):
			t.Errorf("%s: %v, want %q", name, err, c.words)
		case c.words != "":
			t.Logf("%s: %v", name, err)
		}
	}
}

// TestNearestReplica: a client with a rack reads from the follower there, all that is committed.
func TestNearestReplica(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	w := s.world(1, 10)
	w.createRaw()
	w.feed(30)
	node := s.partition(w.raw, 0).Leader
	leader, home := s.brokers[node-1], "abc"[node-1:node]
	for _, rack := range []string{"a", "b", "c", "nowhere"} {
		client := s.connection(kafkaconn.Options{Rack: rack}).Client([]string{leader})
		transport := client.Transport.(*wire.Transport)
		dial, reached := transport.Dial, map[string]bool{}
		var mu sync.Mutex
		transport.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			reached[address] = true
			return dial(ctx, network, address)
		}
		f, err := consumer.NewFetcher(client, w.raw, 0, consumer.FetcherOptions{})
		s.ok(err)
		_, end, err := f.Bounds(s.Context())
		s.ok(err)
		read := int64(0)
		for at := int64(0); at < end; {
			got, err := f.Fetch(s.Context(), at)
			s.ok(err)
			at, read = got.Next, read+int64(len(got.Records))
		}
		if read != w.fed {
			t.Errorf("rack %s: %d records, want %d", rack, read, w.fed)
		}
		mu.Lock()
		follower := len(reached) > 1
		mu.Unlock()
		if want := rack != "nowhere" && rack != home; follower != want {
			t.Errorf("rack %s, leader in %s: a follower was read from: %t",
				rack, home, follower)
		}
	}
}
