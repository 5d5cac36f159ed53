package config

import (
	"path/filepath"
	"reflect"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/schemas/registry"
)

// Registry is the section that says which schema registry to ask, and how.
type Registry struct {
	URL            string        `yaml:"url"`
	BasicAuth      BasicAuth     `yaml:"basic_auth"`
	TokenFile      string        `yaml:"bearer_token_file"`
	AllowPlaintext bool          `yaml:"allow_plaintext"`
	TLS            kafkaconn.TLS `yaml:"tls"`

	dir   string // of the config, for relative paths
	unset error  // variables that the environment does not have
}

// BasicAuth is a user and a password.
type BasicAuth struct {
	Username     string           `yaml:"username"`
	Password     kafkaconn.Secret `yaml:"password"`
	PasswordFile string           `yaml:"password_file"`
}

// Client returns a client of the registry; nil if the config names none. It checks the
// section, and the files that it names.
func (r Registry) Client() (*registry.Client, error) {
	dir := r.dir
	if r.dir = ""; reflect.ValueOf(r).IsZero() {
		return nil, nil //nolint:nilnil // there is none to ask
	}
	if r.unset != nil {
		return nil, r.unset
	}
	for _, path := range []*string{
		&r.BasicAuth.PasswordFile, &r.TokenFile, &r.TLS.CAFile, &r.TLS.CertFile, &r.TLS.KeyFile,
	} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	sender, login, err := kafkaconn.Web{
		Section: "registry", URL: r.URL, TLS: r.TLS,
		Username: r.BasicAuth.Username, Password: r.BasicAuth.Password,
		PasswordFile: r.BasicAuth.PasswordFile, TokenFile: r.TokenFile,
		AllowPlaintext: r.AllowPlaintext,
	}.Client()
	if err != nil {
		return nil, err
	}
	return registry.New(registry.Options{
		URL: r.URL, HTTP: sender, Authorize: login,
	})
}
