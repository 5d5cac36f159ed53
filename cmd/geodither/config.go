package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// keyVariable is the environment variable that may hold the noise key, in hex.
const keyVariable = "GEODITHER_KEY"

// configFile is the YAML of "run -c". This file alone knows YAML; each package
// owns its options.
type configFile struct {
	Brokers []string `yaml:"brokers"`
	Group   string   `yaml:"group"`
	Topics  struct {
		Raw         string `yaml:"raw"`
		Sanitized   string `yaml:"sanitized"`
		Changelog   string `yaml:"changelog"`
		DeadLetters string `yaml:"dead_letters"`
		Create      bool   `yaml:"create"`
		Partitions  int    `yaml:"partitions"`
		Replication int    `yaml:"replication"`
	} `yaml:"topics"`
	Encoding struct {
		Raw       schemas.Encoding `yaml:"raw"`
		Sanitized schemas.Encoding `yaml:"sanitized"`
	} `yaml:"encoding"`
	Model    string `yaml:"model"`
	KeyFile  string `yaml:"key_file"`
	StateDir string `yaml:"state_dir"`
	CacheMiB int64  `yaml:"cache_mib"`
	Release  struct {
		Mechanism string   `yaml:"mechanism"`
		Inference string   `yaml:"inference"`
		Epsilon   *float64 `yaml:"epsilon"`
		Delta     *float64 `yaml:"delta"`
		Prune     float64  `yaml:"prune"`
		MaxGap    int      `yaml:"max_gap"`
	} `yaml:"release"`
	Transaction struct {
		MaxRecords  int           `yaml:"max_records"`
		MaxInterval time.Duration `yaml:"max_interval"`
		Timeout     time.Duration `yaml:"timeout"`
	} `yaml:"transaction"`
	SessionTimeout time.Duration `yaml:"session_timeout"`
	MaxAhead       time.Duration `yaml:"max_ahead"`
	Log            logConfig     `yaml:"log"`
}

// logConfig says what is logged and how.
type logConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn, error; default info
	Format string `yaml:"format"` // text or json; default text
}

// loadConfig reads the YAML file and everything it names. Relative paths are
// relative to the file's folder. Unknown keys are refused: a misspelt setting
// must not silently keep its default.
func loadConfig(path string) (pipeline.Options, logConfig, error) {
	file, err := readConfig(path)
	if err != nil {
		return pipeline.Options{}, logConfig{}, usagef("config %s: %w", path, err)
	}
	options, err := file.options(filepath.Dir(path))
	if err != nil {
		return pipeline.Options{}, logConfig{}, usagef("config %s: %w", path, err)
	}
	if err := options.Validate(); err != nil {
		return pipeline.Options{}, logConfig{}, usagef("config %s:\n%w", path, err)
	}
	return options, file.Log, nil
}

func readConfig(path string) (configFile, error) {
	var file configFile
	data, err := os.ReadFile(path)
	if err != nil {
		return file, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		if errors.Is(err, io.EOF) {
			return file, errors.New("the file is empty; the README shows a complete one")
		}
		return file, err
	}
	return file, nil
}

// options resolves a file's settings. Files that cannot be read are errors;
// values are left to the options' own Validate.
func (c *configFile) options(dir string) (pipeline.Options, error) {
	o := pipeline.Options{
		Brokers: c.Brokers,
		Group:   c.Group,
		Topics: pipeline.Topics{
			Raw: c.Topics.Raw, Sanitized: c.Topics.Sanitized,
			Changelog: c.Topics.Changelog, DeadLetters: c.Topics.DeadLetters,
			Create: c.Topics.Create, Partitions: c.Topics.Partitions, Replication: c.Topics.Replication,
		},
		RawEncoding: c.Encoding.Raw, SanitizedEncoding: c.Encoding.Sanitized,
		StateDir: resolve(dir, c.StateDir), CacheBytes: c.CacheMiB << 20,
		MaxRecords: c.Transaction.MaxRecords, MaxInterval: c.Transaction.MaxInterval,
		TransactionTimeout: c.Transaction.Timeout, SessionTimeout: c.SessionTimeout,
		MaxAhead: c.MaxAhead,
		Release: mechanism.Options{
			Mechanism: c.Release.Mechanism, Inference: c.Release.Inference,
			Prune: c.Release.Prune, MaxGap: c.Release.MaxGap,
		},
	}
	// ε decides what a release reveals: it has no default, nor has δ.
	if c.Release.Epsilon == nil || c.Release.Delta == nil {
		return o, errors.New("release: set epsilon and delta; neither has a default")
	}
	o.Release.Epsilon, o.Release.Delta = *c.Release.Epsilon, *c.Release.Delta
	if c.Model == "" {
		return o, errors.New(`model: name a model file; make one with "geodither train"`)
	}
	var err error
	if o.Model, err = mobility.ReadModelFile(resolve(dir, c.Model)); err != nil {
		return o, fmt.Errorf("model: %w", err)
	}
	if o.Key, err = loadKey(resolve(dir, c.KeyFile)); err != nil {
		return o, fmt.Errorf("key_file: %w", err)
	}
	return o, nil
}

func resolve(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// loadKey reads the noise key from the environment if it is set there, else
// from the file. The key itself is never part of an error.
func loadKey(path string) (noise.Key, error) {
	if hex := os.Getenv(keyVariable); hex != "" {
		key, err := noise.ParseKey(strings.TrimSpace(hex))
		if err != nil {
			return key, fmt.Errorf("%s in the environment: %w", keyVariable, err)
		}
		return key, nil
	}
	if path == "" {
		return noise.Key{}, fmt.Errorf("name a file (make one with \"geodither key new FILE\") or set %s", keyVariable)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return noise.Key{}, fmt.Errorf("%w; make one with \"geodither key new %s\"", err, path)
	}
	key, err := noise.ParseKey(strings.TrimSpace(string(data)))
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
