package consumer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// certificate makes a certificate for 127.0.0.1 and the pool that trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TLS and SASL are set in one place, the transport, and hold for the group too.
func TestTransportSettingsHoldEverywhere(t *testing.T) {
	cert, pool := certificate(t)
	h := newHarness(t, kfake.NumBrokers(1),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", "user", "secret"))
	transport := &kafka.Transport{
		TLS:  &tls.Config{RootCAs: pool},
		SASL: plain.Mechanism{Username: "user", Password: "secret"},
	}
	defer transport.CloseIdleConnections()
	h.Client.Transport = transport
	h.OK(admin.Ping(t.Context(), h.Client, wiretest.Quick))
	g, err := group.Join(h.Client, group.Options{Options: wiretest.Quick, ID: "group", Topic: "in"})
	h.OK(err)
	defer g.Close()
	ctx, cancel := context.WithTimeout(t.Context(), wiretest.Patience)
	defer cancel()
	gen, err := g.Next(ctx)
	h.OK(err)
	if len(gen.Partitions) != 4 {
		t.Errorf("partitions %v", gen.Partitions)
	}
	h.expect(h.fetcher("in", 0, FetcherOptions{}), 0)
}
