package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// CountsOptions are those of the two services that count, and what both agree on.
type CountsOptions struct {
	Windows, Totals service.Options // the second has the key
	Count           *service.Counting
	// Days is how many days are counted at a time, default 31: with more, memory grows.
	Days int
}

// Counts counts the raw topic again and compares: every zone of each window that is published must
// be there once, with the bytes that the fixes give, and no window before the last one of its
// partition may be missing. Readers of uncommitted data must have seen no other bytes. It shares
// with the service only what reads a fix, bounds a user's day, and draws noise.
//
// It goes through the days in parts. For each part it reads the published counts to their end,
// from the first record of this part or a later one on. The error says why it could not work.
// Memory, for the days of a part: some bytes for each user and day, one for each zone of a
// published window, and eight for each zone of the windows of one day.
func Counts(ctx context.Context, o CountsOptions) (CountsReport, error) {
	o.Days = cmp.Or(o.Days, 31)
	c := &recount{
		o: o, client: o.Totals.Client(), zones: map[string]int32{},
		report: CountsReport{Violations: []Violation{}, Refused: map[string]int64{}},
	}
	err := c.run(ctx)
	if missing, ok := errors.AsType[*admin.MissingTopicsError](err); ok {
		c.report.NotVerified, err = append(c.report.NotVerified, missing.Error()), nil
	}
	c.report.Verified = c.report.ViolationCount == 0 && len(c.report.NotVerified) == 0
	return c.report, err
}

// recount is one call of Counts.
type recount struct {
	o         CountsOptions
	client    *kafka.Client
	settings  counting.Settings
	publisher *counts.Publisher
	codec     *schemas.Codec
	undated   bool
	zones     map[string]int32 // by name
	report    CountsReport

	whole counts.Date  // the first day of which all fixes are there
	raw   []rawReading // by partition

	// Of the part at hand, which has the days from one on and before another.
	from, before counts.Date
	first        bool // it is the first part, which has all earlier days too
	days         map[counts.Date]*countedDay
	// later is the first day behind the part of which anybody has read a record; 0: there is none.
	later counts.Date

	day       counts.Date // of tally
	tally     [][]int64
	window    counts.Window // of published
	published counts.Published

	committed map[int64][]bool // which zones of a window were published
	value     []byte           // scratch
}

// rawReading is a raw partition, and the offset of the first record that may count in the next
// part.
type rawReading struct {
	log     *topics.Reader
	next    int64
	counted int64 // the offset up to which refused fixes are in the report
}

// countedDay is what counts on a day.
type countedDay struct {
	windows []counts.Window
	users   map[string]*counts.Counter // by name
}

func (c *recount) run(ctx context.Context) (err error) {
	t, call := c.o.Totals.Topics, wire.Options{RetryTimeout: topics.CallPatience}
	if c.settings, err = c.o.Count.Settings(ctx, c.client, topics.CallPatience); err != nil {
		return err
	}
	id, err := topics.ID(ctx, c.client, t.Changelog)
	if err != nil {
		return err
	}
	noised := c.settings.Settings
	noised.Source += service.Ledger(id, c.o.Totals.Cluster)
	c.publisher, err = counts.NewPublisher(noise.NewKeyed(c.o.Totals.Key), c.settings.Zones, noised)
	if err != nil {
		return err
	}
	if c.codec, err = schemas.NewCodec(c.o.Totals.WithDefaults().SanitizedEncoding); err != nil {
		return err
	}
	undated, err := topics.Undated(ctx, c.client, t.Sanitized)
	if err != nil {
		return err
	}
	c.undated = undated[t.Sanitized]
	for zone := range int32(c.settings.Zones.Count()) {
		c.zones[c.settings.Zones.Name(zone)] = zone
	}
	sizes, err := admin.Partitions(ctx, c.client, call, t.Sanitized)
	if err != nil {
		return err
	}
	// The counts come first: what they were made from is in the raw topic then.
	outputs := make([]*topics.Reader, sizes[t.Sanitized])
	for p := range outputs {
		if outputs[p], err = topics.OpenDecided(ctx, c.client, t.Sanitized, int32(p),
			c.o.Totals.Patience()); err != nil {
			return err
		}
	}
	c.raw = make([]rawReading, c.settings.Partitions)
	for p := range c.raw {
		if err := c.open(ctx, int32(p)); err != nil {
			return fmt.Errorf("partition %d of %s: %w", p, c.o.Windows.Topics.Raw, err)
		}
	}
	return c.parts(ctx, outputs)
}

// parts goes through all days.
func (c *recount) parts(ctx context.Context, outputs []*topics.Reader) error {
	var first []counts.Window
	for day := max(c.settings.First, c.whole); len(first) == 0; day++ { // a calendar may lack a day
		first = c.settings.Plan.Windows(day)
	}
	c.before, c.first = first[0].Day, true
	spans := make([]span, len(outputs))
	for p, r := range outputs {
		spans[p].next = r.First
	}
	for newest := c.before; c.before <= newest; c.first = false {
		if err := c.part(ctx, outputs, spans, first[0].StartMS); err != nil {
			return err
		}
		for _, s := range spans {
			newest = max(newest, c.settings.Plan.At(s.newest).Day)
		}
		if c.before > newest && c.later > 0 { // of records that were aborted, or of no service
			c.before, newest = c.later, c.later
		}
	}
	c.tellUnverified(spans)
	return nil
}

// part counts the next days, and compares what is published of them.
func (c *recount) part(
	ctx context.Context, outputs []*topics.Reader, spans []span, firstMS int64,
) (err error) {
	c.from, c.before = c.before, c.before+counts.Date(c.o.Days)
	c.days, c.committed, c.later = map[counts.Date]*countedDay{}, map[int64][]bool{}, 0
	c.tally, c.window = nil, counts.Window{}
	for p := range c.raw {
		if err := c.count(ctx, int32(p)); err != nil {
			return fmt.Errorf("partition %d of %s: %w", p, c.o.Windows.Topics.Raw, err)
		}
	}
	for p, r := range outputs {
		if c.first {
			spans[p].first = firstMS
		}
		if err := c.compare(ctx, int32(p), r, &spans[p]); err != nil {
			return fmt.Errorf("partition %d of %s: %w", p, c.o.Totals.Topics.Sanitized, err)
		}
	}
	c.complete(spans)
	return nil
}

// has reports whether a window is one of the part at hand.
func (c *recount) has(w counts.Window) bool {
	return (w.Day >= c.from || c.first) && w.Day < c.before
}

// on returns a day.
func (c *recount) on(day counts.Date) *countedDay {
	d := c.days[day]
	if d == nil {
		d = &countedDay{c.settings.Plan.Windows(day), map[string]*counts.Counter{}}
		c.days[day] = d
	}
	return d
}

// open opens a raw partition, and looks from which day on its fixes are there.
func (c *recount) open(ctx context.Context, p int32) error {
	log, err := topics.Open(ctx, c.client, c.o.Windows.Topics.Raw, p, consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	c.raw[p] = rawReading{log: log, next: log.First}
	if log.First > 0 { // what retention has removed was appended before the first one, or by now
		gone := time.Now().UnixMilli()
		at := log.Cursor(log.First, log.End)
		if r, found, err := at.Next(ctx); err != nil {
			return err
		} else if found {
			gone = r.Timestamp
		}
		gone += c.settings.Admission.MaxAheadMS + c.settings.SkewMS
		c.whole = max(c.whole, c.settings.Plan.At(gone).Day+1)
	}
	return nil
}

// errBeyond ends the reading of a raw partition behind the part's days.
var errBeyond = errors.New("later records do not count in these days")

// count takes the fixes of a raw partition that count in the part at hand.
func (c *recount) count(ctx context.Context, p int32) error {
	o := c.o.Windows.WithDefaults()
	reader, err := engine.NewReader(o.Source())
	if err != nil {
		return err
	}
	at, own := &c.raw[p], engine.Partition{Number: p, Of: int(c.settings.Partitions)}
	from, found := at.next, false
	// Whether a record counts on a day follows from its own times. A zone's day lies within a day
	// of the same date in UTC, and append times go back by much less than a day.
	const day = 24 * 60 * 60 * 1000
	nextMS := int64(c.before)*day - 2*day - c.settings.Admission.MaxAheadMS
	endMS := int64(c.before)*day + 3*day + c.settings.Admission.GraceMS
	err = at.log.Scan(ctx, from, at.log.End, func(r consumer.Record) error {
		if !r.Appended && !c.o.Count.TrustsProducers() {
			if r.Offset >= at.counted {
				at.counted = r.Offset + 1
				c.report.Refused[string(schemas.ReasonProducerTime)]++
			}
			return nil // its time is the producer's, and says nothing about later records
		}
		if !found && r.Timestamp >= nextMS {
			at.next, found = r.Offset, true
		}
		if r.Timestamp > endMS {
			return errBeyond
		}
		rec := topics.Record(r)
		user, read, err := reader.Key(rec)
		if err != nil {
			return err
		}
		rec.Read = read
		again := r.Offset < at.counted // by an earlier part
		at.counted = max(at.counted, r.Offset+1)
		fixes, err := c.settings.Fixes(reader, o.Partitioner, own, rec)
		c.countFixes(string(user), fixes, again)
		return err
	})
	if !found {
		at.next = at.log.End
	}
	if errors.Is(err, errBeyond) {
		return nil
	}
	return err
}

// countFixes counts the fixes of a record, and those refused unless it was seen before.
func (c *recount) countFixes(user string, fixes []engine.Fix, again bool) {
	for _, fix := range fixes {
		switch {
		case fix.Usable():
			c.countFix(user, fix.Raw)
		case fix.Refused != nil && !again:
			c.report.Refused[string(fix.Refused.Reason)]++
		}
	}
}

// countFix counts a fix that its window admits.
func (c *recount) countFix(user string, fix schemas.Raw) {
	s := c.settings
	w := s.Plan.At(fix.Timestamp)
	if w.Day < c.from || w.Day >= c.before {
		return
	}
	day := c.on(w.Day)
	if day.users[user] == nil {
		day.users[user] = new(counts.Counter)
	}
	day.users[user].Next(uint16(slices.Index(day.windows, w)),
		s.Zones.Of(fix.Latitude, fix.Longitude), s.PerDay)
}

// publish computes what must be published of a window.
func (c *recount) publish(w counts.Window) (err error) {
	if c.window == w && c.tally != nil {
		return nil
	}
	day := c.on(w.Day)
	if c.tally == nil || c.day != w.Day {
		c.day = w.Day
		c.tally = counts.Tally(len(day.windows), c.settings.Zones.Count(), maps.Values(day.users))
	}
	c.window = w
	c.published, err = c.publisher.Publish(w, c.tally[slices.Index(day.windows, w)], nil)
	return err
}

// locate returns the window and the zone of a record; ok is false if there are none.
func (c *recount) locate(r consumer.Record) (w counts.Window, zone int32, ok bool) {
	n, err := c.codec.DecodeCounts(r.Value)
	if err != nil {
		return w, 0, false
	}
	w = c.settings.Plan.At(n.WindowStart)
	zone, ok = c.zones[n.Zone]
	return w, zone, ok && w.StartMS == n.WindowStart && w.Day >= c.settings.First
}

// span are the starts of the first window that a partition must have, and of the newest that it
// has; 0: it has none.
type span struct {
	first, newest int64
	next          int64 // the offset of the first record of the next part, or of a later one
}

// compare compares what a partition has of the part at hand, for both kinds of readers. The span is
// known after the first part, all but where its windows end.
func (c *recount) compare(
	ctx context.Context, p int32, committed *topics.Reader, has *span,
) (err error) {
	from, cut := has.next, c.first && committed.First > 0
	err = committed.Scan(ctx, from, committed.End, func(r consumer.Record) error {
		w, zone, ok := c.locate(r)
		if !ok {
			return nil
		}
		if cut { // retention may have removed a part of the first window
			has.first, cut = max(has.first, w.EndMS), false
		}
		if w.StartMS >= has.first {
			has.newest = max(has.newest, w.StartMS)
		}
		if c.has(w) {
			c.report.NotCommitted--
			if w.StartMS >= has.first {
				c.once(w, zone, r.Offset)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	has.next, err = c.seen(ctx, p, from, committed)
	return err
}

// seen compares what readers of uncommitted records have seen from an offset on, and returns that
// of the first record behind the part.
func (c *recount) seen(
	ctx context.Context, p int32, from int64, committed *topics.Reader,
) (next int64, err error) {
	all, err := topics.Open(ctx, c.client, c.o.Totals.Topics.Sanitized, p,
		consumer.FetcherOptions{Uncommitted: true})
	if err != nil {
		return 0, err
	}
	next = committed.End
	err = all.Scan(ctx, from, committed.End, func(r consumer.Record) error {
		w, zone, ok := c.locate(r)
		if ok && w.Day >= c.before {
			next = min(next, r.Offset)
			if c.later == 0 || w.Day < c.later {
				c.later = w.Day
			}
		}
		switch {
		case !ok && c.first:
			c.violated(Extra, r.Offset, "a record of no window and zone")
			return nil
		case !ok, !c.has(w):
			return nil
		}
		c.report.NotCommitted++
		if w.Day < c.whole {
			return nil
		}
		return c.same(r, w, zone)
	})
	return next, err
}

// once notes a committed record.
func (c *recount) once(w counts.Window, zone int32, offset int64) {
	c.report.Records++
	if c.committed[w.StartMS] == nil {
		c.committed[w.StartMS] = make([]bool, len(c.zones))
	}
	if c.committed[w.StartMS][zone] {
		c.violated(Duplicate, offset, "a zone comes again"+in(w))
	}
	c.committed[w.StartMS][zone] = true
}

// same compares a record with what the fixes give.
func (c *recount) same(r consumer.Record, w counts.Window, zone int32) (err error) {
	if err := c.publish(w); err != nil {
		return err
	}
	s := c.settings
	c.value, err = c.codec.AppendCounts(c.value[:0], counting.Record(c.publisher, s.Zones,
		s.Settings, c.published, zone))
	if err != nil {
		return err
	}
	if !bytes.Equal(schemas.WithoutID(c.value), schemas.WithoutID(r.Value)) ||
		string(r.Key) != s.Zones.Name(zone) ||
		!c.undated && r.Timestamp != w.EndMS+s.Admission.GraceMS {
		c.violated(Different, r.Offset, "a zone has other bytes than the fixes give"+in(w))
	}
	return nil
}

// complete looks for what is missing in the part at hand between the first and the newest window of
// each partition. A service at work writes one partition before another, so no other's newest
// window counts.
func (c *recount) complete(spans []span) {
	whole := spans[0]
	for _, s := range spans {
		whole.first, whole.newest = min(whole.first, s.first), max(whole.newest, s.newest)
	}
	plan := c.settings.Plan
	for w := plan.At(whole.first); w.StartMS <= whole.newest; w = plan.At(w.EndMS) {
		has := spans[c.settings.Target(w.StartMS, len(spans))]
		if !c.has(w) || w.StartMS < has.first || w.StartMS > has.newest {
			continue
		}
		c.report.Windows++
		if zones := c.committed[w.StartMS]; zones == nil || slices.Contains(zones, false) {
			c.violated(Missing, -1, "not every zone is published"+in(w))
		}
	}
}

// tellUnverified says what could not be verified.
func (c *recount) tellUnverified(spans []span) {
	if !slices.ContainsFunc(spans, func(s span) bool { return s.newest > 0 }) {
		c.report.NotVerified = append(c.report.NotVerified, "no window was published yet of which "+
			"all raw records are there")
		return
	}
	if c.whole > c.settings.First {
		c.report.NotVerified = append(c.report.NotVerified, fmt.Sprintf("retention has removed "+
			"raw records of the days before %v", c.whole))
	}
	for p, s := range spans {
		if s.newest == 0 {
			c.report.NotVerified = append(c.report.NotVerified, fmt.Sprintf("partition %d of the "+
				"counts has no window yet", p))
		}
	}
}

// violated notes a violation.
func (c *recount) violated(kind string, offset int64, what string) {
	note(&c.report.Violations, &c.report.ViolationCount, listed, Violation{kind, offset, what})
}

// in names a window for a violation.
func in(w counts.Window) string {
	return " in the window from " + time.UnixMilli(w.StartMS).UTC().Format(time.RFC3339) + " on"
}
