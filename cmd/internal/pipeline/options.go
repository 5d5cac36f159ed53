package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Topics names the four topics of a service. All must have the same number of
// partitions: a user's records keep their partition number in each of them.
type Topics struct {
	Raw         string // read: raw fixes, keyed by user
	Sanitized   string // written: sanitized records
	Changelog   string // written and restored from: states, compacted
	DeadLetters string // written: what was refused, and why

	// Partitioner says how the producers of the raw topic choose a record's partition;
	// default Murmur2. A record that lies elsewhere is refused. It is part of the
	// settings' fingerprint.
	Partitioner Partitioner

	// Create makes the missing topics at start, with as many partitions as the
	// raw topic has. The raw topic itself is made only if Partitions says how large;
	// else it is waited for. A raw topic that is there must have Partitions if that is set.
	Create      bool
	Partitions  int // 0: whatever the raw topic has
	Replication int // default: the broker's
}

// Options configure a Service. Required: Brokers, Group, Topics.Raw,
// Topics.Sanitized, Model, Key, StateDir, Release.Epsilon and Release.Delta.
type Options struct {
	Brokers []string // host:port
	Group   string   // consumer group; also the prefix of the transactional ids
	Topics  Topics   // Changelog and DeadLetters default to names under Group

	RawEncoding       schemas.Encoding // default Avro
	SanitizedEncoding schemas.Encoding // of the sanitized and dead-letter topics; default Avro

	// Model is the first version of the mobility model, with users' own models over
	// it, or nil. Later are the versions that follow, starts ascending, all of the
	// first one's step. Watch, if set, is asked now and then what they are by now; an
	// error leaves things as they are, and is logged once.
	Model     *mobility.Model
	Personals PersonalModels
	Later     []*Version
	Watch     func() (Schedule, error)

	Key     noise.Key // secret of the noise
	Release mechanism.Options
	Publish Publish // what records tell beside the place
	Input   Input   // what becomes of fixes that are late or outside the map

	StateDir   string // one folder per running instance
	CacheBytes int64  // cache of states in front of the store; default 64 MiB

	MaxRecords         int           // records per transaction; default 5000
	MaxInterval        time.Duration // age at which a transaction is committed; default 100 ms
	MaxBatchBytes      int           // size of a record batch, and so of one user's state; default 1 MiB
	TransactionTimeout time.Duration // after which the broker aborts a silent instance's transaction; default 15 s
	SessionTimeout     time.Duration // after which the group gives a silent instance's partitions away; default 10 s, with InstanceID 45 s

	// InstanceID makes the instance a static member of the group (KIP-345), under
	// a name that no other has: if it is back within SessionTimeout, nothing moves.
	InstanceID string

	// SkipLost goes on where retention has removed raw records that were not
	// processed yet. Otherwise the service stops.
	SkipLost bool

	// AcceptSettings goes on with other settings (model, key, release) than those of
	// an instance that was killed, perhaps in the middle of a transaction: whoever
	// reads uncommitted records may then see two releases of the fixes that were in
	// it. Otherwise the service stops and says so.
	AcceptSettings bool

	// AcceptLost goes on where the changelog is lost: every user's account of ε begins at
	// 0, at the group's offset, and adds to what was spent before. Otherwise the service
	// stops and says so. Meant for one start.
	AcceptLost bool

	// MaxAhead is how far a fix's time may lie ahead of its Kafka record's
	// timestamp; default DefaultMaxAhead. The wall clock is never asked, so that a topic
	// gives the same result whenever it is read.
	MaxAhead time.Duration

	Logger   *slog.Logger // default slog.Default()
	Counters *Counters    // default a new one
}

// withDefaults fills what was left empty.
func (o Options) withDefaults() Options {
	fallback(&o.Topics.Changelog, o.Group+"-changelog")
	fallback(&o.Topics.DeadLetters, o.Group+"-dead-letters")
	fallback(&o.Topics.Partitioner, Murmur2)
	o.Publish = o.Publish.withDefaults()
	o.Input = o.Input.withDefaults()
	fallback(&o.RawEncoding, schemas.Avro)
	fallback(&o.SanitizedEncoding, schemas.Avro)
	fallback(&o.CacheBytes, 64<<20)
	fallback(&o.MaxRecords, 5000)
	fallback(&o.MaxInterval, 100*time.Millisecond)
	fallback(&o.MaxBatchBytes, 1<<20)
	fallback(&o.TransactionTimeout, 15*time.Second)
	if o.InstanceID != "" {
		fallback(&o.SessionTimeout, 45*time.Second)
	}
	fallback(&o.SessionTimeout, 10*time.Second)
	fallback(&o.MaxAhead, DefaultMaxAhead)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Counters == nil {
		o.Counters = new(Counters)
	}
	return o
}

func fallback[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Validate reports everything that is missing or out of range, in one error.
func (o Options) Validate() error {
	var errs []error
	d := o.withDefaults()
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(len(o.Brokers) > 0, "brokers: name at least one host:port")
	need(o.Group != "", "group: name the consumer group")
	need(o.Topics.Raw != "", "topics.raw: name the topic of raw fixes")
	need(o.Topics.Sanitized != "", "topics.sanitized: name the topic to publish to")
	need(o.Model != nil, "model: a mobility model is required; make one with \"geodither train\"")
	if o.Model != nil {
		if err := checkLater(o.Model, o.Later, d.MaxBatchBytes); err != nil {
			errs = append(errs, err)
		}
	}
	need(o.StateDir != "", "state_dir: name a folder for this instance's state")
	need(!o.Key.IsZero(), "key_file: the noise needs a key; make one with \"geodither key new\"")
	need(o.Key.IsZero() || o.Key.HasNoise(), "key_file: %w", errNoNoise)
	need(!slices.Contains(o.Brokers, ""), "brokers: one of them is empty; each is a host:port")
	need(!slices.ContainsFunc(o.Brokers, func(b string) bool { return strings.Contains(b, ",") }),
		"brokers: one of them has a comma; write a list, [host:port, host:port]")
	need(o.Topics.Partitions >= 0 && o.Topics.Replication >= 0, "topics: partitions and replication must not be negative")
	need(d.Topics.Partitioner.Validate() == nil, "topics.partitioner: %w", d.Topics.Partitioner.Validate())
	need(o.MaxRecords >= 0, "transaction.max_records: must not be negative")
	need(o.MaxInterval == 0 || o.MaxInterval >= time.Millisecond, "transaction.max_interval: must be at least 1ms")
	need(o.TransactionTimeout == 0 || o.TransactionTimeout >= time.Millisecond, "transaction.timeout: must be at least 1ms")
	need(o.SessionTimeout == 0 || o.SessionTimeout >= 10*time.Millisecond, "session_timeout: must be at least 10ms")
	need(o.MaxAhead >= 0, "max_ahead: must not be negative")
	need(o.CacheBytes >= 0, "cache_mib: must not be negative")
	topics := map[string]string{}
	if o.Model != nil {
		need(newUserBytes(o.Model.Initial.Len()) < d.MaxBatchBytes, "model: "+tooLarge, newUserBytes(o.Model.Initial.Len()), d.MaxBatchBytes)
	}
	for _, t := range [][2]string{
		{"topics.raw", d.Topics.Raw},
		{"topics.sanitized", d.Topics.Sanitized},
		{"topics.changelog", d.Topics.Changelog},
		{"topics.dead_letters", d.Topics.DeadLetters},
	} {
		if other, ok := topics[t[1]]; ok && t[1] != "" {
			errs = append(errs, fmt.Errorf("%s: %q is already %s; give each its own topic", t[0], t[1], other))
		}
		topics[t[1]] = t[0]
	}
	need(d.RawEncoding.Validate() == nil, "encoding.raw: %w", d.RawEncoding.Validate())
	need(d.SanitizedEncoding.Validate() == nil, "encoding.sanitized: %w", d.SanitizedEncoding.Validate())
	if err := o.Release.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("release: %w", err))
	}
	if err := o.Publish.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("publish: %w", err))
	}
	if err := o.Input.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("input: %w", err))
	}
	return errors.Join(errs...)
}
