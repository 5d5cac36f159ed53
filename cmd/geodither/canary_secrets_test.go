package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestCanarySecrets: whatever goes wrong with a connection, no command prints the passwords and
// tokens of the config, or the private keys of the files that it names.
func TestCanarySecrets(t *testing.T) {
	t.Parallel()
	const password, token = secretWord, "canary.token.7731"
	broker := startBroker(t)
	dir, _ := configDir(t, complete)
	key := base64.StdEncoding.EncodeToString([]byte("canary private key 7731, which is no key"))
	write(t, dir, "tls.key",
		"-----BEGIN PRIVATE KEY-----\n"+key+"\n-----END PRIVATE KEY-----\n")
	write(t, dir, "tls.crt", "no certificate")
	write(t, dir, "password", password)
	write(t, dir, "token", token)
	write(t, dir, "tokens", token+"\n"+token)
	login := func(settings string) string { return "{sasl: {" + settings + "}}" }
	bearer := func(settings string) string {
		return login("mechanism: OAUTHBEARER, allow_plaintext: true, " +
			"oauthbearer: {" + settings + "}")
	}
	const user = "mechanism: PLAIN, username: u, "
	for name, kafka := range map[string]string{
		"a login that nobody expects": login("mechanism: SCRAM-SHA-256, username: u, " +
			`allow_plaintext: true, password: "${GEODITHER_TEST_PASSWORD}"`),
		"from a file": login(user + "password_file: password, allow_plaintext: true"),
		"a token":     bearer("token_file: token"),
		"no token":    bearer("token_file: tokens"),
		"no endpoint": bearer(`token_endpoint_url: "http://127.0.0.1:1/", client_id: c, ` +
			"client_secret: " + password),
		"two passwords": login(user + "password: " + password +
			", password_file: password"),
		"no TLS":                login(user + "password: " + password),
		"the wrong line":        "{sasl: " + password + "}",
		"a list":                login("password: [" + password + "]"),
		"no pair":               "{tls: {cert_file: tls.crt, key_file: tls.key}}",
		"swapped":               "{tls: {cert_file: tls.key, key_file: tls.crt}}",
		"a key as an authority": "{tls: {ca_file: tls.key}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(complete, "brokers: [one:9092, two:9092]",
				"brokers: ["+broker+"]\nkafka: "+kafka, 1)
			config := write(t, dir, strings.ReplaceAll(name, " ", "-")+".yml", text)
			for _, args := range [][]string{{"run"}, {"doctor"}, {"consume"}, {"state", "verify"}} {
				b := start(t, nil, append(args, "-c", config)...)
				var code int
				waits, ended := false, false
				eventually(t, "an error", func() bool {
					select {
					case code = <-b.code:
						ended = true
					default:
						// The service goes on until a broker or an endpoint is there.
						waits = args[0] == "run" && strings.Contains(b.log.String(), waitsForKafka)
					}
					return waits || ended
				})
				b.stop(t)
				if !waits && code == cli.ExitDone {
					t.Errorf("%v works, and tries less than the test means it to", args)
				}
				told := b.out.String() + b.log.String()
				for _, secret := range []string{password, token, key} {
					if strings.Contains(told, secret) {
						t.Errorf("%v tells a secret:\n%s", args, told)
					}
				}
			}
		})
	}
}
