// Package config reads the YAML config of a service: all of it for the service, and the sections
// that they use for commands on files. It alone knows YAML; each package owns its options.
package config
