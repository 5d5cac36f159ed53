package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/mechanism/noise"
)

// environments are the rows. Each is one real failure.
var environments = []environment{
	// TLS
	says("the broker's certificate has expired", func(w *environmentWorld) {
		w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(w.ca.server(w.T,
			func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })))
	}, "its certificate has expired: the broker needs a new one", "clock"),
	says("the broker's certificate is not valid yet", func(w *environmentWorld) {
		w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(w.ca.server(w.T,
			func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) })))
	}, "its certificate is not valid yet: check the clocks of both machines"),
	says("another authority", func(w *environmentWorld) {
		w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(newAuthority(w.T).server(w.T, nil)))
	}, "is not signed by any authority in kafka.tls.ca_file", "ca.crt"),
	says("an authority that the system does not know", func(w *environmentWorld) {
		w.cluster("{tls: {}}", kfake.TLS(w.ca.server(w.T, nil)))
	}, "authority that this machine does not know", "kafka.tls.ca_file").atAStart(),
	says("a certificate for another host", func(w *environmentWorld) {
		w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(w.ca.server(w.T,
			func(c *x509.Certificate) {
				c.DNSNames, c.IPAddresses = []string{"kafka.example.com"}, nil
			})))
	}, "its certificate is for other names", "kafka.tls.server_name"),
	says("a trust store of Java", func(w *environmentWorld) {
		w.file("trust.jks", "\xfe\xed\xfe\xed")
		w.connect("h:1", "{tls: {ca_file: trust.jks}}")
	}, "kafka.tls.ca_file", "no certificate in PEM", "(tls-files)"),
	says("a key file that cannot be read", func(w *environmentWorld) {
		w.file("tls.crt", w.ca.sign(w.T, nil).cert)
		w.unreadable("tls.key")
		w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
	}, "kafka.tls.key_file: ", "tls.key"),
	says("an encrypted key", func(w *environmentWorld) {
		w.file("tls.crt", w.ca.sign(w.T, nil).cert)
		w.file("tls.key", string(pem.EncodeToMemory(&pem.Block{
			Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte(secretWord),
		})))
		w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
	}, "kafka.tls.key_file", "is encrypted", "(tls-files)"),
	says("the key of another certificate", func(w *environmentWorld) {
		w.file("tls.crt", w.ca.sign(w.T, nil).cert)
		w.file("tls.key", w.ca.sign(w.T, nil).key)
		w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
	}, "do not fit", "tls.crt", "tls.key"),
	says("this client's certificate has expired", func(w *environmentWorld) {
		own := w.ca.sign(w.T,
			func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
		w.file("tls.crt", own.cert)
		w.file("tls.key", own.key)
		w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
	}, "kafka.tls.cert_file", "expired at", "(tls-files)"),
	says("no certificate of this client", func(w *environmentWorld) {
		w.cluster("{tls: {ca_file: ca.crt}}",
			kfake.TLS(w.ca.clients(w.ca.server(w.T, nil))))
	}, "refuses a client without a certificate: set kafka.tls.cert_file"),
	says("this client's certificate is of another authority", func(w *environmentWorld) {
		own := newAuthority(w.T).sign(w.T, nil)
		w.file("tls.crt", own.cert)
		w.file("tls.key", own.key)
		w.cluster("{tls: {ca_file: ca.crt, cert_file: tls.crt, key_file: tls.key}}",
			kfake.TLS(w.ca.clients(w.ca.server(w.T, nil))))
	}, "it refuses this client's certificate", "tls.crt", "trust store"),
	says("TLS to a port without", func(w *environmentWorld) {
		w.cluster("{tls: {ca_file: ca.crt}}")
	}, "the port is probably one without TLS", "SSL or SASL_SSL", "remove kafka.tls"),
	says("plain text to a port with TLS", func(w *environmentWorld) {
		w.cluster("", kfake.TLS(w.ca.server(w.T, nil)))
	}, "the port probably wants TLS or a login; set kafka.tls", "PLAINTEXT listener"),
	says("a broker with an old TLS alone", func(w *environmentWorld) {
		old := w.ca.server(w.T, nil)
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(old))
	}, "no TLS version or cipher in common", "needs TLS 1.2 or later"),

	// logins
	says("a wrong password", func(w *environmentWorld) {
		w.refusingLogin("SCRAM-SHA-512", "invalid credentials")
	}, `it refuses user "fleet"`, "kafka.sasl.username and the password").atAStart(),
	says("a wrong password, at a broker that closes", func(w *environmentWorld) {
		w.cluster(passwordLogin("SCRAM-SHA-512"), kfake.EnableSASL(),
			kfake.Superuser("SCRAM-SHA-512", "fleet", "another"))
	}, "closed the connection during the login of user", "check kafka.sasl.username"),
	says("a mechanism that is not offered", func(w *environmentWorld) {
		c := w.cluster(passwordLogin("SCRAM-SHA-512"), kfake.EnableSASL())
		c.ControlKey(int16(kmsg.SASLHandshake),
			func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				res := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
				res.ErrorCode = int16(kafka.UnsupportedSASLMechanism)
				res.SupportedMechanisms = []string{"GSSAPI", "PLAIN"}
				return res, nil, true
			})
	}, "does not offer kafka.sasl.mechanism SCRAM-SHA-512", "GSSAPI, PLAIN"),
	says("no login at a port that wants one", func(w *environmentWorld) {
		w.cluster("", kfake.EnableSASL())
	}, "the port probably wants TLS or a login", "kafka.sasl"),
	says("a login at a port without", func(w *environmentWorld) {
		c := w.cluster(passwordLogin("SCRAM-SHA-512"))
		c.ControlKey(int16(kmsg.SASLHandshake),
			func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				res := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
				res.ErrorCode = int16(kafka.IllegalSASLState)
				return res, nil, true
			})
	}, "asks for no login on this port", "SASL_SSL listener", "remove kafka.sasl"),
	says("no file of the password", func(w *environmentWorld) {
		w.connect("h:1", "{sasl: {mechanism: SCRAM-SHA-512, username: u, "+
			"allow_plaintext: true, password_file: gone}}")
	}, "kafka.sasl.password_file: open", "gone", "name an existing file"),
	says("an empty file of the password", func(w *environmentWorld) {
		w.file("password", "\n")
		w.connect("h:1", "{sasl: {mechanism: SCRAM-SHA-512, username: u, "+
			"allow_plaintext: true, password_file: password}}")
	}, "kafka.sasl.password_file", "is empty"),
	says("the token endpoint is away", func(w *environmentWorld) {
		w.cluster(tokenLogin("http://127.0.0.1:1/token"), kfake.EnableSASL())
	}, "no token to log in with", "token endpoint http://127.0.0.1:1/token", "connection refused"),
	says("the token endpoint refuses the client", func(w *environmentWorld) {
		url := w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
			r.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(r, `{"error":"invalid_client","error_description":"not `+secretWord+`"}`)
		})
		w.cluster(tokenLogin(url), kfake.EnableSASL())
	}, "401 Unauthorized invalid_client", "check client_id, client_secret_file"),
	says("the token endpoint is a web page", func(w *environmentWorld) {
		url := w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(r, "<html>"+secretWord)
		})
		w.cluster(tokenLogin(url), kfake.EnableSASL())
	}, "no JSON: is it a token endpoint?"),
	says("the token endpoint's certificate is of another authority", func(w *environmentWorld) {
		url := w.web(newAuthority(w.T).server(w.T, nil), http.NotFound)
		w.cluster(tokenLogin(url), kfake.EnableSASL())
	}, "no token to log in with", "certificate", "kafka.sasl.oauthbearer.ca_file"),
	says("an expired token", func(w *environmentWorld) {
		w.file("token", secretWord+".token")
		w.refusingLogin("OAUTHBEARER", "the token "+secretWord+".token has expired")
	}, "it refuses the token", "issuer, audience, scope and expiry"),
	says("a file of the token that holds something else", func(w *environmentWorld) {
		w.file("token", "Bearer "+secretWord)
		w.connect("h:1", "{sasl: {mechanism: OAUTHBEARER, allow_plaintext: true, "+
			"oauthbearer: {token_file: token}}}")
	}, "token_file", "does not hold a token alone"),

	// brokers
	says("a service waits for a broker", func(*environmentWorld) {},
		"waiting for Kafka and its topics", "any of 127.0.0.1:1: is Kafka running").whileItWaits(),
	says("a host that does not exist", func(w *environmentWorld) {
		w.connect("kafka.invalid:9092", "")
	}, "kafka.invalid:9092: its host name was not found: correct brokers", "lookup kafka.invalid"),
	says("a broker that closes", func(w *environmentWorld) {
		w.connect(listener(w.T, func(net.Conn) {}), "")
	}, "it closed the connection instead of answering", "set kafka.tls and kafka.sasl"),
	says("a broker that is a web server", func(w *environmentWorld) {
		w.connect(listener(w.T, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}), "")
	}, "it answers with something else than Kafka's protocol", "a broker's listener"),
	says("an advertised address that cannot be reached", func(w *environmentWorld) {
		w.advertise("127.0.0.1:1")
	}, "answers", "the cluster advertises a broker as 127.0.0.1:1, which cannot be reached",
		"correct its advertised.listeners"),
	says("an advertised name that is not known", func(w *environmentWorld) {
		w.advertise("kafka.invalid:9092")
	}, "advertises a broker as kafka.invalid:9092", "this machine's name service"),
	says("a broker that says nothing", func(w *environmentWorld) {
		w.connect(listener(w.T, func(net.Conn) { <-w.Context().Done() }), "")
	}, "does not answer: is Kafka running there?"),

	// permissions
	says("no permission to see the raw topic", func(w *environmentWorld) {
		w.permitted(kmsg.ACLResourceTypeTopic, "raw", kmsg.ACLOperationAll)
	}, "metadata of topic raw", "grant this client Read and Describe"),
	says("no permission to read the raw topic", func(w *environmentWorld) {
		w.feed(w.permitted(kmsg.ACLResourceTypeTopic, "raw", kmsg.ACLOperationRead), 0)
	}, "raw", "cannot be read", "grant this client Read"),
	says("no permission for the group", func(w *environmentWorld) {
		w.permitted(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationAll)
	}, "group g", "Group Authorization Failed", "grant this client Read on the"),
	says("no permission for the transactional ids", func(w *environmentWorld) {
		w.permitted(kmsg.ACLResourceTypeTransactionalId, "g", kmsg.ACLOperationAll)
	}, "grant this client Write on the transactional id").atAStart(),
	says("no permission to write the sanitized topic", func(w *environmentWorld) {
		w.feed(w.permitted(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite), 0)
	}, "out", "grant this client Write").atAStart(),
	says("no permission to make a topic; the raw one is there", func(w *environmentWorld) {
		w.permitted(kmsg.ACLResourceTypeTopic, "raw", kmsg.ACLOperationCreate, kfake.ACL{
			Resource: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster",
			Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationCreate,
		})
		w.edit("raw: raw,", "raw: raw, dead_letters: raw-dead,")
	}, "create topic raw-dead", "grant this client Create on the topic").
		by("topics", "create", "-c", "CONFIG"),

	// topics
	says("no raw topic", func(w *environmentWorld) {
		w.cluster("", kfake.SeedTopics(2, "raws"))
	}, "no such topic: raw", "raws", "(topics-missing)"),
	says("a service waits for the raw topic", func(w *environmentWorld) {
		w.cluster("", kfake.SeedTopics(2, "raws"))
	}, "waiting for Kafka and its topics", "no such topic: raw", "(topics-missing)").
		whileItWaits(),
	says("the sanitized topic has other partitions", func(w *environmentWorld) {
		w.feed(w.cluster("", kfake.SeedTopics(3, "out")), 0)
	}, "topic out has 3 partitions and raw has 2", "(partitions-differ)"),
	says("the changelog has other partitions", func(w *environmentWorld) {
		w.feed(w.cluster("", kfake.SeedTopics(3, "g-changelog")), 0)
	}, "g-changelog exists with 3 partitions, not 2", "(partitions-differ)").atAStart(),
	says("the changelog is not compacted", func(w *environmentWorld) {
		w.feed(w.cluster("", kfake.SeedTopics(2, "g-changelog")), 0)
	}, "g-changelog", "cleanup.policy", "compact"),
	says("no sanitized topic", func(w *environmentWorld) {
		w.feed(w.cluster(""), 0)
		w.edit("create: true", "create: false")
	}, "no such topic: out", "create it", "(topics-missing)"),
	says("the changelog takes no batch as large as a user's state", func(w *environmentWorld) {
		c := w.cluster("")
		small := "300"
		compact := "compact"
		fatal(w.T, c.CreateTopic("g-changelog", 2, map[string]string{
			"cleanup.policy": compact, "max.message.bytes": small,
		}))
		w.feed(c, 0)
	}, "g-changelog", "max.message.bytes").atAStart(),
	says("fixes of another place than the model's map", func(w *environmentWorld) {
		w.feed(w.cluster(""), 5)
	}, "lie outside the map", "Is the map the fleet's? Train a model"),
	says("an instance of other settings", func(w *environmentWorld) {
		w.feed(w.cluster(""), 0)
		w.running()
		w.edit("epsilon: 2,", "epsilon: 3,")
		w.edit("state_dir: state", "state_dir: other")
	}, "other settings", "release.epsilon").atAStart(),
	says("another key than the running instance's", func(w *environmentWorld) {
		w.feed(w.cluster(""), 0)
		w.running()
		w.file("noise.key", strings.Repeat("5a", 32))
		w.edit("state_dir: state", "state_dir: other")
	}, "other settings", "key_file").atAStart(),

	// the schema registry
	says("the registry is away", func(w *environmentWorld) {
		w.registry("http://127.0.0.1:1", "")
	}, "http://127.0.0.1:1 does not answer: is it running", "registry.url"),
	says("the registry refuses the login", func(w *environmentWorld) {
		w.registry(w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
			r.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(r, `{"error_code":401,"message":"no `+secretWord+`"}`)
		}), "")
	}, "401", "registry.basic_auth"),
	says("the registry has no such subject", func(w *environmentWorld) {
		w.registry(w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
			r.WriteHeader(http.StatusNotFound)
			fmt.Fprint(r, `{"error_code":40401,"message":"Subject not found."}`)
		}), "")
	}, "out-value does not have the schema", "geodither schemas register"),
	says("a schema that is not compatible", func(w *environmentWorld) {
		w.registry(w.web(nil, func(r http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/versions") {
				r.WriteHeader(http.StatusConflict)
				fmt.Fprint(r, `{"error_code":409,"message":"READER_FIELD_MISSING"}`)
				return
			}
			r.WriteHeader(http.StatusNotFound)
			fmt.Fprint(r, `{"error_code":40403,"message":"Schema not found"}`)
		}), "")
	}, "is not compatible with subject out-value", "(schemas-incompatible)").
		by("schemas", "register", "-c", "CONFIG"),
	says("the registry's certificate is of another authority", func(w *environmentWorld) {
		w.registry(w.web(newAuthority(w.T).server(w.T, nil), http.NotFound),
			", tls: {ca_file: ca.crt}")
	}, "certificate", "registry.tls.ca_file"),
	says("TLS to a registry without", func(w *environmentWorld) {
		url := w.web(nil, http.NotFound)
		w.registry(strings.Replace(url, "http:", "https:", 1), ", tls: {ca_file: ca.crt}")
	}, "does not speak TLS: begin registry.url with http://"),
	says("plain text to a registry with TLS", func(w *environmentWorld) {
		settings := w.ca.server(w.T, nil)
		w.registry("http://"+listener(w.T, func(c net.Conn) {
			_ = tls.Server(c, settings).HandshakeContext(w.Context())
		}), "")
	}, "does not answer: is it running", "registry.url right, http or https too?"),
	says("the registry is a web page", func(w *environmentWorld) {
		w.registry(w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(r, "<html>")
		}), "")
	}, "http://127.0.0.1", "registry.url"),

	// files, folders, ports, clocks
	says("half a model", func(w *environmentWorld) {
		w.file("model.avro", read(w.T, filepath.Join(w.dir, "model.avro"))[:700])
	}, "model.avro", "the model file is cut short", "(model-file)"),
	says("a key of the noise that cannot be read", func(w *environmentWorld) {
		w.edit("noise.key", w.unreadable("secret.key"))
	}, "key_file", "secret.key", "(key-file)").atAStart(),
	says("a key of the noise that everybody can read", func(w *environmentWorld) {
		fatal(w.T, os.Chmod(filepath.Join(w.dir, "noise.key"), 0o644))
	}, "everybody on this machine can read", "noise.key", "chmod 600"),
	says("a clock that is behind the key", func(w *environmentWorld) {
		later := noise.DayAt(time.Now().AddDate(0, 0, 3).UnixMilli())
		key, err := noise.NewKey().From(later)
		fatal(w.T, err)
		w.file("noise.key", key.Reveal())
	}, "the noise key begins at", "and today is", "(key-file)").atAStart(),
	says("a state folder that is a file", func(w *environmentWorld) {
		w.edit("state_dir: state", "state_dir: model.avro")
	}, "model.avro is no folder: name another"),
	says("a state folder that is in use", func(w *environmentWorld) {
		w.feed(w.cluster(""), 0)
		w.running()
	}, "used by another instance", "(folder-in-use)").atAStart(),
	says("a read-only disk", func(w *environmentWorld) {
		w.disk("ro,size=1m")
		w.feed(w.cluster(""), 0)
		w.edit("state_dir: state", "state_dir: disk/state")
	}, "the state folder cannot be written", "(folder-failed)", "read-only file").atAStart(),
	says("a read-only disk, asked the doctor", func(w *environmentWorld) {
		w.disk("ro,size=1m")
		w.edit("state_dir: state", "state_dir: disk/state")
	}, "it cannot be made or written: name one below a folder that exists"),
	says("a full disk", func(w *environmentWorld) {
		w.disk("size=8k")
		w.feed(w.cluster(""), 0)
		w.edit("state_dir: state", "state_dir: disk/state")
	}, "the disk with the state folder is full").atAStart(),
	says("a full disk, asked the doctor", func(w *environmentWorld) {
		w.disk("size=8k")
		w.edit("state_dir: state", "state_dir: disk/state")
	}, "the disk is full: free some space"),
	says("a port that is in use", func(w *environmentWorld) {
		w.cluster("")
		l, err := net.Listen("tcp", "127.0.0.1:0")
		fatal(w.T, err)
		w.Cleanup(func() { l.Close() })
		w.config += fmt.Sprintf("http: {listen: %q}\n", l.Addr())
	}, "http.listen: ", "is in use by another process", "in use by another process").atAStart(),
}
