package kafkaconn

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// TLS says how to encrypt a connection, and whom to trust. Its files are read for each new
// connection, so they can be replaced while a service runs.
type TLS struct {
	// CAFile has the certificates, in PEM, of the authorities that the broker's certificate has to
	// be signed by. Empty: those of the system.
	CAFile string
	// CertFile and KeyFile are this client's certificate and its key, in PEM; both or neither.
	CertFile, KeyFile string
	// ServerName is the name that the broker's certificate has to have. Empty: the one that the
	// client connects to.
	ServerName string
	// InsecureSkipVerify takes any certificate.
	InsecureSkipVerify bool
}

// config reads the files, and returns the settings of one connection to a host.
func (t *TLS) config(host string, now time.Time) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: cmp.Or(t.ServerName, host),
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // asked for, and logged
	}
	var err error
	if c.RootCAs, err = readPool("kafka.tls.ca_file", t.CAFile); err != nil {
		return nil, err
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New(
			"kafka.tls: cert_file and key_file belong together: name both or neither")
	}
	if t.CertFile == "" {
		return c, nil
	}
	pair, err := readPair(t.CertFile, t.KeyFile, now)
	if err != nil {
		return nil, err
	}
	// A function, so that the certificate is sent whatever authorities the broker asks for: the
	// broker says then what is wrong with it. Without one it would only miss a certificate.
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &pair, nil
	}
	return c, nil
}

// readPool reads certificates of authorities; none for the system's.
func readPool(key, path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	data, err := readFile(key, path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s: %s has no certificate in PEM (-----BEGIN CERTIFICATE-----); "+
			"convert a Java trust store with keytool -exportcert -rfc", key, path)
	}
	return pool, nil
}

// readPair reads this client's certificate and key. The errors of crypto/tls are not passed on
// where they could quote what they could not read.
func readPair(certFile, keyFile string, now time.Time) (tls.Certificate, error) {
	cert, err := readFile("kafka.tls.cert_file", certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile("kafka.tls.key_file", keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if isEncrypted(key) {
		return tls.Certificate{}, fmt.Errorf("kafka.tls.key_file: %s is encrypted, and a service "+
			"has nobody to ask for its passphrase: decrypt it with openssl pkey -in %s -out "+
			"tls.key, and let only this user read it", keyFile, keyFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("kafka.tls: cert_file %s and key_file %s are no "+
			"pair of a certificate and its key in PEM: %s", certFile, keyFile,
			scrub(err.Error(), string(key)))
	}
	if end := pair.Leaf.NotAfter; now.After(end) {
		return tls.Certificate{}, fmt.Errorf("kafka.tls.cert_file: %s expired at %v: put a new "+
			"certificate in its place; no restart is needed", certFile, end.UTC())
	}
	return pair, nil
}

// isEncrypted reports whether a key in PEM needs a passphrase.
func isEncrypted(data []byte) bool {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" ||
			bytes.Contains([]byte(block.Headers["Proc-Type"]), []byte("ENCRYPTED")) {
			return true
		}
	}
	return false
}
