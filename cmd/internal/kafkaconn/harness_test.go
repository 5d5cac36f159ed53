package kafkaconn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/twmb/franz-go/pkg/kfake"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("authority", func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	return a
}

// sign makes NAME.crt and NAME.key in the authority's folder: a certificate for localhost and
// 127.0.0.1, which adjust may change.
func (a *authority) sign(name string, adjust func(*x509.Certificate)) (
	*x509.Certificate, *ecdsa.PrivateKey,
) {
	a.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(a.t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if adjust != nil {
		adjust(template)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	a.write(name+".crt", "CERTIFICATE", der)
	a.write(name+".key", "PRIVATE KEY", private)
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	must(a.t,
		os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// pool trusts the authority.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// server returns a broker's settings with a certificate that adjust may change.
func (a *authority) server(name string, adjust func(*x509.Certificate)) *tls.Config {
	a.t.Helper()
	a.sign(name, adjust)
	pair, err := tls.LoadX509KeyPair(a.path(name+".crt"), a.path(name+".key"))
	must(a.t, err)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
}

// trusting is a client's settings that trust the authority.
func (a *authority) trusting() *TLS { return &TLS{CAFile: a.path("authority.crt")} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster starts a broker in the test's process.
func cluster(t *testing.T, options ...kfake.Opt) (c *kfake.Cluster, brokers []string) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	must(t, err)
	t.Cleanup(c.Close)
	return c, c.ListenAddrs()
}

// connection returns a connection, at a time that the test sets.
func connection(t *testing.T, o Options) (*Connection, *clock) {
	t.Helper()
	c, err := New(o)
	must(t, err)
	at := &clock{at: time.Now()}
	c.now = at.now
	if c.login != nil && c.login.tokens != nil {
		c.login.tokens.now = at.now
	}
	return c, at
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// script is a broker that does nothing but log clients in, by functions of the test's.
type script struct {
	// authenticate answers each SaslAuthenticate.
	authenticate func(message []byte) *saslauthenticate.Response

	mu       sync.Mutex
	requests []protocol.ApiKey
	clients  map[string]bool // client ids
}

// start listens, and returns host:port.
func (s *script) start(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var running sync.WaitGroup
	t.Cleanup(func() { listener.Close(); running.Wait() })
	s.clients = map[string]bool{}
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { defer conn.Close(); _ = s.serve(conn) }) // until the client is gone
		}
	})
	return listener.Addr().String()
}

func (s *script) serve(conn net.Conn) error {
	for {
		version, id, client, req, err := protocol.ReadRequest(conn)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.requests = append(s.requests, req.ApiKey())
		s.clients[client] = true
		s.mu.Unlock()
		var res protocol.Message
		switch req := req.(type) {
		case *apiversions.Request:
			res = &apiversions.Response{ApiKeys: []apiversions.ApiKeyResponse{
				{ApiKey: int16(protocol.ApiVersions)},
				{ApiKey: int16(protocol.SaslHandshake), MaxVersion: 1},
				{ApiKey: int16(protocol.SaslAuthenticate), MaxVersion: 2},
			}}
		case *saslhandshake.Request:
			res = &saslhandshake.Response{Mechanisms: []string{req.Mechanism}}
		case *saslauthenticate.Request:
			res = s.authenticate(req.AuthBytes)
		default:
			return errors.New("no such request in the script")
		}
		if err := protocol.WriteResponse(conn, version, id, res); err != nil {
			return err
		}
	}
}

// count is how often a request was made.
func (s *script) count(key protocol.ApiKey) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.requests {
		if k == key {
			n++
		}
	}
	return n
}
