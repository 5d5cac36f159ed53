package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

// environment is something around a service that is not as it should be: a broker, a registry, a
// certificate, a login, a file, a disk. What is wrong with a config's text alone stands in
// TestWrongConfig, and what happens to a service's topics and groups in its own package's tests.
type environment struct {
	name string
	// wrong makes it wrong. It may change the config, and starts what has to run.
	wrong func(w *environmentWorld)
	// args is the command line, CONFIG filled in.
	args []string
	// waits: the command does not end. It says what is wrong, and goes on once that is mended.
	waits bool
	// words are in the message.
	words []string
}

// says is an environment that the doctor finds, with these words.
func says(name string, wrong func(w *environmentWorld), words ...string) environment {
	return environment{
		name: name, wrong: wrong, words: words, args: []string{"doctor", "-c", "CONFIG"},
	}
}

// by is an environment that another command finds.
func (c environment) by(args ...string) environment {
	c.args = args
	return c
}

// atAStart is an environment that ends the service.
func (c environment) atAStart() environment { return c.by("run", "-c", "CONFIG") }

// whileItWaits is an environment that the service waits to be mended.
func (c environment) whileItWaits() environment {
	c = c.atAStart()
	c.waits = true
	return c
}

// secretWord is part of every password and token of the test.
const secretWord = "hunter2"

// secretVariable is the environment's variable that holds it.
const secretVariable = "GEODITHER_TEST_PASSWORD"

// environmentWorld is the folder, the config and the broker of one case.
type environmentWorld struct {
	*testing.T
	dir, config string
	ca          *authority
}

const environmentBase = `brokers: [BROKER]
# kafka
group: g
topics: {raw: raw, sanitized: out, create: true}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: lattice, epsilon: 2, delta: 0.02, budget: {epsilon: 400, window: 24h}}
`

// edit replaces a text of the config that has to be there once.
func (w *environmentWorld) edit(old, text string) {
	w.Helper()
	if strings.Count(w.config, old) != 1 {
		w.Fatalf("%q is not once in\n%s", old, w.config)
	}
	w.config = strings.Replace(w.config, old, text, 1)
}

// cluster starts a broker and names it in the config, and how to connect to it.
func (w *environmentWorld) cluster(connection string, options ...kfake.Opt) *kfake.Cluster {
	w.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(100 * time.Millisecond),
	}, options...)...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	w.connect(c.ListenAddrs()[0], connection)
	return c
}

// advertise starts a broker that says it is at another address than the config's.
func (w *environmentWorld) advertise(address string) {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(w.T, err)
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(
		func(string, string) (net.Listener, error) { return elsewhere{l, address}, nil }))
	fatal(w.T, err)
	w.Cleanup(c.Close)
	w.connect(l.Addr().String(), "")
}

// elsewhere is a listener that says it is at another address.
type elsewhere struct {
	net.Listener
	address string
}

func (e elsewhere) Addr() net.Addr  { return e }
func (e elsewhere) Network() string { return "tcp" }
func (e elsewhere) String() string  { return e.address }

// connect puts a broker and the section kafka into the config.
func (w *environmentWorld) connect(broker, connection string) {
	w.Helper()
	w.edit("BROKER", fmt.Sprintf("%q", broker))
	if connection != "" {
		w.edit("# kafka", "kafka: "+connection)
	}
}

// listener accepts connections and gives them to a function. It returns its address.
func listener(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); answer(conn) }()
		}
	}()
	return l.Addr().String()
}

// web answers over HTTP, with TLS if it has settings for it, and returns its address.
func (w *environmentWorld) web(settings *tls.Config, answer http.HandlerFunc) string {
	w.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if settings != nil {
		server.TLS = settings
		server.StartTLS()
	} else {
		server.Start()
	}
	w.Cleanup(server.Close)
	return server.URL
}

// file writes a file into the folder of the config.
func (w *environmentWorld) file(name, text string) string {
	w.Helper()
	return write(w.T, w.dir, name, text)
}

// feed puts the town's fixes, moved by degrees to the north, into the raw topic.
func (w *environmentWorld) feed(c *kfake.Cluster, north float64) {
	w.Helper()
	fixes := servicetest.TownFixes()
	for i := range fixes {
		fixes[i].Latitude += north
	}
	args := []string{"produce", "-c", w.file("feed.yml", w.config)}
	if c.TopicInfo("raw") == nil {
		args = append(args, "--create", "2")
	}
	succeed(w.T, append(args, w.file("fed.csv", servicetest.TownCSV(fixes)))...)
}

// running starts a service of the config, and waits until it has its partitions.
func (w *environmentWorld) running() *background {
	w.Helper()
	service := start(w.T, nil, "run", "-c", w.file("running.yml", w.config))
	eventually(w.T, "a start", func() bool {
		return strings.Contains(service.log.String(), "partitions assigned")
	})
	return service
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

// signed is a certificate with its key, in PEM.
type signed struct{ cert, key string }

// sign makes a certificate for localhost and 127.0.0.1, which adjust may change; of an authority
// if there is no other one.
func (a *authority) sign(t *testing.T, adjust func(*x509.Certificate)) signed {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	fatal(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "geodither test"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if adjust != nil {
		adjust(template)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage = x509.KeyUsageCertSign
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	fatal(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	fatal(t, err)
	made := signed{
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
	if a.cert == nil {
		a.cert, err = x509.ParseCertificate(der)
		fatal(t, err)
		a.key, a.pem = key, made.cert
	}
	return made
}

// newAuthority returns an authority that nobody trusts yet.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := new(authority)
	a.sign(t, nil)
	return a
}

// server returns the settings of a server whose certificate adjust may change.
func (a *authority) server(t *testing.T, adjust func(*x509.Certificate)) *tls.Config {
	t.Helper()
	made := a.sign(t, adjust)
	pair, err := tls.X509KeyPair([]byte(made.cert), []byte(made.key))
	fatal(t, err)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
}

// clients makes a server ask for certificates of the authority.
func (a *authority) clients(c *tls.Config) *tls.Config {
	c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	c.ClientCAs.AddCert(a.cert)
	return c
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWrongEnvironment: whatever is wrong around a service is answered by a message that says what
// it is and what to do, a non-zero exit where waiting would not help, and no secret.
func TestWrongEnvironment(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("runs a command for each row")
	}
	t.Parallel()
	sound := t.TempDir()
	townFiles(t, sound)
	ca := newAuthority(t)
	if len(environments) < 40 {
		t.Errorf("%d environments", len(environments))
	}
	for _, c := range environments {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, sound, ca)
		})
	}
}

// run tries one row, with the model of a folder.
func (c environment) run(t *testing.T, sound string, ca *authority) {
	t.Helper()
	w := &environmentWorld{T: t, dir: t.TempDir(), config: environmentBase, ca: ca}
	w.file("model.avro", read(t, filepath.Join(sound, "model.avro")))
	w.file("ca.crt", ca.pem)
	// A constant: the digests by which a difference is named are equal for one pair of keys in 256.
	key := strings.Repeat("c3", 32)
	w.file("noise.key", key)
	c.wrong(w)
	if strings.Contains(w.config, "BROKER") {
		w.connect("127.0.0.1:1", "")
	}
	path := w.file("geodither.yml", w.config)
	filled := make([]string, len(c.args))
	for i, arg := range c.args {
		filled[i] = strings.Replace(arg, "CONFIG", path, 1)
	}
	command := start(t, nil, filled...)
	var said string
	if c.waits {
		said = w.heard(command, c.words)
	} else {
		code := command.wait(t)
		said = command.log.String() + command.out.String()
		requireClear(t, code, command.out.String(), command.log.String(), c.words)
	}
	for _, secret := range []string{secretWord, key, read(t, filepath.Join(w.dir,
		"noise.key"))} {
		if strings.Contains(said, strings.TrimSpace(secret)) {
			t.Errorf("it prints a secret:\n%s", said)
		}
	}
}

// heard waits until a service that goes on has logged all words, and stops it.
func (w *environmentWorld) heard(command *background, words []string) string {
	w.Helper()
	for _, word := range words {
		eventually(w.T, word, func() bool {
			return strings.Contains(command.log.String(), word)
		})
	}
	if code := command.stop(w.T); code != cli.ExitDone {
		w.Errorf("a service that waits ends with %d", code)
	}
	return command.log.String()
}

// requireClear requires a non-zero exit, and a last message that says all words and speaks
// neither of Go nor of a crash. What doctor finds is on its standard output.
func requireClear(t *testing.T, code int, out, log string, words []string) {
	t.Helper()
	at := strings.LastIndex("\n"+log, "\ngeodither: ")
	if code == cli.ExitDone || at < 0 {
		t.Fatalf("exit %d, and the last line does not begin with the command's name:\n%s",
			code, log)
	}
	message := log[at:] + out
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("it does not say %q:\n%s", word, message)
		}
	}
	for _, word := range []string{
		"panic", "goroutine ", "struct {", "main.", "service.Options", "engine.Settings", "%!",
	} {
		if strings.Contains(message, word) {
			t.Errorf("it says %q:\n%s", word, message)
		}
	}
	if lines := strings.Count(strings.TrimSpace(log[at:]), "\n") + 1; lines > 4 {
		t.Errorf("the cause is in %d lines:\n%s", lines, log[at:])
	}
}

// passwordLogin is a section kafka with a password.
func passwordLogin(mechanism string) string {
	return "{sasl: {mechanism: " + mechanism + ", username: fleet, allow_plaintext: true, " +
		"password: \"${GEODITHER_TEST_PASSWORD}\"}}"
}

// tokenLogin is a section kafka with a token endpoint.
func tokenLogin(url string) string {
	return "{sasl: {mechanism: OAUTHBEARER, allow_plaintext: true, oauthbearer: " +
		"{token_endpoint_url: \"" + url + "\", client_id: c, " +
		"client_secret: \"${GEODITHER_TEST_PASSWORD}\"}}}"
}

// refusingLogin starts a broker that refuses every login in some words.
func (w *environmentWorld) refusingLogin(mechanism, words string) {
	w.Helper()
	login := passwordLogin(mechanism)
	if mechanism == kafkaconn.OAuthBearer {
		login = "{sasl: {mechanism: OAUTHBEARER, allow_plaintext: true, " +
			"oauthbearer: {token_file: token}}}"
	}
	c := w.cluster(login)
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch res := req.ResponseKind().(type) {
		case *kmsg.SASLHandshakeResponse:
			res.SupportedMechanisms = []string{mechanism}
			return res, nil, true
		case *kmsg.SASLAuthenticateResponse:
			res.ErrorCode, res.ErrorMessage = int16(kafka.SASLAuthenticationFailed), &words
			return res, nil, true
		}
		return nil, nil, false
	})
}

// permitted starts a broker that permits everything but one operation on some resources, and more.
func (w *environmentWorld) permitted(except kmsg.ACLResourceType, name string,
	operation kmsg.ACLOperation, more ...kfake.ACL,
) *kfake.Cluster {
	w.Helper()
	var acls []kfake.ACL
	for _, resource := range []kmsg.ACLResourceType{
		kmsg.ACLResourceTypeTopic, kmsg.ACLResourceTypeGroup, kmsg.ACLResourceTypeCluster,
		kmsg.ACLResourceTypeTransactionalId,
	} {
		acls = append(acls, kfake.ACL{
			Resource: resource, Name: "*", Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationAll, Allow: true,
		})
	}
	acls = append(acls, kfake.ACL{
		Resource: except, Name: name, Pattern: kmsg.ACLResourcePatternTypePrefixed,
		Operation: operation,
	})
	acls = append(acls, more...)
	return w.cluster(passwordLogin("PLAIN"), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.SeedTopics(2, "raw", "out"), kfake.User("PLAIN", "fleet", secretWord, acls...))
}

// registry makes the service publish through a schema registry.
func (w *environmentWorld) registry(url, more string) {
	w.Helper()
	w.config += fmt.Sprintf("encoding: {sanitized: %s}\nregistry: {url: %q%s, allow_plaintext: "+
		"true, basic_auth: {username: u, password: \"${GEODITHER_TEST_PASSWORD}\"}}\n",
		schemas.AvroRegistry, url, more)
}

// unreadable makes a file that this user cannot read: for root, who can read every file, a folder.
func (w *environmentWorld) unreadable(name string) string {
	w.Helper()
	path := filepath.Join(w.dir, name)
	if os.Geteuid() == 0 {
		fatal(w.T, os.Mkdir(path, 0o700))
		return name
	}
	fatal(w.T, os.WriteFile(path, []byte(secretWord), 0))
	return name
}

// disk mounts a disk of its own in the folder, which only root may.
func (w *environmentWorld) disk(options string) {
	w.Helper()
	path := filepath.Join(w.dir, "disk")
	fatal(w.T, os.Mkdir(path, 0o700))
	flags := uintptr(0)
	options, readOnly := strings.CutPrefix(options, "ro,")
	if readOnly {
		flags = syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", flags, options); err != nil {
		w.Skipf("a disk cannot be mounted here: %v", err)
	}
	w.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
}
