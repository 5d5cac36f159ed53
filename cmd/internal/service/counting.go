package service

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Counting is what the two services that count have in common. What it does not know before a
// start, the first of them that starts finds out.
type Counting struct {
	settings       counting.Settings
	windows        topics.Cluster // of the service that counts by raw partition
	mu             sync.Mutex
	found          bool
	producersTimes bool // for tests, whose records are not of now
	now            func() time.Time
}

// NewCounting returns it for settings without Source, Ledger and Partitions. If First is 0, it is
// the day on which the group starts for the first time.
func NewCounting(s counting.Settings, windows topics.Cluster) *Counting {
	return &Counting{settings: s, windows: windows.WithDefaults(), now: time.Now}
}

// NewWindows returns the service that counts the raw topic's fixes by partition, into a topic of
// partial counts. It has no key. It checks the options and connects to nothing yet.
func NewWindows(o Options, c *Counting) (*Service, error) {
	errs := o.hosting()
	if !o.Key.IsZero() {
		errs = append(errs, errors.New("service: a service that draws no noise takes no key"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := host(o)
	return s.does(&countingJob{Counting: c, service: s, make: func(
		at engine.Partition, d *task.Dependencies,
	) (*stage, error) {
		w, err := counting.NewWindows(c.settings, s.options.Source(), s.options.Partitioner, at,
			s.partitions)
		if err != nil {
			return nil, err
		}
		d.Eraser = new(counting.Eraser)
		log := s.log.With("partition", at.Number)
		taken := w.Take
		if input, ok := d.Input.(*partitionLog); ok && !c.producersTimes {
			input.appended = func(ctx context.Context) error {
				return CheckAppendTimes(ctx, s.options.Cluster, s.client, s.patience)
			}
			input.leftOut = func(offset int64) {
				log.Warn("records that have their producers' times do not count", "offset", offset)
			}
			taken = func() engine.Tally {
				t := w.Take()
				for ; input.left > 0; input.left-- {
					t.RecordsIn++
					t.Refuse(schemas.ReasonProducerTime, nil)
				}
				return t
			}
		}
		return &stage{counter: w, key: w.Key, taken: taken, log: log}, nil
	}}), nil
}

// NewTotals returns the service that adds the partial counts of all partitions, and publishes them
// with the key's noise. It checks the options and connects to nothing yet.
func NewTotals(o Options, c *Counting) (*Service, error) {
	if err := errors.Join(append(o.hosting(), hasKey(o.Key))...); err != nil {
		return nil, err
	}
	s := host(o)
	return s.does(&countingJob{Counting: c, service: s, make: func(
		at engine.Partition, _ *task.Dependencies,
	) (*stage, error) {
		codec, err := schemas.NewCodec(s.options.SanitizedEncoding)
		if err != nil {
			return nil, err
		}
		codec.UseIDs(s.options.SchemaIDs)
		settings := c.settings
		settings.Ledger = Ledger(s.copied, s.options.Cluster)
		t, err := counting.NewTotals(settings, o.Key, codec.AppendCounts)
		if err != nil {
			return nil, err
		}
		began := time.Now().UnixMilli()
		return &stage{counter: t, key: func(rec task.Record) ([]byte, any, error) {
			return rec.Key, nil, nil
		}, taken: func() engine.Tally { return engine.Tally{} }, due: func() int64 {
			return settings.DueMS(cmp.Or(t.PublishedMS(), began), at.Number, at.Of)
		}}, nil
	}}), nil
}

// hasKey returns an error about a key that has no noise.
func hasKey(key noise.Key) error {
	if key.HasNoise() {
		return nil
	}
	return errors.New("key_file: counts need a noise key (geodither key new)")
}

// countingJob is either of the two jobs.
type countingJob struct {
	*Counting
	service *Service
	make    func(at engine.Partition, d *task.Dependencies) (*stage, error)
}

func (j *countingJob) begin(ctx context.Context) error {
	return j.service.patiently(ctx, func() error {
		return j.find(ctx, j.service.client, j.service.patience)
	})
}

// judge implements job, for fixes.
func (j *countingJob) judge(at engine.Partition) (checks.Judge, error) {
	o := j.service.options
	return counting.NewWindows(j.settings, o.Source(), o.Partitioner, at, 1)
}

func (j *countingJob) started() []any {
	o, s := j.service.options, j.settings
	return []any{
		"group", o.Group, "input_topic", o.Topics.Raw, "output_topic", o.Topics.Sanitized,
		"partitions", j.service.partitions, "epsilon", s.Epsilon, "per_day", s.PerDay,
		"zones", s.Zones.Count(), "window", s.Plan.Length(), "time_zone", s.Plan.Zone(),
		"first_day", s.First.String(), "edition", s.Edition,
	}
}

func (j *countingJob) goesOn() bool { return false }

// explained replaces the ways out of lost states: accounts of ε are not among them, and the counts
// that were published must not be published again with other ones.
func (j *countingJob) explained(err error) error {
	if what, found := j.lost(err); found {
		return &startOver{what, err}
	}
	return err
}

// lost says what a fatal error means, if states or input are lost, or of other settings.
func (j *countingJob) lost(err error) (what string, found bool) {
	o := j.service.options
	var before *task.SettingsError
	var apart *task.DivergedError
	switch {
	case errors.As(err, &before):
		return "the last instance was killed under other settings: " +
			j.Differences(before.Found), true
	case errors.Is(err, task.ErrSource):
		return o.Topics.Raw + " was made again since the changelog was written", true
	case errors.Is(err, task.ErrInputLost):
		return "records of " + o.Topics.Raw + " were lost before they were read", true
	case errors.As(err, &apart) && apart.Committed > apart.Input:
		return fmt.Sprintf("the changelog %s has lost its end, or somebody moved group %s",
			o.Topics.Changelog, o.Group), true
	case errors.Is(err, task.ErrLost):
		return fmt.Sprintf("the changelog %s is lost, or the folder %s belongs to another",
			o.Topics.Changelog, o.StateDir), true
	}
	return "", false
}

// startOver is the error of states that are lost: the services can begin again.
type startOver struct {
	what  string
	cause error
}

// Error leaves out the ways out that the cause names, which are those of a service that sanitizes.
func (e *startOver) Error() string {
	return fmt.Sprintf("%s (%s). Stop all instances, and start with another group and topics "+
		"(counts.group, topics.counts): days that are counted again cost a further ε, so set "+
		"counts.first", e.what, task.Facts(e.cause))
}

func (e *startOver) Unwrap() error { return e.cause }

func (j *countingJob) work(
	at engine.Partition, d *task.Dependencies, o *task.Options,
) (processor, error) {
	o.Skew = time.Duration(j.settings.SkewMS) * time.Millisecond
	stage, err := j.make(at, d)
	d.Partitioned = stage
	return stage, err
}

// mark is what fingerprints begin with. The first day follows, so that later instances know it, and
// a hash of all settings.
const countingMark = "geodither counts 1 "

// Fingerprint implements job.
func (j *countingJob) Fingerprint() []byte {
	return fmt.Appendf(nil, "%s%d %s", countingMark, j.settings.First, j.settings.Fingerprint())
}

// GroupFingerprint implements job.
func (j *countingJob) GroupFingerprint() []byte { return j.Fingerprint() }

// Differences implements job.
func (j *countingJob) Differences(other []byte) string {
	switch first, ok := firstDay(other); {
	case bytes.Equal(other, j.Fingerprint()):
		return ""
	case !ok:
		return "the group is not one that counts"
	case first != j.settings.First:
		return fmt.Sprintf("counts.first, %v there and %v here, and perhaps other settings (set "+
			"it where instances start for the first time at midnight)", first, j.settings.First)
	}
	return "a setting of the section counts, of input or of topics.partitioner"
}

// DifferencesInGroup implements job.
func (j *countingJob) DifferencesInGroup(other []byte) string { return j.Differences(other) }

// firstDay returns the first day of a fingerprint; ok is false if it is of something else.
func firstDay(fingerprint []byte) (day counts.Date, ok bool) {
	rest, ok := strings.CutPrefix(string(fingerprint), countingMark)
	text, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(text, 10, 32)
	return counts.Date(n), ok && err == nil
}

// Settings returns the settings with what the services would find out, all but Ledger.
func (c *Counting) Settings(ctx context.Context, client *kafka.Client, patience time.Duration) (
	counting.Settings, error,
) {
	err := c.find(ctx, client, patience)
	return c.settings, err
}

// TrustsProducers is for tests: records count that do not have their brokers' times.
func (c *Counting) TrustsProducers() bool { return c.producersTimes }

// Ledger names the changelog of the service that publishes, by its id.
func Ledger(id []byte, c topics.Cluster) string {
	return " " + idText(id, c.Group+c.Topics.Changelog)
}

// find completes the settings: the raw topic's id and number of partitions, and the first day,
// which the changelog of the windows has if the group was started before.
func (c *Counting) find(
	ctx context.Context, client *kafka.Client, patience time.Duration,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found {
		return nil
	}
	o, t := wire.Options{RetryTimeout: patience}, c.windows.Topics
	ids, err := admin.TopicIDs(ctx, client, o, t.Raw)
	if err != nil {
		return err
	}
	sizes, err := admin.Partitions(ctx, client, o, t.Raw)
	if err != nil {
		return err
	}
	id := ids[t.Raw]
	c.settings.Source, c.settings.Partitions = idText(id[:], t.Raw), int32(sizes[t.Raw])
	first, begun, err := c.firstDay(ctx, client)
	today := c.settings.Plan.At(c.now().UnixMilli()).Day
	switch {
	case err != nil:
		return err
	case c.settings.First == 0 && begun:
		c.settings.First = first
	case c.settings.First == 0:
		c.settings.First = today
	case !begun && c.settings.First < today-maxDaysAgo:
		return fmt.Errorf("counts.first: %v is more than %d days ago", c.settings.First, maxDaysAgo)
	}
	c.found = true
	return nil
}

// maxDaysAgo is how long ago the first day of a group may be when it starts. All windows since then
// are open until a partition's backlog is read, and the counts of open windows are in memory.
const maxDaysAgo = 31

// firstDay returns the first day of the group; begun is false if this is its first start.
func (c *Counting) firstDay(ctx context.Context, client *kafka.Client) (
	first counts.Date, begun bool, err error,
) {
	for n := range c.settings.Partitions {
		mark, found, err := topics.LastMark(ctx, client, c.windows.Topics.Changelog, n)
		if err != nil {
			return 0, false, fmt.Errorf("partition %d of %s: %w", n, c.windows.Topics.Changelog,
				err)
		}
		if day, ok := firstDay(mark.Settings); found && ok {
			return day, true, nil
		}
	}
	return 0, false, nil
}

// idText is the id of a topic, or of its name in a cluster that gives topics no ids.
func idText(id []byte, name string) string {
	if len(bytes.Trim(id, "\x00")) == 0 {
		sum := sha256.Sum256([]byte(name))
		id = sum[:16]
	}
	return fmt.Sprintf("%x", id)
}

// CheckAppendTimes refuses a raw topic whose records have the times of their producers: which
// window a fix counts in must not depend on anybody's clock but the brokers'.
func CheckAppendTimes(
	ctx context.Context, c topics.Cluster, client *kafka.Client, patience time.Duration,
) error {
	t := c.Topics
	have, err := admin.Configs(ctx, client, wire.Options{RetryTimeout: patience}, t.Raw,
		topics.TimestampType)
	if err != nil {
		return err
	}
	if have[topics.TimestampType] == topics.LogAppendTime {
		return nil
	}
	return checks.ProducersTimes(c)
}

// counter is a processor of counting.
type counter interface {
	task.Processor
	task.Partitioned
}

// stage is a counter that says what it has done.
type stage struct {
	counter
	key    func(task.Record) (key []byte, read any, err error)
	taken  func() engine.Tally // what the counter counts itself, since the last call
	due    func() int64        // of dueMS; nil: nothing is
	log    *slog.Logger
	warned bool // of late
	in     int64
	out    int64
	next   int64
}

// Process implements task.Processor.
func (p *stage) Process(rec task.Record, state []byte, fx *task.Effects) error {
	p.in++
	p.next = rec.Offset + 1
	err := p.counter.Process(rec, state, fx)
	p.out += int64(len(fx.Output))
	return err
}

// Passed implements task.Partitioned.
func (p *stage) Passed(ms int64, fx *task.Effects) error {
	err := p.counter.Passed(ms, fx)
	p.out += int64(len(fx.Output))
	return err
}

// dueMS is when a processor has to have written what follows, Unix milliseconds; 0: at no time.
// Only one that totals counts writes by the clock.
func dueMS(p processor) int64 {
	if s, ok := p.(*stage); ok && s.due != nil {
		return s.due()
	}
	return 0
}

// Key implements processor.
func (p *stage) Key(rec task.Record) (key []byte, read any, err error) { return p.key(rec) }

// Take implements processor.
func (p *stage) Take() (t engine.Tally, next int64) {
	t = p.taken()
	t.RecordsIn, t.RecordsOut = t.RecordsIn+p.in, p.out
	p.in, p.out = 0, 0
	if t.Late > 0 && !p.warned {
		p.warned = true
		p.log.Warn("fixes came after their window was closed and do not count: set the clocks "+
			"of brokers and of this machine right, or raise counts.skew", "fixes", t.Late)
	}
	return t, p.next
}
