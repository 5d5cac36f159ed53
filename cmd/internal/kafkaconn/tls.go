package kafkaconn

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync"
	"time"
)

// TLS says how to encrypt a connection, and whom to trust. Its files are read for each new
// connection, so they can be replaced while a service runs.
type TLS struct {
	// CAFile has the certificates, in PEM, of the authorities that the broker's certificate has to
	// be signed by. Empty: those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are this client's certificate and its key, in PEM; both or neither.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that the broker's certificate has to have. Empty: the one that the
	// client connects to.
	ServerName string `yaml:"server_name"`
}

// kafkaTLS is the section of the config that the settings of brokers come from.
const kafkaTLS = "kafka.tls"

// config reads the files, and returns the settings of one connection to a host, and when this
// client's certificate ends; the zero time without one. section is that of the config, for errors.
func (t *TLS) config(
	section, host string, now time.Time,
) (*tls.Config, time.Time, error) {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: cmp.Or(t.ServerName, host),
	}
	var err error
	if c.RootCAs, err = readPool(section+".ca_file", t.CAFile); err != nil {
		return nil, time.Time{}, err
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, time.Time{}, fmt.Errorf("%s: cert_file and key_file belong together", section)
	}
	if t.CertFile == "" {
		return c, time.Time{}, nil
	}
	pair, err := t.readPair(section, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	// A function, so that the certificate is sent whatever authorities the broker asks for: the
	// broker says then what is wrong with it. Without one it would only miss a certificate.
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &pair, nil
	}
	return c, pair.Leaf.NotAfter, nil
}

// ends are when certificates end that connections were made with: this client's, and each broker's
// by its host:port. It is safe for concurrent use.
type ends struct {
	mu      sync.Mutex
	client  time.Time // zero: it has none
	brokers map[string]time.Time
}

// set notes the end of a broker's certificate, or of this client's if the broker is empty.
func (e *ends) set(broker string, end time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if broker == "" {
		e.client = end
		return
	}
	if e.brokers == nil {
		e.brokers = map[string]time.Time{}
	}
	e.brokers[broker] = end
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
		return nil, fmt.Errorf("%s: %s has no certificate in PEM (tls-files)", key, path)
	}
	return pool, nil
}

// readPair reads this client's certificate and key. The errors of crypto/tls are not passed on
// where they could quote what they could not read.
func (t *TLS) readPair(section string, now time.Time) (tls.Certificate, error) {
	certFile, keyFile := t.CertFile, t.KeyFile
	cert, err := readFile(section+".cert_file", certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readFile(section+".key_file", keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if isEncrypted(key) {
		return tls.Certificate{}, fmt.Errorf("%s: %s is encrypted; decrypt %s (tls-files)",
			section+".key_file", keyFile, keyFile)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: cert_file %s and key_file %s do not fit: %s "+
			"(tls-files)", section, certFile, keyFile, scrub(err.Error(), string(key)))
	}
	if end := pair.Leaf.NotAfter; now.After(end) {
		return tls.Certificate{}, fmt.Errorf("%s: %s expired at %v (tls-files)",
			section+".cert_file", certFile, end.UTC())
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
