package kafkaconn

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWebRefuses: each mistake is found before a request is sent, and named by its key.
func TestWebRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret, empty := write("secret", "hush\n"), write("empty", " \n")
	two, none := write("two", "a b"), filepath.Join(dir, "none")
	const safe = "https://registry"
	for _, test := range []struct {
		web  Web
		want string // empty: it is accepted
	}{
		{Web{URL: "http://registry:8081"}, ""},
		{Web{URL: safe + "/apis/ccompat/v7"}, ""},
		{Web{URL: "registry:8081"}, "registry.url: write http://"},
		{Web{URL: "ftp://registry"}, "registry.url: write http://"},
		{Web{URL: ""}, "registry.url: write http://"},
		{Web{URL: "https://me:hush@registry"}, "write http://HOST:PORT"},
		{Web{URL: safe, TLS: TLS{CAFile: none}}, "registry.tls.ca_file"},
		{Web{URL: safe, TLS: TLS{CertFile: none}}, "registry.tls: cert_file and key_file"},
		{Web{URL: safe, TLS: TLS{CertFile: none, KeyFile: none}}, "registry.tls.cert_file"},
		{Web{URL: safe, Username: "me", PasswordFile: secret}, ""},
		{Web{URL: safe, Username: "me", Password: NewSecret("hush")}, ""},
		{Web{URL: safe, TokenFile: secret}, ""},
		{Web{URL: "http://registry", TokenFile: secret}, "allow_plaintext"},
		{Web{URL: "http://registry", TokenFile: secret, AllowPlaintext: true}, ""},
		{Web{URL: safe, PasswordFile: secret}, "basic_auth.username"},
		{Web{URL: safe, Username: "me"}, "basic_auth.password_file: name a file"},
		{Web{URL: safe, Username: "me", PasswordFile: none}, "basic_auth.password_file"},
		{Web{URL: safe, Username: "me", PasswordFile: empty}, "is empty"},
		{Web{URL: safe, TokenFile: empty}, "bearer_token_file"},
		{Web{URL: safe, TokenFile: two}, "does not hold a token alone"},
		{
			Web{URL: safe, Username: "me", Password: NewSecret("hush"), TokenFile: secret},
			"exclude each other",
		},
		{
			Web{URL: safe, Username: "me", Password: NewSecret("hush"), PasswordFile: secret},
			"exclude each other",
		},
	} {
		test.web.Section = "registry"
		_, _, err := test.web.Client()
		if (err == nil) != (test.want == "") || err != nil &&
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.web, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("the secret is in %v", err)
		}
	}
}

// TestWebLogsIn: a login is sent over a connection whose certificate was checked, files are read
// again for each, and a redirect is not followed.
func TestWebLogsIn(t *testing.T) {
	a := newAuthority(t)
	var got http.Header
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			got = r.Header
			if r.URL.Path == "/away" {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
			}
		}))
	server.TLS = a.server("server", nil)
	server.StartTLS()
	defer server.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, login, err := Web{
		Section: "registry", URL: server.URL, TLS: *a.trusting(), TokenFile: token,
	}.Client()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/away", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := login(r); err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusFound || got.Get("Authorization") != "Bearer "+text {
			t.Errorf("status %d, header %q", answer.StatusCode, got.Get("Authorization"))
		}
	}
}
