// Package verify proves what a service has committed: it computes the sanitized records, the dead
// letters and the states again from the raw topic, and compares them with what is there. It knows
// in which order the topics have to be opened while the service goes on, and what cannot be
// compared, and why. It writes nothing to Kafka.
//
// A Rerun processes a partition of the raw topic again, as a verification and a replay do: with the
// service's own engine, on states of its own on disk (Map). It refuses what the first run refused
// (ReadRefused), and erases whom it erased. ReadChangelog reads the states that a changelog holds,
// and CompareStates compares them.
package verify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	kafka "github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// Options are those of the service that is verified, and how to go about it. Required is
// what Settings and Cluster require.
type Options struct {
	engine.Settings
	topics.Cluster
	// Later are the versions of the model that follow the first one.
	Later []*engine.Version

	// TempDir is where the recomputed states go while it works: as large as the
	// service's own store, twice that after a change of settings, and as private.
	// Default the system's.
	TempDir string
	// Limit is how many violations of a partition are listed; all are counted.
	// Default 20.
	Limit int
	// Progress, if set, is told how many raw records of how many have been
	// recomputed. One call at a time.
	Progress func(done, total int64)
	Logger   *slog.Logger // default slog.Default()
}

// Report is what Run has found.
type Report struct {
	// everything was compared, and everything is equal
	Verified   bool              `json:"verified"`
	Partitions []PartitionReport `json:"partitions"`
	Counts     *CountsReport     `json:"counts,omitempty"` // nil: nothing was counted
}

// CountsReport is what Counts has found. It names no user.
type CountsReport struct {
	Verified bool  `json:"verified"` // everything was compared, and everything is equal
	Windows  int64 `json:"windows"`  // that were compared
	Records  int64 `json:"records"`  // committed ones that were compared
	// NotCommitted is how many records of aborted transactions were compared.
	NotCommitted   int64       `json:"not_committed"`
	Violations     []Violation `json:"violations"` // offsets are those of the topic of counts
	ViolationCount int64       `json:"violation_count"`
	// Refused are the fixes of all days that do not count, by reason.
	Refused map[string]int64 `json:"refused"`
	// NotVerified says what could not be compared, and why.
	NotVerified []string `json:"not_verified,omitempty"`
}

// PartitionReport is one partition's part of a Report. It names no user and no
// place on the map.
type PartitionReport struct {
	Partition int32 `json:"partition"`
	Verified  bool  `json:"verified"`
	// From and To are the raw offsets from and up to which results were
	// recomputed; -1 if nothing was.
	From int64 `json:"from"`
	To   int64 `json:"to"`

	Raw int64 `json:"raw"` // raw records recomputed, those not answered yet left out
	// Unprocessed is how many raw records lie beyond what is judged.
	Unprocessed int64 `json:"unprocessed"`

	Sanitized   int64 `json:"sanitized"`    // committed records read
	DeadLetters int64 `json:"dead_letters"` // committed dead letters read
	Equal       int64 `json:"equal"`        // of both, those that are as they should be
	Users       int64 `json:"users"`        // states in the changelog
	// RefusedDays of the raw records are taken as refused since the service's key had no noise
	// of their day: their dead letters show it, and no older key is asked whether it has.
	RefusedDays int64 `json:"refused_days"`
	// RefusedPlaces of the raw records are taken as refused for their partition: they lie before
	// the last change of settings, and their dead letters show it.
	RefusedPlaces int64 `json:"refused_places"`
	// sanitized records ever written that the log still has
	UncommittedScanned int64 `json:"uncommitted_scanned"`
	// of these, in aborted or open transactions
	NotCommitted int64 `json:"not_committed"`

	Violations     []Violation `json:"violations"`
	ViolationCount int64       `json:"violation_count"`
	// NotVerified says what could not be compared, and why.
	NotVerified []string `json:"not_verified,omitempty"`

	committed bool // by the group, anything at all
}

// Kinds of violations.
const (
	Missing      = "missing"     // a fix has no committed sanitized record
	Extra        = "extra"       // a committed record of no fix
	Duplicate    = "duplicate"   // a fix has two
	Different    = "different"   // a fix has another record than it should
	Order        = "order"       // records out of order
	StateDiffers = "state"       // a user's state in the changelog is not the recomputed one
	DeadLetter   = "dead_letter" // a dead letter is missing, extra or another one
	Uncommitted  = "uncommitted" // an aborted or open transaction shows another release
	OffsetMoved  = "offset"      // the group's offset and the changelog's mark disagree
)

// Violation is one thing that is not as it should be.
type Violation struct {
	Kind   string `json:"kind"`
	Offset int64  `json:"offset"` // in the topic that Detail names
	Detail string `json:"detail"`
}

// listed is how many violations a report lists.
const listed = 20

// Run recomputes everything that a service has committed from the raw topic,
// and compares: the sanitized records and the dead letters in order and byte for
// byte, each user's state, the group's offset, and what aborted and open
// transactions have shown to readers of uncommitted data. It writes nothing to
// Kafka and may run beside the service; it judges what was committed when it
// began, and what has been added since as far as it has come.
//
// The error says why it could not work at all. Whatever is wrong with the data is
// in the report. Costs one pass of the mechanism over the raw topic, up to two
// after a change of settings, and memory that does not grow with users or records.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := errors.Join(o.Cluster.Validate(), o.Settings.Validate()); err != nil {
		return Report{}, err
	}
	o.Settings, o.Cluster = o.Settings.WithDefaults(), o.Cluster.WithDefaults()
	o.Limit = cmp.Or(o.Limit, listed)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	Sweep(o.TempDir)
	client := o.Client()
	n, err := admin.CoPartitioned(ctx, client, wire.Options{}, o.Topics.Raw, o.Topics.Sanitized,
		o.Topics.Changelog, o.Topics.DeadLetters)
	if err != nil {
		return Report{}, topics.LostTopic(err, o.Topics.Changelog)
	}
	w := &verification{
		o: o, client: client, partitions: n,
		progress: NewProgress(o.Progress, make([]int64, n)),
	}
	if w.undated, err = topics.Undated(ctx, client, o.Topics.Sanitized,
		o.Topics.DeadLetters); err != nil {
		return Report{}, err
	}
	if w.source, err = topics.ID(ctx, client, o.Topics.Raw); err != nil {
		return Report{}, err
	}
	report := Report{Verified: true, Partitions: make([]PartitionReport, n)}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(min(runtime.GOMAXPROCS(0), 16)) // each has a store open, 40 MB
	for p := range int32(n) {
		group.Go(func() error {
			var err error
			if report.Partitions[p], err = w.partition(ctx, p); err != nil {
				return fmt.Errorf("partition %d: %w", p, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Report{}, err
	}
	something := false
	for _, p := range report.Partitions {
		report.Verified = report.Verified && p.Verified
		something = something || p.committed
	}
	if !something && n > 0 {
		// The user expects something: this is the wrong group, or a new one.
		report.Verified, report.Partitions[0].Verified = false, false
		report.Partitions[0].NotVerified = append(report.Partitions[0].NotVerified,
			fmt.Sprintf("group %s has committed nothing, in no partition: is it the service's?",
				o.Group))
	}
	return report, nil
}

// verification is one call of Run.
type verification struct {
	o       Options
	client  *kafka.Client
	source  []byte          // id of the raw topic
	undated map[string]bool // topics whose brokers set the timestamps

	partitions int
	progress   *Progress // in raw records
}

// partition verifies one partition.
func (w *verification) partition(ctx context.Context, p int32) (PartitionReport, error) {
	c := &check{
		verification: w, settings: w.o.Fingerprint(), p: p,
		report: PartitionReport{Partition: p, From: -1, To: -1, Violations: []Violation{}},
	}
	folder, err := NewFolder(w.o.TempDir, w.o.Logger)
	if err != nil {
		return c.report, fmt.Errorf("verification: %w", err)
	}
	c.recomputed, c.stored, c.shown, c.seen = folder.Map(0), folder.Map(1),
		folder.Map(2), folder.Map(3)
	c.again = [2]*Map{folder.Map(4), folder.Map(5)}
	err = errors.Join(c.run(ctx), folder.Close())
	c.report.Verified = c.report.ViolationCount == 0 && len(c.report.NotVerified) == 0
	return c.report, err
}

// check is the work on one partition.
type check struct {
	*verification
	settings []byte // the options' fingerprint
	p        int32
	report   PartitionReport

	recomputed *Map // user → raw offset and state, recomputed
	stored     *Map // user → changelog offset and state, as committed
	shown      *Map // hash of a record that is not committed → its offset
	seen       *Map // users that were there before the settings changed
	// again replace recomputed and shown in a second attempt.
	again [2]*Map

	changelog Changelog
	changed   topics.Change   // the settings, after records were processed
	refused   *engine.Offsets // raw records that were refused for their day
	misplaced *engine.Offsets // those refused for their partition, before the settings changed
	erased    Erased          // users who were erased, as of then
	grown     error           // other models than the options' are in use by now
	from      int64           // raw offset of the recomputation's begin
	to        int64           // raw offset up to which everything has to be answered
	end       int64           // raw offset of its end
	part      bool            // users that were there before from are left out
	leftOut   int64           // how many these are
	whole     bool            // a difference ends the recomputation with errDiffers
	early     int64           // violations that were found before the recomputation
}

func (c *check) violation(kind string, offset int64, format string, args ...any) {
	note(&c.report.Violations, &c.report.ViolationCount, c.o.Limit,
		Violation{kind, offset, fmt.Sprintf(format, args...)})
}

// note counts a violation, and lists it if there is room.
func note(list *[]Violation, count *int64, limit int, v Violation) {
	if *count++; len(*list) < limit {
		*list = append(*list, v)
	}
}

func (c *check) unverified(format string, args ...any) {
	c.report.NotVerified = append(c.report.NotVerified, fmt.Sprintf(format, args...))
}

// run takes the positions in the one order in which they fit together while the
// service goes on: what the group has committed; the changelog, whose last mark
// cannot be behind that; the group's offset again, which cannot be behind the
// mark; the outputs' ends, which hold all that the mark's transaction wrote once
// what lies before them is decided; and last the raw topic's, which holds every
// record that any of them was made of.
func (c *check) run(ctx context.Context) error {
	before, found, err := c.committed(ctx)
	if err != nil {
		return err
	}
	if err := c.readChangelog(ctx); err != nil {
		return err
	}
	after, _, err := c.committed(ctx)
	if err != nil {
		return err
	}
	sanitized, err := c.openOutput(ctx, c.o.Topics.Sanitized)
	if err != nil {
		return err
	}
	dead, err := c.openOutput(ctx, c.o.Topics.DeadLetters)
	if err != nil {
		return err
	}
	if err := c.readLater(ctx); err != nil {
		return err
	}
	raw, err := topics.Open(ctx, c.client, c.o.Topics.Raw, c.p, consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	c.end = raw.End
	c.report.committed = found || c.changelog.Marked
	c.judgeOffsets(before, after, found)
	c.early = c.report.ViolationCount
	if c.changed, err = topics.SettingsChanged(ctx, c.client, c.o.Topics.Raw, c.p,
		c.changelog.Mark); err != nil {
		return err
	}
	if !c.judgeOrigin(raw.First, before, found) {
		return nil
	}
	if err := raw.Scan(ctx, c.to, c.end, func(consumer.Record) error {
		c.report.Unprocessed++
		return nil
	}); err != nil {
		return err
	}
	if c.refused, err = c.readRefused(ctx, dead, c.end, schemas.ReasonKeyDestroyed); err != nil {
		return err
	}
	if c.changelog.Marked && c.changed != topics.Unchanged {
		c.misplaced, err = c.readRefused(ctx, dead, c.changelog.Mark.Since,
			schemas.ReasonWrongPartition)
		if err != nil {
			return err
		}
		return c.acrossSettings(ctx, raw, sanitized, dead)
	}
	return c.recompute(ctx, raw, sanitized, dead)
}

// readRefused reads which raw records before an offset were refused for a reason.
func (c *check) readRefused(ctx context.Context, dead output, to int64, reason schemas.Reason) (
	offsets *engine.Offsets, err error,
) {
	offsets, _, err = ReadRefused(ctx, dead.pull().Cursor, c.o.SanitizedEncoding,
		engine.Partition{Topic: c.o.Topics.Raw, Number: c.p}, c.from, to, reason)
	return offsets, err
}

// acrossSettings compares what was released under several settings, of which the latest are known.
// Many a change leaves results as they are, such as another partitioner: dead letters show which
// records the earlier one has refused, and must be those of one partitioner. So everything is
// recomputed first under the current settings. Where that gives what is committed, earlier settings
// do not matter. Otherwise only users that came later can be compared.
func (c *check) acrossSettings(ctx context.Context, raw *topics.Reader, sanitized, dead output) (
	err error,
) {
	before := c.report
	c.whole = true
	err = c.recompute(ctx, raw, sanitized, dead)
	if c.whole = false; err != nil && !errors.Is(err, errDiffers) {
		return err
	}
	if err == nil && c.report.ViolationCount == c.early && c.report.From >= 0 {
		return nil
	}
	c.report, c.part = before, true
	c.recomputed, c.shown = c.again[0], c.again[1]
	if err := c.recompute(ctx, raw, sanitized, dead); err != nil {
		return err
	}
	c.unverified("%s: %d users who were there before cannot be compared, since their releases may "+
		"depend on settings that are gone. The %d users who came later were compared",
		c.changed.At(c.changelog.Mark.Since), c.leftOut, c.report.Users)
	return nil
}

// committed waits for pending transactions, of a dead instance's too.
func (c *check) committed(ctx context.Context) (int64, bool, error) {
	return consumer.Committed(ctx, c.client, wire.Options{RetryTimeout: c.o.Patience()},
		c.o.Group, c.o.Topics.Raw, c.p)
}

// judgeOffsets compares the group's offset, before and after the changelog was
// read, with the changelog's mark: each transaction writes both.
func (c *check) judgeOffsets(before, after int64, found bool) {
	switch {
	case !c.changelog.Marked && found && before > 0:
		c.violation(OffsetMoved, before,
			"the group is at this offset of %s, but the changelog %s has no mark of geodither's",
			c.o.Topics.Raw, c.o.Topics.Changelog)
	case !c.changelog.Marked:
	case !found:
		c.unverified("the group has no committed offset (expired, or deleted): the changelog's "+
			"mark, %d, was taken in its place", c.changelog.Mark.Input)
	case c.changelog.Mark.Input < before:
		c.violation(OffsetMoved, before, "the group is at this offset of %s, the changelog's "+
			"last mark at %d: the group was moved forward, or the changelog has lost its end",
			c.o.Topics.Raw, c.changelog.Mark.Input)
	case c.changelog.Mark.Input > after:
		c.violation(OffsetMoved, after, "the group is at this offset of %s, the changelog's last "+
			"mark at %d: the group was moved back", c.o.Topics.Raw, c.changelog.Mark.Input)
	}
}

// judgeOrigin finds out from where and up to where results can be recomputed. It
// answers false if they cannot.
func (c *check) judgeOrigin(first, committed int64, found bool) bool {
	c.from, c.to = max(c.changelog.Mark.Origin, 0), c.changelog.Mark.Input
	if !c.changelog.Marked {
		c.from, c.to = first, first
		if found && committed > first {
			c.to = committed
		}
	}
	switch {
	case c.changelog.Marked && len(c.changelog.Mark.Source) > 0 && len(c.source) > 0 &&
		!bytes.Equal(c.changelog.Mark.Source, c.source):
		c.unverified("the raw topic was deleted and made again: its records are not those that " +
			"were processed")
	case first > c.from:
		c.unverified("the raw topic begins at offset %d now, and processing began at %d: "+
			"retention has removed what the results were made of", first, c.from)
	case c.changelog.Mark.Lost:
		c.unverified(
			"processing went on at raw offset %d after a loss (--accept=lost-records), or was "+
				"carried over to another raw topic: results depend on records that are not there",
			c.changelog.Mark.Origin,
		)
	case c.changelog.Marked && len(c.changelog.Mark.Settings) > 0 &&
		!bytes.Equal(c.changelog.Mark.Settings, c.settings):
		c.unverified("the changelog was last written under other settings than this config's. "+
			"Different: %s. Verify with the config that the service runs with",
			c.o.Differences(c.changelog.Mark.Settings))
	case c.erased.Partial():
		c.unverified("a user was erased so often that the changelog no longer says at which raw " +
			"offsets: what that user's records depend on is not known")
	default:
		if err := c.o.CheckVersions(c.changelog.Mark); err != nil {
			c.unverified("%v", err)
			break
		}
		if c.grown != nil {
			c.unverified("the list of models has changed while it was verified: %v", c.grown)
			break
		}
		c.report.From, c.report.To = c.from, c.to
		return true
	}
	return false
}

// entry is a record in memory of its own. Offset is that of the topic it was read from, or of
// the raw record that it was recomputed from.
type entry consumer.Record

func (e *entry) same(o *entry) bool {
	return e.Timestamp == o.Timestamp && (e.Key == nil) == (o.Key == nil) &&
		bytes.Equal(e.Key, o.Key) && bytes.Equal(e.Value, o.Value)
}

// digest is a hash of a record's content.
type digest [16]byte

func (e *entry) digest(scratch []byte) (digest, []byte) {
	scratch = binary.BigEndian.AppendUint64(scratch[:0], uint64(e.Timestamp))
	n := int64(len(e.Key))
	if e.Key == nil {
		n = -1
	}
	scratch = binary.BigEndian.AppendUint64(scratch, uint64(n))
	scratch = append(append(scratch, e.Key...), e.Value...)
	sum := sha256.Sum256(scratch)
	return digest(sum[:16]), scratch
}

// output is one topic that the service writes, up to an offset before which all transactions are
// decided.
type output struct {
	topic   string
	reader  *topics.Reader
	undated bool // the brokers set the timestamps: they are left out
}

// openOutput takes the topic's end and waits until all before it is decided.
func (c *check) openOutput(ctx context.Context, topic string) (output, error) {
	r, err := topics.OpenDecided(ctx, c.client, topic, c.p, c.o.Patience())
	return output{topic: topic, reader: r, undated: c.undated[topic]}, err
}

// puller reads an output record by record.
type puller struct {
	*topics.Cursor
	undated bool
	read    int64
}

// pull reads the topic from its beginning.
func (o output) pull() *puller {
	return &puller{Cursor: o.reader.Cursor(o.reader.First, o.reader.End), undated: o.undated}
}

// next returns the next record, false at the end. It leaves out the number of its schema, which is
// the registry's.
func (p *puller) next(ctx context.Context) (entry, bool, error) {
	r, ok, err := p.Next(ctx)
	if !ok || err != nil {
		return entry{}, false, err
	}
	p.read++
	if p.undated {
		r.Timestamp = 0
	}
	r.Value = schemas.WithoutID(r.Value)
	return entry(r), true, nil
}

// readChangelog copies the last state of each user, and the last mark.
func (c *check) readChangelog(ctx context.Context) error {
	r, err := topics.Open(ctx, c.client, c.o.Topics.Changelog, c.p, consumer.FetcherOptions{})
	if err == nil {
		c.changelog, err = ReadChangelog(ctx, r, c.stored)
	}
	return err
}

// readLater takes who was erased, as of a mark that is not older than what the outputs hold: users
// who have been erased since are missing in later records only. It also compares the models of that
// mark, under which the last records of the outputs were made.
func (c *check) readLater(ctx context.Context) error {
	later, err := c.changelog.Later(ctx)
	c.erased = later.Erased
	if err == nil && bytes.Equal(later.Mark.Settings, c.settings) {
		c.grown = c.o.CheckVersions(later.Mark)
	}
	return err
}

// scanUncommitted collects what was written to the sanitized topic and is not
// committed: of aborted transactions, for all before the output's end is decided.
func (c *check) scanUncommitted(ctx context.Context, o output) error {
	r, err := topics.Open(ctx, c.client, o.topic, c.p, consumer.FetcherOptions{Uncommitted: true})
	if err != nil {
		return err
	}
	all := &puller{Cursor: r.Cursor(o.reader.First, o.reader.End), undated: o.undated}
	committed := o.pull()
	good, more, err := committed.next(ctx)
	if err != nil {
		return err
	}
	var buf []byte
	for {
		e, ok, err := all.next(ctx)
		if err != nil || !ok {
			c.report.UncommittedScanned = all.read
			return err
		}
		for more && good.Offset < e.Offset {
			if good, more, err = committed.next(ctx); err != nil {
				return err
			}
		}
		if more && good.Offset == e.Offset {
			continue
		}
		c.report.NotCommitted++
		var d digest
		d, buf = e.digest(buf)
		known, err := c.shown.Has(d[:])
		if err == nil && !known {
			err = c.shown.Put(d[:], e.Offset, e.Key)
		}
		if err != nil {
			return err
		}
	}
}
