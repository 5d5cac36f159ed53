package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/schemas"
)

// File is a config as it is written.
type File struct {
	Brokers []string `yaml:"brokers"`
	Kafka   Kafka    `yaml:"kafka"`
	Group   string   `yaml:"group"`
	Member  string   `yaml:"instance_id"`
	Topics  struct {
		Raw         string `yaml:"raw"`
		Sanitized   string `yaml:"sanitized"`
		Changelog   string `yaml:"changelog"`
		DeadLetters string `yaml:"dead_letters"`
		Counts      string `yaml:"counts"`
		Partitioner string `yaml:"partitioner"`
		Create      bool   `yaml:"create"`
		Partitions  int    `yaml:"partitions"`
		Replication int    `yaml:"replication"`
	} `yaml:"topics"`
	Encoding struct {
		Raw       schemas.Encoding `yaml:"raw"`
		Sanitized schemas.Encoding `yaml:"sanitized"`
	} `yaml:"encoding"`
	Registry    Registry `yaml:"registry"`
	Model       string   `yaml:"model"`
	Models      string   `yaml:"models"`
	KeyFile     string   `yaml:"key_file"`
	StateDir    string   `yaml:"state_dir"`
	Release     Release  `yaml:"release"`
	Publish     Publish  `yaml:"publish"`
	Input       Input    `yaml:"input"`
	Counts      Counts   `yaml:"counts"`
	Transaction struct {
		MaxRecords  int           `yaml:"max_records"`
		MaxInterval time.Duration `yaml:"max_interval"`
		Timeout     time.Duration `yaml:"timeout"`
	} `yaml:"transaction"`
	SessionTimeout time.Duration `yaml:"session_timeout"`
	MaxAhead       Ahead         `yaml:"max_ahead"`
	HTTP           HTTP          `yaml:"http"`
	Log            Log           `yaml:"log"`

	written map[string]bool // the keys that the file has, such as topics.raw, also without a value
	chosen  *Chosen         // nil: it was not read yet
}

// Ahead is max_ahead: a duration, or the word off for schemas.AnyAhead.
type Ahead time.Duration

// noBound is the word for [Ahead] without a bound.
const noBound = "off"

// UnmarshalYAML reads the word off, or a duration.
func (a *Ahead) UnmarshalYAML(node *yaml.Node) error {
	if node.Value == noBound {
		*a = Ahead(schemas.AnyAhead)
		return nil
	}
	return node.Decode((*time.Duration)(a))
}

// MarshalYAML writes what UnmarshalYAML reads.
func (a Ahead) MarshalYAML() (any, error) {
	if a == Ahead(schemas.AnyAhead) {
		return noBound, nil
	}
	return time.Duration(a), nil
}

// Counts is the section "counts": where the fleet is, under an ε for a user's whole day.
type Counts struct {
	Group    string        `yaml:"group"`
	Epsilon  float64       `yaml:"epsilon"`
	PerDay   int           `yaml:"per_day"`
	Zone     string        `yaml:"zone"`  // length of the side of squares
	Box      string        `yaml:"box"`   // that the squares divide; default: the model's map
	Zones    string        `yaml:"zones"` // file of polygons, instead
	Window   time.Duration `yaml:"window"`
	TimeZone string        `yaml:"time_zone"`
	First    string        `yaml:"first"` // day; default: that of the group's first start
	Grace    time.Duration `yaml:"grace"`
	Skew     time.Duration `yaml:"skew"`
	Edition  int           `yaml:"edition"`
}

// HTTP says where a service answers probes and monitoring.
type HTTP struct {
	Listen string `yaml:"listen"`
	Pprof  string `yaml:"pprof"`
}

// Options returns the section's settings, for a service of a session timeout.
func (h HTTP) Options(session time.Duration) monitor.Options {
	return monitor.Options{Listen: h.Listen, Stall: monitor.Stall(session), Pprof: h.Pprof}
}

// Log says what is logged and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error; default info
	Format string `yaml:"format"` // text or json; default text
}

// Service reads the config of a service, and everything that it names. Its errors are the user's
// and name the file.
func Service(path string) (service.Options, File, error) {
	file, err := Read(path)
	if err != nil {
		return service.Options{}, file, err
	}
	if err := file.Release.Budget.required(); err != nil {
		return service.Options{}, file, Error(path, err)
	}
	options, err := file.options()
	if err != nil {
		return service.Options{}, file, Error(path, err)
	}
	if err := file.validate(options); err != nil {
		return service.Options{}, file, Error(path, err)
	}
	return options, file, nil
}

// Read reads a config and no file that it names, for a command that needs some of its sections.
// Relative paths are those of the config's folder. An unknown key is an error: a misspelt setting
// must not silently keep its default. The errors are the user's and name the file.
func Read(path string) (File, error) {
	file, err := read(path)
	if err == nil && !reflect.DeepEqual(file.Release, Release{estimate: file.Publish.Estimate}) {
		err = file.Release.Budget.required()
	}
	file.resolve(filepath.Dir(path))
	return file, Error(path, err)
}

const startFrom = "\"geodither config example\" prints a complete one to start from"

func read(path string) (File, error) {
	var file File
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, fmt.Errorf("%w; %s", err, startFrom)
	}
	if err != nil {
		return file, err
	}
	if bytes.HasPrefix(data, []byte("Obj\x01")) { // an Avro container, as models are
		return file, errors.New("this is a model, not a config: write a config that names it (" +
			"model: FILE); " + startFrom)
	}
	found, err := decode(data, &file)
	if errors.Is(err, errEmpty) {
		return file, fmt.Errorf("%w; %s", err, startFrom)
	}
	if err != nil {
		return file, err
	}
	file.written, file.Kafka.written = found.written, found.written
	file.Kafka.unset, file.Registry.unset = found.unset["kafka"], found.unset["registry"]
	file.Release.estimate = file.Publish.Estimate
	return file, errors.Join(found.unset[""], file.Publish.check())
}

// withoutFiles returns the options that no file is read for. It leaves values to the options' own
// Validate.
func (c *File) withoutFiles() service.Options {
	return service.Options{
		Cluster: topics.Cluster{
			Brokers: c.Brokers, Group: c.Group,
			Topics: topics.Set{
				Raw: c.Topics.Raw, Sanitized: c.Topics.Sanitized,
				Changelog: c.Topics.Changelog, DeadLetters: c.Topics.DeadLetters,
				Create: c.Topics.Create, Partitions: c.Topics.Partitions,
				Replication: c.Topics.Replication, Appended: c.CountsUsers(),
			},
			TransactionTimeout: c.Transaction.Timeout,
		},
		Settings: engine.Settings{
			RawEncoding: c.Encoding.Raw, SanitizedEncoding: c.Encoding.Sanitized,
			MaxAhead:    time.Duration(c.MaxAhead),
			Partitioner: engine.Partitioner(c.Topics.Partitioner),
			Publish:     c.Publish.Options(),
			Input:       c.Input.Options(),
		},
		InstanceID: c.Member,
		StateDir:   c.StateDir,
		MaxRecords: c.Transaction.MaxRecords, MaxInterval: c.Transaction.MaxInterval,
		SessionTimeout: c.SessionTimeout,
	}
}

// CountsUsers reports whether the config speaks of the services that count.
func (c *File) CountsUsers() bool { return c.written["counts"] || c.written["topics.counts"] }

// CountsAlone reports whether the services that count are the config's only ones.
func (c *File) CountsAlone() bool { return c.CountsUsers() && c.Topics.Sanitized == "" }

// Schemas returns the schemas that the registry has to have for the services of a config.
func (c *File) Schemas() ([]checks.Schema, error) {
	o := c.withoutFiles()
	switch {
	case o.Topics.Sanitized == "":
		return nil, errors.New("topics.sanitized: name the topic of sanitized records")
	case o.Topics.DeadLetters == "" && o.Group == "":
		return nil, errors.New("group: name the consumer group")
	}
	list := checks.Schemas(o.Cluster)
	if c.CountsUsers() {
		_, totals, err := c.CountingClusters()
		if err != nil {
			return nil, err
		}
		list = append(list, checks.Schemas(totals)...)
	}
	return list, nil
}

// part is a section of the config, or a key, that has more to check than its text.
type part struct {
	name string
	// read puts what the part says into the options, and reads the files that it names.
	read func(c *File, o *service.Options) error
}

// parts are in the order in which "run" reads them. Some need those before them.
var parts = []part{
	{"input", func(c *File, o *service.Options) (err error) {
		o.Input, err = c.Input.read(c.Encoding.Raw)
		return err
	}},
	{"kafka", func(c *File, o *service.Options) (err error) {
		o.Connection, err = c.Connection()
		return err
	}},
	{"registry", func(c *File, o *service.Options) (err error) {
		o.Registry, err = c.Registry.Client()
		return err
	}},
	{"model", func(c *File, o *service.Options) error {
		model, err := c.Chosen()
		if err != nil {
			return err
		}
		o.Model, o.Later = model.Model, model.Later
		return nil
	}},
	{"release", func(c *File, o *service.Options) (err error) {
		step := time.Second // without a model: every interval that some model takes is a multiple
		if o.Model != nil {
			step = o.Model.Step
		}
		o.Release, err = c.Release.Options(step)
		return err
	}},
	{"key_file", func(c *File, o *service.Options) (err error) {
		o.Key, err = files.LoadKey(c.KeyFile)
		return err
	}},
	{"http", func(c *File, o *service.Options) error {
		return c.HTTP.Options(o.WithDefaults().SessionTimeout).Validate()
	}},
	{"log", func(c *File, _ *service.Options) error {
		_, err := c.Log.Logger(io.Discard)
		return err
	}},
}

// fill reads the part into the options. Its errors begin with the part's name.
func (p part) fill(c *File, o *service.Options) error {
	return inSection(p.name, p.read(c, o))
}

// inSection names the section of an error that does not begin with it.
func inSection(name string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// options reads the files that the config names, and stops at the first part that is wrong. It
// leaves values to the options' own Validate.
func (c *File) options() (service.Options, error) {
	o := c.withoutFiles()
	for _, p := range parts {
		if err := p.fill(c, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// validate reports everything that is wrong with options of the config.
func (c *File) validate(o service.Options) error {
	return errors.Join(o.Validate(), inSection("release", c.Release.proved()))
}

// Source returns how the raw topic's records are read.
func (c *File) Source() (engine.Source, error) {
	input, err := c.Input.read(c.Encoding.Raw)
	client, registryErr := c.Registry.Client()
	s := engine.Settings{
		RawEncoding: c.Encoding.Raw, Input: input, MaxAhead: time.Duration(c.MaxAhead),
		Registry: client,
	}.Source()
	return s, errors.Join(err, registryErr, input.Validate(), s.Encoding.ValidateRaw())
}

// Cluster returns the service's place in Kafka, without a connection.
func (c *File) Cluster() topics.Cluster { return c.withoutFiles().Cluster }

// Connection returns the connection of the section kafka. It puts in the variables that the section
// names, and checks it, and the files that it names.
func (c *File) Connection() (*kafkaconn.Connection, error) {
	kafka, err := c.Kafka.ready()
	if err != nil {
		return nil, err
	}
	return kafkaconn.New(kafka.options(c.Member))
}

// options returns the settings of a section that is ready. A section tls or sasl that is written
// counts, whatever is in it: an empty variable must not turn it off. The member is the service's
// instance_id, if it has one: the client id tells instances apart.
func (k *Kafka) options(member string) kafkaconn.Options {
	o := kafkaconn.Options{ClientID: k.ClientID, Rack: k.Rack}
	if member != "" {
		o.ClientID = cmp.Or(o.ClientID, "geodither-"+member)
	}
	if k.written["kafka.tls"] {
		o.TLS = &k.TLS
	}
	if k.written["kafka.sasl"] {
		o.SASL = &k.SASL
	}
	return o
}

// resolve makes relative paths those of a folder.
func (c *File) resolve(dir string) {
	c.Kafka.dir, c.Registry.dir = dir, dir
	for _, path := range []*string{
		&c.Model, &c.Models, &c.KeyFile, &c.StateDir, &c.Counts.Zones,
	} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
}

// durationsAsText writes a duration with its unit, as logs of text do. JSON has plain nanoseconds
// for one otherwise.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Logger makes the logger that the section asks for.
func (c Log) Logger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if c.Level != "" {
		if err := level.UnmarshalText([]byte(c.Level)); err != nil {
			return nil, fmt.Errorf("log.level %q: choose debug, info, warn or error", c.Level)
		}
	}
	options := &slog.HandlerOptions{Level: level}
	switch c.Format {
	case "", "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	case "json":
		options.ReplaceAttr = durationsAsText
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return nil, fmt.Errorf("log.format %q: choose text or json", c.Format)
}
