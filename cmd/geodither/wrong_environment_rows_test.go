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

var runConfig = []string{"run", "-c", "CONFIG"}

// environments are the rows. Each is one real failure.
var environments = []environment{
	// TLS
	{
		name: "the broker's certificate has expired",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(w.ca.server(w.T,
				func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })))
		},
		words: []string{"its certificate has expired: the broker needs a new one", "clock"},
	},
	{
		name: "the broker's certificate has expired, at a start",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(w.ca.server(w.T,
				func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })))
		},
		args:  runConfig,
		words: []string{"its certificate has expired: the broker needs a new one"},
	},
	{
		name: "the broker's certificate is not valid yet",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(w.ca.server(w.T,
				func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) })))
		},
		words: []string{"its certificate is not valid yet: check the clocks of both machines"},
	},
	{
		name: "another authority",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(newAuthority(w.T).server(w.T, nil)))
		},
		words: []string{"is not signed by any authority in kafka.tls.ca_file", "ca.crt"},
	},
	{
		name: "an authority that the system does not know",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {}}", kfake.TLS(w.ca.server(w.T, nil)))
		},
		args:  runConfig,
		words: []string{"authority that this machine does not know", "kafka.tls.ca_file"},
	},
	{
		name: "a certificate for another host",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(w.ca.server(w.T,
				func(c *x509.Certificate) {
					c.DNSNames, c.IPAddresses = []string{"kafka.example.com"}, nil
				})))
		},
		words: []string{"its certificate is for other names", "kafka.tls.server_name"},
	},
	{
		name:  "no file of authorities",
		wrong: func(w *environmentWorld) { w.connect("h:1", "{tls: {ca_file: gone.crt}}") },
		words: []string{"kafka.tls.ca_file: open", "gone.crt", "name an existing file"},
	},
	{
		name: "a trust store of Java",
		wrong: func(w *environmentWorld) {
			w.file("trust.jks", "\xfe\xed\xfe\xed")
			w.connect("h:1", "{tls: {ca_file: trust.jks}}")
		},
		words: []string{"kafka.tls.ca_file", "no certificate in PEM", "keytool -exportcert -rfc"},
	},
	{
		name: "a key file that cannot be read",
		wrong: func(w *environmentWorld) {
			w.file("tls.crt", w.ca.sign(w.T, nil).cert)
			w.unreadable("tls.key")
			w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
		},
		words: []string{"kafka.tls.key_file: ", "tls.key"},
	},
	{
		name: "no key file",
		wrong: func(w *environmentWorld) {
			w.file("tls.crt", w.ca.sign(w.T, nil).cert)
			w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: gone.key}}")
		},
		args:  runConfig,
		words: []string{"kafka.tls.key_file: open", "gone.key", "name an existing file"},
	},
	{
		name: "an encrypted key",
		wrong: func(w *environmentWorld) {
			w.file("tls.crt", w.ca.sign(w.T, nil).cert)
			w.file("tls.key", string(pem.EncodeToMemory(&pem.Block{
				Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte(secretWord),
			})))
			w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
		},
		words: []string{"kafka.tls.key_file", "is encrypted", "openssl pkey -in"},
	},
	{
		name: "the key of another certificate",
		wrong: func(w *environmentWorld) {
			w.file("tls.crt", w.ca.sign(w.T, nil).cert)
			w.file("tls.key", w.ca.sign(w.T, nil).key)
			w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
		},
		words: []string{"are no pair of a certificate and its key", "tls.crt", "tls.key"},
	},
	{
		name: "this client's certificate has expired",
		wrong: func(w *environmentWorld) {
			own := w.ca.sign(w.T,
				func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
			w.file("tls.crt", own.cert)
			w.file("tls.key", own.key)
			w.connect("h:1", "{tls: {cert_file: tls.crt, key_file: tls.key}}")
		},
		words: []string{"kafka.tls.cert_file", "expired at", "put a new certificate in its place"},
	},
	{
		name: "no certificate of this client",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {ca_file: ca.crt}}",
				kfake.TLS(w.ca.clients(w.ca.server(w.T, nil))))
		},
		words: []string{"refuses a client without a certificate: set kafka.tls.cert_file"},
	},
	{
		name: "this client's certificate is of another authority",
		wrong: func(w *environmentWorld) {
			own := newAuthority(w.T).sign(w.T, nil)
			w.file("tls.crt", own.cert)
			w.file("tls.key", own.key)
			w.cluster("{tls: {ca_file: ca.crt, cert_file: tls.crt, key_file: tls.key}}",
				kfake.TLS(w.ca.clients(w.ca.server(w.T, nil))))
		},
		words: []string{"it refuses this client's certificate", "tls.crt", "trust store"},
	},
	{
		name: "TLS to a port without",
		wrong: func(w *environmentWorld) {
			w.cluster("{tls: {ca_file: ca.crt}}")
		},
		words: []string{
			"the port is probably one without TLS", "SSL or SASL_SSL", "remove kafka.tls",
		},
	},
	{
		name: "plain text to a port with TLS",
		wrong: func(w *environmentWorld) {
			w.cluster("", kfake.TLS(w.ca.server(w.T, nil)))
		},
		words: []string{
			"the port probably wants TLS or a login; set kafka.tls", "PLAINTEXT listener",
		},
	},
	{
		name: "a broker with an old TLS alone",
		wrong: func(w *environmentWorld) {
			old := w.ca.server(w.T, nil)
			old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			w.cluster("{tls: {ca_file: ca.crt}}", kfake.TLS(old))
		},
		words: []string{"no TLS version or cipher in common", "needs TLS 1.2 or later"},
	},

	// logins
	{
		name: "a wrong password",
		wrong: func(w *environmentWorld) {
			w.refusingLogin("SCRAM-SHA-512", "invalid credentials")
		},
		args:  runConfig,
		words: []string{`it refuses user "fleet"`, "kafka.sasl.username and the password"},
	},
	{
		name: "a wrong password, at a broker that closes",
		wrong: func(w *environmentWorld) {
			w.cluster(passwordLogin("SCRAM-SHA-512"), kfake.EnableSASL(),
				kfake.Superuser("SCRAM-SHA-512", "fleet", "another"))
		},
		words: []string{
			"closed the connection during the login of user", "check kafka.sasl.username",
		},
	},
	{
		name: "an unknown user",
		wrong: func(w *environmentWorld) {
			w.cluster(passwordLogin("PLAIN"), kfake.EnableSASL(),
				kfake.Superuser("PLAIN", "somebody", secretWord))
		},
		words: []string{`user "fleet"`, "check kafka.sasl.username"},
	},
	{
		name: "a mechanism that is not offered",
		wrong: func(w *environmentWorld) {
			c := w.cluster(passwordLogin("SCRAM-SHA-512"), kfake.EnableSASL())
			c.ControlKey(int16(kmsg.SASLHandshake),
				func(req kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					res := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
					res.ErrorCode = int16(kafka.UnsupportedSASLMechanism)
					res.SupportedMechanisms = []string{"GSSAPI", "PLAIN"}
					return res, nil, true
				})
		},
		words: []string{"does not offer kafka.sasl.mechanism SCRAM-SHA-512", "GSSAPI, PLAIN"},
	},
	{
		name: "no login at a port that wants one",
		wrong: func(w *environmentWorld) {
			w.cluster("", kfake.EnableSASL())
		},
		words: []string{"the port probably wants TLS or a login", "kafka.sasl"},
	},
	{
		name: "a login at a port without",
		wrong: func(w *environmentWorld) {
			c := w.cluster(passwordLogin("SCRAM-SHA-512"))
			c.ControlKey(int16(kmsg.SASLHandshake),
				func(req kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					res := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
					res.ErrorCode = int16(kafka.IllegalSASLState)
					return res, nil, true
				})
		},
		words: []string{"asks for no login on this port", "SASL_SSL listener", "remove kafka.sasl"},
	},
	{
		name: "no file of the password",
		wrong: func(w *environmentWorld) {
			w.connect("h:1", "{sasl: {mechanism: SCRAM-SHA-512, username: u, "+
				"allow_plaintext: true, password_file: gone}}")
		},
		words: []string{"kafka.sasl.password_file: open", "gone", "name an existing file"},
	},
	{
		name: "an empty file of the password",
		wrong: func(w *environmentWorld) {
			w.file("password", "\n")
			w.connect("h:1", "{sasl: {mechanism: SCRAM-SHA-512, username: u, "+
				"allow_plaintext: true, password_file: password}}")
		},
		words: []string{"kafka.sasl.password_file", "is empty: write the secret into it"},
	},
	{
		name: "a password from a variable that is not there",
		wrong: func(w *environmentWorld) {
			w.connect("h:1", "{sasl: {mechanism: PLAIN, username: u, allow_plaintext: true, "+
				"password: \"${GEODITHER_NOWHERE}\"}}")
		},
		words: []string{"the environment has no variable GEODITHER_NOWHERE: set it"},
	},
	{
		name: "the token endpoint is away",
		wrong: func(w *environmentWorld) {
			w.cluster(tokenLogin("http://127.0.0.1:1/token"), kfake.EnableSASL())
		},
		words: []string{
			"no token to log in with", "token endpoint http://127.0.0.1:1/token",
			"connection refused",
		},
	},
	{
		name: "the token endpoint refuses the client",
		wrong: func(w *environmentWorld) {
			url := w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
				r.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(r, `{"error":"invalid_client","error_description":"not `+secretWord+`"}`)
			})
			w.cluster(tokenLogin(url), kfake.EnableSASL())
		},
		words: []string{"401 Unauthorized invalid_client", "check client_id, client_secret_file"},
	},
	{
		name: "the token endpoint is a web page",
		wrong: func(w *environmentWorld) {
			url := w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(r, "<html>"+secretWord)
			})
			w.cluster(tokenLogin(url), kfake.EnableSASL())
		},
		words: []string{"something else than JSON: is this the address of the token endpoint?"},
	},
	{
		name: "the token endpoint's certificate is of another authority",
		wrong: func(w *environmentWorld) {
			url := w.web(newAuthority(w.T).server(w.T, nil), http.NotFound)
			w.cluster(tokenLogin(url), kfake.EnableSASL())
		},
		words: []string{"no token to log in with", "certificate", "kafka.sasl.oauthbearer.ca_file"},
	},
	{
		name: "an expired token",
		wrong: func(w *environmentWorld) {
			w.file("token", secretWord+".token")
			w.refusingLogin("OAUTHBEARER", "the token "+secretWord+".token has expired")
		},
		words: []string{"it refuses the token", "issuer, audience, scope and expiry"},
	},
	{
		name: "no file of the token",
		wrong: func(w *environmentWorld) {
			w.connect("h:1", "{sasl: {mechanism: OAUTHBEARER, allow_plaintext: true, "+
				"oauthbearer: {token_file: gone}}}")
		},
		words: []string{"kafka.sasl.oauthbearer.token_file: open", "name an existing file"},
	},
	{
		name: "a file of the token that holds something else",
		wrong: func(w *environmentWorld) {
			w.file("token", "Bearer "+secretWord)
			w.connect("h:1", "{sasl: {mechanism: OAUTHBEARER, allow_plaintext: true, "+
				"oauthbearer: {token_file: token}}}")
		},
		words: []string{"token_file", "does not hold a token alone: one line of letters"},
	},

	// brokers
	{
		name:  "a connection is refused",
		wrong: func(*environmentWorld) {},
		words: []string{
			"127.0.0.1:1 does not answer: is Kafka running there?", "connection refused",
		},
	},
	{
		name:  "a service waits for a broker",
		wrong: func(*environmentWorld) {},
		args:  runConfig,
		waits: true,
		words: []string{"waiting for Kafka and its topics", "any of 127.0.0.1:1: is Kafka running"},
	},
	{
		name:  "a host that does not exist",
		wrong: func(w *environmentWorld) { w.connect("kafka.invalid:9092", "") },
		words: []string{
			"kafka.invalid:9092: its host name was not found: correct brokers",
			"lookup kafka.invalid",
		},
	},
	{
		name:  "a broker that closes",
		wrong: func(w *environmentWorld) { w.connect(listener(w.T, func(net.Conn) {}), "") },
		words: []string{
			"it closed the connection instead of answering", "set kafka.tls and kafka.sasl",
		},
	},
	{
		name: "a broker that is a web server",
		wrong: func(w *environmentWorld) {
			w.connect(listener(w.T, func(c net.Conn) {
				fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}), "")
		},
		words: []string{
			"it answers with something else than Kafka's protocol", "a broker's listener",
		},
	},
	{
		name: "a broker that says nothing",
		wrong: func(w *environmentWorld) {
			w.connect(listener(w.T, func(net.Conn) { <-w.Context().Done() }), "")
		},
		words: []string{"does not answer: is Kafka running there?"},
	},

	// permissions
	{
		name: "no permission to see the raw topic",
		wrong: func(w *environmentWorld) {
			w.permitted(kmsg.ACLResourceTypeTopic, "raw", kmsg.ACLOperationAll)
		},
		words: []string{"metadata of topic raw", "grant this client Read and Describe"},
	},
	{
		name: "no permission to read the raw topic",
		wrong: func(w *environmentWorld) {
			w.feed(w.permitted(kmsg.ACLResourceTypeTopic, "raw", kmsg.ACLOperationRead), 0)
		},
		words: []string{"raw", "cannot be read", "grant this client Read"},
	},
	{
		name: "no permission for the group",
		wrong: func(w *environmentWorld) {
			w.permitted(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationAll)
		},
		words: []string{"group g", "Group Authorization Failed", "grant this client Read on the"},
	},
	{
		name: "no permission for the transactional ids",
		wrong: func(w *environmentWorld) {
			w.permitted(kmsg.ACLResourceTypeTransactionalId, "g", kmsg.ACLOperationAll)
		},
		args:  runConfig,
		words: []string{"grant this client Write on the transactional id"},
	},
	{
		name: "no permission to write the sanitized topic",
		wrong: func(w *environmentWorld) {
			w.feed(w.permitted(kmsg.ACLResourceTypeTopic, "out", kmsg.ACLOperationWrite), 0)
		},
		args:  runConfig,
		words: []string{"out", "grant this client Write"},
	},
	{
		name: "no permission to make a topic, nor the raw one, which is there",
		wrong: func(w *environmentWorld) {
			w.permitted(kmsg.ACLResourceTypeTopic, "raw", kmsg.ACLOperationCreate, kfake.ACL{
				Resource: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster",
				Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationCreate,
			})
			w.edit("raw: raw,", "raw: raw, dead_letters: raw-dead,")
		},
		args:  []string{"topics", "create", "-c", "CONFIG"},
		words: []string{"create topic raw-dead", "grant this client Create on the topic"},
	},

	// topics
	{
		name:  "no raw topic",
		wrong: func(w *environmentWorld) { w.cluster("", kfake.SeedTopics(2, "raws")) },
		words: []string{"raw is missing", "raws", "run waits for it", "topics.partitions"},
	},
	{
		name: "a service waits for the raw topic",
		wrong: func(w *environmentWorld) {
			w.cluster("", kfake.SeedTopics(2, "raws"))
		},
		args:  runConfig,
		waits: true,
		words: []string{
			"waiting for Kafka and its topics", "no such topic: raw", "topics.partitions",
		},
	},
	{
		name:  "the sanitized topic has other partitions",
		wrong: func(w *environmentWorld) { w.feed(w.cluster("", kfake.SeedTopics(3, "out")), 0) },
		words: []string{"topic out has 3 partitions and raw has 2", "name another one"},
	},
	{
		name: "the changelog has other partitions",
		wrong: func(w *environmentWorld) {
			w.feed(w.cluster("", kfake.SeedTopics(3, "g-changelog")), 0)
		},
		args:  runConfig,
		words: []string{"g-changelog exists with 3 partitions, not 2", "Do not delete or grow"},
	},
	{
		name: "the changelog is not compacted",
		wrong: func(w *environmentWorld) {
			w.feed(w.cluster("", kfake.SeedTopics(2, "g-changelog")), 0)
		},
		words: []string{"g-changelog", "cleanup.policy", "compact"},
	},
	{
		name: "no sanitized topic",
		wrong: func(w *environmentWorld) {
			w.feed(w.cluster(""), 0)
			w.edit("create: true", "create: false")
		},
		words: []string{"out is missing", "create it, set topics.create: true"},
	},
	{
		name: "the changelog takes no batch as large as a user's state",
		wrong: func(w *environmentWorld) {
			c := w.cluster("")
			small := "300"
			compact := "compact"
			fatal(w.T, c.CreateTopic("g-changelog", 2, map[string]string{
				"cleanup.policy": compact, "max.message.bytes": small,
			}))
			w.feed(c, 0)
		},
		args:  runConfig,
		words: []string{"g-changelog", "max.message.bytes"},
	},
	{
		name:  "fixes of another place than the model's map",
		wrong: func(w *environmentWorld) { w.feed(w.cluster(""), 5) },
		words: []string{"lie outside the map", "Is the map the fleet's? Train a model"},
	},
	{
		name: "an instance of other settings",
		wrong: func(w *environmentWorld) {
			w.feed(w.cluster(""), 0)
			w.running()
			w.edit("epsilon: 2,", "epsilon: 3,")
			w.edit("state_dir: state", "state_dir: other")
		},
		args:  runConfig,
		words: []string{"other settings", "release.epsilon"},
	},
	{
		name: "another key than the running instance's",
		wrong: func(w *environmentWorld) {
			w.feed(w.cluster(""), 0)
			w.running()
			w.file("noise.key", noise.NewKey().Reveal())
			w.edit("state_dir: state", "state_dir: other")
		},
		args:  runConfig,
		words: []string{"other settings", "key_file"},
	},

	// the schema registry
	{
		name: "the registry is away",
		wrong: func(w *environmentWorld) {
			w.registry("http://127.0.0.1:1", "")
		},
		words: []string{"http://127.0.0.1:1 does not answer: is it running", "registry.url"},
	},
	{
		name: "the registry refuses the login",
		wrong: func(w *environmentWorld) {
			w.registry(w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
				r.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(r, `{"error_code":401,"message":"no `+secretWord+`"}`)
			}), "")
		},
		words: []string{"401", "registry.basic_auth"},
	},
	{
		name: "the registry has no such subject",
		wrong: func(w *environmentWorld) {
			w.registry(w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
				r.WriteHeader(http.StatusNotFound)
				fmt.Fprint(r, `{"error_code":40401,"message":"Subject not found."}`)
			}), "")
		},
		words: []string{"out-value does not have the schema", "geodither schemas register"},
	},
	{
		name: "a schema that is not compatible",
		wrong: func(w *environmentWorld) {
			w.registry(w.web(nil, func(r http.ResponseWriter, q *http.Request) {
				if strings.HasSuffix(q.URL.Path, "/versions") {
					r.WriteHeader(http.StatusConflict)
					fmt.Fprint(r, `{"error_code":409,"message":"READER_FIELD_MISSING"}`)
					return
				}
				r.WriteHeader(http.StatusNotFound)
				fmt.Fprint(r, `{"error_code":40403,"message":"Schema not found"}`)
			}), "")
		},
		args:  []string{"schemas", "register", "-c", "CONFIG"},
		words: []string{"is not compatible with the versions of subject out-value"},
	},
	{
		name: "the registry's certificate is of another authority",
		wrong: func(w *environmentWorld) {
			w.registry(w.web(newAuthority(w.T).server(w.T, nil), http.NotFound),
				", tls: {ca_file: ca.crt}")
		},
		words: []string{"certificate", "registry.tls.ca_file"},
	},
	{
		name: "TLS to a registry without",
		wrong: func(w *environmentWorld) {
			url := w.web(nil, http.NotFound)
			w.registry(strings.Replace(url, "http:", "https:", 1), ", tls: {ca_file: ca.crt}")
		},
		words: []string{"does not speak TLS: begin registry.url with http://"},
	},
	{
		name: "plain text to a registry with TLS",
		wrong: func(w *environmentWorld) {
			settings := w.ca.server(w.T, nil)
			w.registry("http://"+listener(w.T, func(c net.Conn) {
				_ = tls.Server(c, settings).HandshakeContext(w.Context())
			}), "")
		},
		words: []string{"does not answer: is it running", "registry.url right, http or https too?"},
	},
	{
		name: "the registry is a web page",
		wrong: func(w *environmentWorld) {
			w.registry(w.web(nil, func(r http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(r, "<html>")
			}), "")
		},
		words: []string{"http://127.0.0.1", "registry.url"},
	},

	// files, folders, ports, clocks
	{
		name:  "no model",
		wrong: func(w *environmentWorld) { w.edit("model.avro", "gone.avro") },
		words: []string{"model: ", "gone.avro: no such file", "geodither train"},
	},
	{
		name: "half a model",
		wrong: func(w *environmentWorld) {
			w.file("model.avro", read(w.T, filepath.Join(w.dir, "model.avro"))[:700])
		},
		words: []string{
			"model.avro", "the model file is cut short", "copy it again or train again",
		},
	},
	{
		name:  "no key of the noise",
		wrong: func(w *environmentWorld) { w.edit("noise.key", "gone.key") },
		words: []string{"key_file", "gone.key", "geodither key new"},
	},
	{
		name: "a key of the noise that is too short",
		wrong: func(w *environmentWorld) {
			w.file("noise.key", "00112233445566778899aabbccddeeff")
		},
		words: []string{"key_file", "64 hexadecimal digits"},
	},
	{
		name:  "a key of the noise that cannot be read",
		wrong: func(w *environmentWorld) { w.edit("noise.key", w.unreadable("secret.key")) },
		args:  runConfig,
		words: []string{"key_file", "secret.key", "this user can read"},
	},
	{
		name: "a key of the noise that everybody can read",
		wrong: func(w *environmentWorld) {
			fatal(w.T, os.Chmod(filepath.Join(w.dir, "noise.key"), 0o644))
		},
		words: []string{"everybody on this machine can read", "noise.key", "chmod 600"},
	},
	{
		name: "a clock that is behind the key",
		wrong: func(w *environmentWorld) {
			later := noise.DayAt(time.Now().AddDate(0, 0, 3).UnixMilli())
			key, err := noise.NewKey().From(later)
			fatal(w.T, err)
			w.file("noise.key", key.Reveal())
		},
		args:  runConfig,
		words: []string{"the noise key begins at", "and today is", "use an older copy"},
	},
	{
		name:  "a state folder that is a file",
		wrong: func(w *environmentWorld) { w.edit("state_dir: state", "state_dir: model.avro") },
		words: []string{"model.avro is no folder: name another"},
	},
	{
		name: "a state folder that is in use",
		wrong: func(w *environmentWorld) {
			w.feed(w.cluster(""), 0)
			w.running()
		},
		args:  runConfig,
		words: []string{"in use by another instance", "a state folder of its own"},
	},
	{
		name: "a read-only disk",
		wrong: func(w *environmentWorld) {
			w.disk("ro,size=1m")
			w.feed(w.cluster(""), 0)
			w.edit("state_dir: state", "state_dir: disk/state")
		},
		args:  runConfig,
		words: []string{"the state folder cannot be written", "name another one", "read-only file"},
	},
	{
		name: "a read-only disk, asked the doctor",
		wrong: func(w *environmentWorld) {
			w.disk("ro,size=1m")
			w.edit("state_dir: state", "state_dir: disk/state")
		},
		words: []string{"it cannot be made or written: name one below a folder that exists"},
	},
	{
		name: "a full disk",
		wrong: func(w *environmentWorld) {
			w.disk("size=8k")
			w.feed(w.cluster(""), 0)
			w.edit("state_dir: state", "state_dir: disk/state")
		},
		args:  runConfig,
		words: []string{"the disk with the state folder is full: free some space"},
	},
	{
		name: "a full disk, asked the doctor",
		wrong: func(w *environmentWorld) {
			w.disk("size=8k")
			w.edit("state_dir: state", "state_dir: disk/state")
		},
		words: []string{"the disk is full: free some space"},
	},
	{
		name: "a port that is in use",
		wrong: func(w *environmentWorld) {
			w.cluster("")
			l, err := net.Listen("tcp", "127.0.0.1:0")
			fatal(w.T, err)
			w.Cleanup(func() { l.Close() })
			w.config += fmt.Sprintf("http: {listen: %q}\n", l.Addr())
		},
		args:  runConfig,
		words: []string{"http.listen: ", "is in use by another process", "choose another port"},
	},
}
