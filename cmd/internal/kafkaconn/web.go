package kafkaconn

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Web says how to ask a server over HTTP, such as a schema registry. Its files are read for each
// new connection or request, so they can be replaced while a service runs.
type Web struct {
	Section string // of the config, for errors
	URL     string
	TLS     TLS

	Username     string
	Password     Secret
	PasswordFile string
	TokenFile    string // of a bearer token, in place of a user and password
	// AllowPlaintext permits to send a login without TLS.
	AllowPlaintext bool
}

// Client checks the settings and the files that they name, and returns a client of the server and
// what adds the login to a request; nil: there is none. It connects to nothing.
func (w Web) Client() (*http.Client, func(*http.Request) error, error) {
	u, err := url.Parse(w.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nil, fmt.Errorf("%s.url: write http://HOST:PORT or https://HOST:PORT",
			w.Section)
	}
	if _, _, err := w.TLS.config(w.Section+".tls", u.Hostname(), time.Now()); err != nil {
		return nil, nil, err
	}
	login := w.login()
	if login != nil {
		if u.Scheme == "http" && !w.AllowPlaintext {
			return nil, nil, fmt.Errorf("%s.url: write https://, or permit http:// with "+
				"%s.allow_plaintext: true (no-tls)", w.Section, w.Section)
		}
		if err := w.check(); err != nil {
			return nil, nil, err
		}
		if err := login(&http.Request{Header: http.Header{}}); err != nil {
			return nil, nil, err
		}
	}
	return &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialTLSContext:      w.dial,
			IdleConnTimeout:     time.Minute,
			TLSHandshakeTimeout: handshakePatience,
		},
		// A redirect would carry the login to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}, login, nil
}

// dial makes a connection with the certificates that the files have now.
func (w Web) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config, _, err := w.TLS.config(w.Section+".tls", host, time.Now())
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
}

// check returns what is wrong with a login by itself.
func (w Web) check() error {
	basic := w.Username != "" || w.Password != nil || w.PasswordFile != ""
	switch {
	case basic && w.TokenFile != "":
		return fmt.Errorf("%s: basic_auth and bearer_token_file exclude each other", w.Section)
	case basic && w.Username == "":
		return fmt.Errorf("%s.basic_auth.username: name the user", w.Section)
	case w.Password != nil && w.PasswordFile != "":
		return fmt.Errorf("%s.basic_auth: password and password_file exclude each other",
			w.Section)
	case basic && w.Password == nil && w.PasswordFile == "":
		return fmt.Errorf("%s.basic_auth.password_file: name a file, or password: ${NAME}",
			w.Section)
	}
	return nil
}

// login returns what adds the login to a request; nil: there is none.
func (w Web) login() func(*http.Request) error {
	switch {
	case w.TokenFile != "":
		return func(r *http.Request) error {
			token, err := tokenFrom(w.Section+".bearer_token_file", w.TokenFile)
			r.Header.Set("Authorization", "Bearer "+token)
			return err
		}
	case cmp.Or(w.Username, w.PasswordFile) != "" || w.Password != nil:
		return func(r *http.Request) error {
			password, err := secretFrom(w.Password, w.Section+".basic_auth.password_file",
				w.PasswordFile)
			r.SetBasicAuth(w.Username, password)
			return err
		}
	}
	return nil
}
