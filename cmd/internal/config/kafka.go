package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
)

// Kafka is the section that says how to connect to the brokers. All commands that take a config use
// it, for the service's own reasons or with brokers that flags name.
type Kafka struct {
	ClientID string         `yaml:"client_id"`
	Rack     string         `yaml:"rack"`
	TLS      kafkaconn.TLS  `yaml:"tls"`
	SASL     kafkaconn.SASL `yaml:"sasl"`

	written map[string]bool // as File.written
	unset   error           // variables that the environment does not have
	dir     string          // of the config, for relative paths
}

// ready returns the section with paths that are those of the config's folder, unless it lacks a
// variable.
func (k Kafka) ready() (Kafka, error) {
	if k.unset != nil {
		return k, k.unset
	}
	var errs []error
	paths := k.paths()
	for _, key := range slices.Sorted(maps.Keys(paths)) {
		path := paths[key]
		if *path == "" && k.written["kafka."+key] {
			errs = append(errs,
				fmt.Errorf("kafka.%s is empty", key))
		}
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(k.dir, *path)
		}
	}
	return k, errors.Join(errs...)
}

// paths returns the settings that name files.
func (k *Kafka) paths() map[string]*string {
	return map[string]*string{
		"tls.ca_file": &k.TLS.CAFile, "tls.cert_file": &k.TLS.CertFile,
		"tls.key_file": &k.TLS.KeyFile, "sasl.password_file": &k.SASL.PasswordFile,
		"sasl.oauthbearer.client_secret_file": &k.SASL.OAuth.ClientSecretFile,
		"sasl.oauthbearer.ca_file":            &k.SASL.OAuth.CAFile,
		"sasl.oauthbearer.token_file":         &k.SASL.OAuth.TokenFile,
	}
}
