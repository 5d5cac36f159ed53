//go:build kafka

package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
)

// lasting is how long TestSecuredLasts feeds: GEODITHER_SECURED, such as 5m, or what every run of
// the tests has time for.
func lasting(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("GEODITHER_SECURED")
	if text == "" {
		return 40 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 30*time.Second {
		t.Fatalf("GEODITHER_SECURED is %q: want a duration of at least 30s, such as 5m", text)
	}
	return d
}

// TestSecuredLasts: an instance that logs in over TLS, with the rights that are printed and no
// others, works on while its sessions end every 20 s and everybody's certificates are replaced by
// those of another authority. No record is lost, doubled or changed.
func TestSecuredLasts(t *testing.T) {
	t.Parallel()
	length := lasting(t)
	s := privateSecured(t, "")
	w := s.world(2, 10)
	o := w.options("lasting")
	_, err := topics.Make(t.Context(), o.Cluster, patience)
	s.ok(err)
	o.Topics.Create = false
	s.grant(login, o.ACLs())

	// As Kubernetes mounts a secret: a link to a folder, which is replaced as a whole.
	live := filepath.Join(t.TempDir(), "tls")
	mount := func(name string, files map[string][]byte) {
		t.Helper()
		dir := filepath.Join(filepath.Dir(live), name)
		s.ok(os.Mkdir(dir, 0o700))
		for file, data := range files {
			s.ok(os.WriteFile(filepath.Join(dir, file), data, 0o600))
		}
		s.ok(os.Symlink(dir, dir+".link"))
		s.ok(os.Rename(dir+".link", live))
	}
	tls := func(name string) []byte { return []byte(s.read(filepath.Join("tls", name))) }
	authority := newAuthority(t)
	both := append(tls("ca.crt"), authority.pem()...)
	mount("first", map[string][]byte{
		"ca.crt": tls("ca.crt"), "tls.crt": tls("client.crt"), "tls.key": tls("client.key"),
	})
	at := func(name string) string { return filepath.Join(live, name) }
	o.Brokers = s.sasl
	config := w.config(o, "lasting", fmt.Sprintf(`log: {level: debug}
kafka:
  tls: {ca_file: %s, cert_file: %s, key_file: %s}
  sasl: {mechanism: %s, username: geodither, password_file: %s}`,
		at("ca.crt"), at("tls.crt"), at("tls.key"), kafkaconn.ScramSHA256, s.path("password")))
	service := w.start(config, "lasting")

	began := time.Now()
	feed := func(share float64) { // until that share of the time is over
		t.Helper()
		for time.Since(began) < time.Duration(share*float64(length)) {
			w.feed(1)
			time.Sleep(200 * time.Millisecond)
		}
	}
	feed(.25)
	mount("both", map[string][]byte{
		"ca.crt": both, "tls.crt": tls("client.crt"), "tls.key": tls("client.key"),
	})
	feed(.5)
	crt, key := authority.sign(t, "client")
	mount("second", map[string][]byte{"ca.crt": both, "tls.crt": crt, "tls.key": key})
	feed(.7)
	const again = "logged in again before the session ended"
	s.eventually("sessions were renewed", func() bool {
		w.feed(1)
		return strings.Count(service.log.String(), again) >= 2
	})
	if trouble := service.log.first(5, "event=retrying"); len(trouble) > 0 {
		t.Errorf("the end of a session, or new files, were noticed: %q", trouble)
	}
	// The broker gets a certificate of the new authority, and forgets the old one: a client that
	// connects from here on has read the new files.
	brokerCRT, brokerKey := authority.sign(t, "broker")
	s.ok(os.WriteFile(s.path("broker.pem"), append(brokerKey, brokerCRT...), 0o600))
	s.ok(os.WriteFile(s.path("ca.crt"), authority.pem(), 0o600))
	s.nodes.on(1, "term")
	s.nodes.on(1, "start")
	mount("last", map[string][]byte{
		"ca.crt": authority.pem(), "tls.crt": crt, "tls.key": key,
	})
	fed := w.fed
	feed(1)
	w.feed(1)
	s.eventually("all is answered", func() bool { return w.answered(o) })
	service.terminate()
	o.Brokers = s.brokers
	w.exactlyOnce(o)
	t.Logf("%v: %d sessions renewed, %d records, %d of them after all certificates were replaced",
		time.Since(began).Round(time.Second), strings.Count(service.log.String(), again), w.fed,
		w.fed-fed)
}

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "another authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate, a.key = a.issue(t, template)
	return a
}

// issue signs what the template says, by itself if there is no authority yet.
func (a *authority) issue(t *testing.T, template *x509.Certificate) (
	*x509.Certificate, *ecdsa.PrivateKey,
) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := template, key
	if a.certificate != nil {
		parent, signer = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func (a *authority) pem() []byte { return encoded(a.certificate) }

func encoded(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// sign makes a certificate of this machine, and its key.
func (a *authority) sign(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	c, k := a.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return encoded(c), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
