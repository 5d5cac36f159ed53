package kafkaconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/consumer/wire"
)

// mustRefuse wants an error of a connection that says what to do, and that nothing was sent.
func mustRefuse(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil || !wire.IsLinkError(err) {
		t.Fatalf("the error is %v, and no error of the connection", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q: %v", w, err)
		}
	}
	if strings.Contains(err.Error(), "is Kafka running there?") {
		t.Errorf("Kafka is running, and the error asks whether it is: %v", err)
	}
}

// TestTLS: a broker with a certificate is reached by a client that trusts it, with and without a
// certificate of one's own.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	a.sign("client", nil)
	plain := a.server("broker", nil)
	mutual := plain.Clone()
	mutual.ClientCAs, mutual.ClientAuth = a.pool(), tls.RequireAndVerifyClientCert
	elsewhere := a.server("elsewhere", func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"kafka.example"}, nil
	})
	with := func(change func(*TLS)) *TLS {
		t := a.trusting()
		change(t)
		return t
	}
	for name, c := range map[string]struct {
		server *tls.Config
		client *TLS
	}{
		"trusted authority": {plain, a.trusting()},
		"client certificate": {mutual, with(func(t *TLS) {
			t.CertFile, t.KeyFile = a.path("client.crt"), a.path("client.key")
		})},
		"the name that it is": {elsewhere, with(func(t *TLS) { t.ServerName = "kafka.example" })},
	} {
		t.Run(name, func(t *testing.T) {
			_, brokers := cluster(t, kfake.TLS(c.server))
			conn, _ := connection(t, Options{TLS: c.client})
			if _, err := conn.Connect(t.Context(), brokers); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCertificates: the ends of both sides' certificates are known, the client's from the start and
// again after it was replaced, and the first of the brokers' after they were reached.
func TestCertificates(t *testing.T) {
	if ends := (*Connection)(nil).Certificates(); len(ends) != 0 {
		t.Errorf("in plain text there are %v", ends)
	}
	a := newAuthority(t)
	until := func(at time.Time) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotAfter = at }
	}
	now := time.Now().Truncate(time.Second)
	soon, later, last := now.Add(time.Hour), now.Add(2*time.Hour), now.Add(3*time.Hour)
	a.sign("client", until(soon))
	client := a.trusting()
	client.CertFile, client.KeyFile = a.path("client.crt"), a.path("client.key")
	conn, _ := connection(t, Options{TLS: client})
	want := func(what string, ends map[string]time.Time) {
		t.Helper()
		got := conn.Certificates()
		if !maps.EqualFunc(got, ends, time.Time.Equal) {
			t.Errorf("%s: %v, want %v", what, got, ends)
		}
	}
	reach := func(server *tls.Config) {
		t.Helper()
		_, brokers := cluster(t, kfake.TLS(server))
		c, err := conn.dial(t.Context(), "tcp", brokers[0])
		must(t, err)
		must(t, c.Close())
	}
	want("before a connection", map[string]time.Time{"client": soon})
	reach(a.server("first", until(last)))
	want("one broker", map[string]time.Time{"client": soon, "broker": last})
	a.sign("client", until(last))
	reach(a.server("second", until(later)))
	want("two brokers", map[string]time.Time{"client": last, "broker": later})
}

// TestTLSRefused: each way in which the two sides disagree has an error that says what to do.
func TestTLSRefused(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	other.sign("client", nil)
	good := a.server("broker", nil)
	mutual := good.Clone()
	mutual.ClientCAs, mutual.ClientAuth = a.pool(), tls.RequireAndVerifyClientCert
	old := good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	stranger := a.trusting()
	stranger.CertFile, stranger.KeyFile = other.path("client.crt"), other.path("client.key")
	dated := func(from, to time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to)
		}
	}
	for name, c := range map[string]struct {
		server *tls.Config // nil: plain text
		client *TLS        // nil: plain text
		words  []string
	}{
		"authority of the system": {
			good, &TLS{}, []string{"does not know", "kafka.tls.ca_file"},
		},
		"another authority": {
			good, other.trusting(),
			[]string{"not signed by any authority in kafka.tls.ca_file", other.dir},
		},
		"another name": {a.server("elsewhere", func(c *x509.Certificate) {
			c.DNSNames, c.IPAddresses = []string{"kafka.example"}, nil
		}), a.trusting(), []string{"for other names", "kafka.tls.server_name"}},
		"expired": {
			a.server("expired", dated(-time.Hour, -time.Minute)), a.trusting(),
			[]string{"has expired"},
		},
		"not valid yet": {
			a.server("early", dated(time.Hour, 2*time.Hour)), a.trusting(),
			[]string{"not valid yet", "clocks"},
		},
		"not for servers": {a.server("client-only", func(c *x509.Certificate) {
			c.ExtKeyUsage = c.ExtKeyUsage[1:]
		}), a.trusting(), []string{"cannot be used for a broker"}},
		"no client certificate": {
			mutual, a.trusting(),
			[]string{"refuses a client without a certificate", "kafka.tls.cert_file"},
		},
		"client of another": {
			mutual, stranger, []string{"refuses this client's certificate", other.dir},
		},
		"old version": {old, a.trusting(), []string{"TLS 1.2 or later"}},
		"plain text client": {
			good, nil, []string{"closed the connection", "set kafka.tls"},
		},
		"broker without TLS": {
			nil, a.trusting(), []string{"TLS handshake", "SSL or SASL_SSL listener"},
		},
		"broker without TLS, mutual": {nil, stranger, []string{"TLS handshake"}},
	} {
		t.Run(name, func(t *testing.T) {
			var options []kfake.Opt
			if c.server != nil {
				options = append(options, kfake.TLS(c.server))
			}
			_, brokers := cluster(t, options...)
			conn, _ := connection(t, Options{TLS: c.client})
			if c.server == nil {
				// the test's broker waits for more of a request
				conn.handshake = 50 * time.Millisecond
			}
			_, err := conn.Connect(t.Context(), brokers)
			mustRefuse(t, err, append(c.words, brokers[0])...)
			if wire.NeverSent(err) != (c.client != nil) {
				t.Errorf("never sent is %t: %v", wire.NeverSent(err), err)
			}
		})
	}
}

// TestRotatedFiles: the authority, the client's certificate and its key are replaced while the
// connection is in use, and the next dial has them.
func TestRotatedFiles(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	for _, a := range []*authority{first, second} {
		a.sign("client", nil)
	}
	mutual := func(a *authority) *tls.Config {
		c := a.server("broker", nil)
		c.ClientCAs, c.ClientAuth = a.pool(), tls.RequireAndVerifyClientCert
		return c
	}
	_, before := cluster(t, kfake.TLS(mutual(first)))
	_, after := cluster(t, kfake.TLS(mutual(second)))
	settings := first.trusting()
	settings.CertFile, settings.KeyFile = first.path("client.crt"), first.path("client.key")
	conn, clock := connection(t, Options{TLS: settings})
	dial := func(brokers []string) error {
		c, err := conn.dial(t.Context(), "tcp", brokers[0])
		if err == nil {
			must(t, c.Close())
		}
		return err
	}
	must(t, dial(before))
	mustRefuse(t, dial(after), "not signed by any authority")
	copyFile := func(name string) {
		data, err := os.ReadFile(second.path(name))
		must(t, err)
		must(t, os.WriteFile(first.path(name), data, 0o600))
	}
	copyFile("authority.crt")
	copyFile("client.crt")
	if err := dial(after); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("a certificate with the key of another: %v", err)
	}
	copyFile("client.key")
	must(t, dial(after))
	clock.pass(2 * time.Hour)
	if err := dial(after); err == nil || !strings.Contains(err.Error(),
		"(tls-files)") {
		t.Errorf("an expired certificate of one's own: %v", err)
	}
}

// TestTLSFiles: files that cannot be used are errors at the start that name the setting.
func TestTLSFiles(t *testing.T) {
	a := newAuthority(t)
	a.sign("client", nil)
	a.write("encrypted.key", "ENCRYPTED PRIVATE KEY", []byte("ciphertext"))
	must(t, os.WriteFile(a.path("empty.pem"), nil, 0o600))
	for name, c := range map[string]struct {
		tls  TLS
		want string
	}{
		"no such authority": {TLS{CAFile: a.path("none")}, "kafka.tls.ca_file: open"},
		"no certificate":    {TLS{CAFile: a.path("empty.pem")}, "has no certificate in PEM"},
		"a key alone":       {TLS{KeyFile: a.path("client.key")}, "belong together"},
		"a certificate":     {TLS{CertFile: a.path("client.crt")}, "belong together"},
		"encrypted": {
			TLS{CertFile: a.path("client.crt"), KeyFile: a.path("encrypted.key")},
			"(tls-files)",
		},
		"another's key": {
			TLS{CertFile: a.path("client.crt"), KeyFile: a.path("authority.key")}, "do not fit",
		},
		"swapped": {
			TLS{CertFile: a.path("client.key"), KeyFile: a.path("client.crt")}, "do not fit",
		},
	} {
		_, err := New(Options{TLS: &c.tls})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if errors.As(err, new(*wire.LinkError)) {
			t.Errorf("%s: there is no broker to blame: %v", name, err)
		}
	}
}
