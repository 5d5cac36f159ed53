// Package doctor looks for whatever would keep a service with the given options from working: its
// settings, its folder, the brokers, its rights there, the four topics, the group, the account of
// ε, and a sample of the raw records. Each finding names a level and what to do. It changes
// nothing.
package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
	"github.com/geodither/geodither/schemas/registry"
)

// Examine looks for whatever would keep a service with these options from
// working, and changes nothing: it makes none of the four topics, joins no group and begins no
// transaction. A broker that is asked for the coordinator of transactions for the first time makes
// its own topic for them. What cannot be seen are limits that brokers keep to themselves. A tell
// that is not nil hears each finding as soon as it is known.
func Examine(ctx context.Context, o service.Options, tell func(Finding)) []Finding {
	d := newExamination(run, o, tell)
	if err := o.Validate(); err != nil {
		d.add("settings", Failure, "%v", err)
		return d.found
	}
	d.add("settings", OK, "fingerprint %.4x", o.Fingerprint())
	d.models()
	d.stateDir()
	d.within(ctx, "registry", d.schemas)
	if d.brokers(ctx) {
		d.client = o.Client()
		d.within(ctx, "rights", d.rights) // first, since it says why others fail
		d.wait(ctx)
		d.within(ctx, "transactions", d.transactions)
		d.topics(ctx)
	} else {
		d.skip("no broker answers", ofBrokers...)
	}
	d.add("readers", Unchecked, "doctor cannot see the readers of %s. Each must set "+
		"isolation.level=read_committed; otherwise it reads the records of aborted transactions, "+
		"and reads them again when they are published",
		o.Topics.Sanitized)
	return d.found
}

func newExamination(command string, o service.Options, tell func(Finding)) *examination {
	return &examination{
		tell: tell, o: o.WithDefaults(), call: wire.Options{RetryTimeout: service.CallPatience},
		command: command, patience: checkPatience,
	}
}

// ExamineFollowing looks for whatever would keep another service from working, which follows the
// one that Examine has looked at: its folder, schemas, rights, topics, and the settings in its
// changelog, unless own is nil. Without brokers it has no findings about these, since Examine has
// them.
func ExamineFollowing(ctx context.Context, command string, o service.Options,
	own service.Fingerprints, tell func(Finding),
) []Finding {
	d := newExamination(command, o, tell)
	d.stateDir()
	d.within(ctx, "registry", d.schemas)
	d.client = o.Client()
	answers := false
	d.within(ctx, "broker", func(ctx context.Context) {
		answers = admin.Ping(ctx, d.client, d.call) == nil
	})
	if answers {
		d.within(ctx, "rights", d.rights)
		d.wait(ctx)
		counts, t := map[string]int{}, d.o.Topics
		d.within(ctx, "topic", func(ctx context.Context) { counts = d.topicsThere(ctx) })
		if n := counts[t.Raw]; own != nil && n > 0 && counts[t.Changelog] == n {
			d.within(ctx, "group", func(ctx context.Context) { d.group(ctx, n) })
			d.within(ctx, "settings", func(ctx context.Context) { d.lastSettings(ctx, n, own) })
		}
	}
	return d.found
}

// schemas looks whether the registry has the schemas of what is published.
func (d *examination) schemas(ctx context.Context) {
	if d.o.SanitizedEncoding != schemas.AvroRegistry {
		return
	}
	for _, s := range service.Schemas(d.o.Cluster) {
		found, err := d.o.Registry.Find(ctx, s.Subject, s.Text)
		switch {
		case err == nil:
			d.add("registry", OK, "subject %s has the schema, id %d, version %d", s.Subject,
				found.ID, found.Version)
		case errors.Is(err, registry.ErrMissing):
			d.unregistered(ctx, s)
		default:
			d.add("registry", Failure, "%v", err)
		}
	}
}

// unregistered asks whether the registry would take a schema that it does not have.
func (d *examination) unregistered(ctx context.Context, s service.Schema) {
	ok, words, err := d.o.Registry.Compatible(ctx, s.Subject, s.Text)
	switch {
	case err != nil && !errors.Is(err, registry.ErrMissing):
		d.add("registry", Failure, "%v", err)
	case err == nil && !ok:
		d.add("registry", Failure, "subject %s would refuse the schema, because it is not "+
			"compatible with its versions: write to another topic (%s)", s.Subject,
			strings.Join(words, "; "))
	default:
		d.add("registry", Warning, "subject %s does not have the schema: %s adds it if it may; "+
			"else use \"geodither schemas register\"", s.Subject, d.command)
	}
}

// stateDir tries to write where the states will go, or would be made.
func (d *examination) stateDir() {
	dir, err := filepath.Abs(d.o.StateDir)
	for ; err == nil; dir = filepath.Dir(dir) {
		info, statErr := os.Stat(dir)
		if statErr == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no folder: name another", dir)
		}
		if statErr == nil || filepath.Dir(dir) == dir {
			break
		}
	}
	if err == nil {
		err = probe(dir, os.CreateTemp)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		d.add("state_dir", Failure, "the disk is full: free some space (%v)", err)
	case err != nil:
		d.add("state_dir", Failure, "it cannot be made or written: name one below a folder that "+
			"exists and that this user may write to (%v)", err)
	default:
		d.add("state_dir", OK, "%s can be written", d.o.StateDir)
	}
}

// probeBytes are written to see that there is room: on a full disk an empty file
// can still be made.
const probeBytes = 64 << 10

// probe writes a file into a folder, waits until it is on the disk, and removes it.
func probe(dir string, create func(dir, pattern string) (*os.File, error)) error {
	f, err := create(dir, ".geodither-doctor-")
	if err != nil {
		return err
	}
	junk := make([]byte, probeBytes)
	_, _ = rand.Read(junk) // it never fails; zeros might take no room
	_, err = f.Write(junk)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// brokers asks each by itself, and reports whether one answers.
func (d *examination) brokers(ctx context.Context) (found bool) {
	level := Failure
	errs := make([]error, len(d.o.Brokers))
	var known []string // addresses that the cluster tells
	for i, broker := range d.o.Brokers {
		var told []string
		if told, errs[i] = d.ping(ctx, broker); errs[i] == nil {
			found, level = true, Warning // for those that do not
			known = told
		}
	}
	for i, broker := range d.o.Brokers {
		if errs[i] == nil {
			d.add("broker", OK, "%s answers", broker)
		} else if wire.IsLinkError(errs[i]) {
			d.add("broker", level, "%s cannot be used: %v", broker, errs[i])
		} else {
			d.add("broker", level, "%s", unreached(broker, errs[i]))
		}
	}
	return found && d.advertised(ctx, known)
}

// advertised asks the brokers at the addresses that the cluster tells, to which clients go for all
// that matters. It reports whether one answers there.
func (d *examination) advertised(ctx context.Context, addresses []string) bool {
	away := 0
	for _, broker := range addresses {
		if slices.Contains(d.o.Brokers, broker) {
			continue // it was asked
		}
		if _, err := d.ping(ctx, broker); wire.IsLinkError(err) {
			d.add("broker", Failure, "%s, which the cluster advertises, cannot be used: %v", broker,
				err)
			away++
		} else if err != nil {
			d.add("broker", Failure, "%s", wire.Advertised(broker))
			away++
		}
	}
	return away == 0 || away < len(addresses)
}

// ping asks a broker by itself, and returns the addresses that the cluster advertises.
func (d *examination) ping(ctx context.Context, broker string) (advertised []string, err error) {
	// Long enough for two TLS handshakes that fail: their errors say more than that time is over.
	const patience = service.CallPatience + 2*time.Second
	call, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return admin.Brokers(call, d.o.Connection.Client([]string{broker}), wire.Options{
		RetryTimeout: patience, RequestTimeout: patience,
	})
}

// unreached says why a broker does not answer, and what to do. It leaves out the hint that the
// error may have, which asks the same.
func unreached(broker string, err error) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		err = e.Err
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("%s: its host name was not found: correct brokers, or the name service "+
			"of this machine (%v)", broker, err)
	}
	return fmt.Sprintf("%s does not answer: is Kafka running there? (%v)", broker, err)
}

// topics checks what Service.Run does, without making any.
func (d *examination) topics(ctx context.Context) {
	t := d.o.Topics
	d.within(ctx, "account", d.account) // a changelog that is missing here may have been lost
	d.within(ctx, "members", d.members)
	d.within(ctx, "erasure", d.erasure)
	counts := map[string]int{}
	d.within(ctx, "topic", func(ctx context.Context) {
		counts = d.topicsThere(ctx)
		if err := topics.CheckRawPartitions(ctx, d.client, d.call, t); err != nil {
			d.add("topic", Failure, "%v", err)
		}
	})
	n, changelog := counts[t.Raw], counts[t.Changelog]
	if err := d.o.OneAccount(n); err != nil && n > 0 {
		d.add("accounts' places", Failure, "%v", err)
	}
	switch {
	case n == 0:
		d.skip(t.Raw+" could not be looked at", ofRaw...)
		return
	case changelog == 0:
		d.skip(t.Changelog+" is not there yet", ofChangelog...)
	case changelog != n:
		d.skip(fmt.Sprintf("%s has %d partitions, and %s has %d", t.Changelog, changelog, t.Raw, n),
			ofChangelog...)
	default:
		d.within(
			ctx,
			"accounts' places",
			func(ctx context.Context) { d.begun = d.accounts(ctx, n) },
		)
	}
	d.within(ctx, "raw records", func(ctx context.Context) { d.rawRecords(ctx, n) })
	d.within(ctx, "first records", func(ctx context.Context) { d.firstRecords(ctx, n) })
	d.within(ctx, "group", func(ctx context.Context) { d.group(ctx, n) })
	d.within(ctx, "other groups", func(ctx context.Context) { d.others(ctx, n) })
	if changelog == n {
		d.within(ctx, "offsets", func(ctx context.Context) { d.expired(ctx, n) })
	}
	d.within(ctx, "topic", func(ctx context.Context) { d.unwritten(ctx, counts[t.Sanitized]) })
	if changelog == n {
		d.within(ctx, "settings", func(ctx context.Context) { d.lastSettings(ctx, n, d.o) })
	}
}

// Checks, by what they need.
var (
	ofBrokers = append([]string{
		"rights", "transactions", "account", "instances", "erasure", "topic",
	}, ofRaw...)
	// ofRaw need the raw topic. Of these, ofChangelog need the changelog too, and ofFixes the last
	// raw records.
	ofRaw = slices.Concat([]string{
		"retention", "timestamps", "raw records", "first records", "group",
	},
		ofFixes, ofChangelog)
	ofChangelog = []string{"accounts' places", "changelog"}
	ofFixes     = []string{"partitioner", "map", "order"}
)

// topicsThere looks at the four topics, and returns the partitions of those that are there.
func (d *examination) topicsThere(ctx context.Context) map[string]int {
	t, counts := d.o.Topics, map[string]int{}
	for _, name := range t.Names() {
		have, err := admin.Partitions(ctx, d.client, d.call, name)
		var missing *admin.MissingTopicsError
		switch {
		case err == nil && t.Follows && name == t.Raw:
			counts[name] = have[name] // it was looked at as the output of its own service
		case errors.As(err, &missing) && t.Follows && name == t.Raw:
			d.add("topic", OK, "%s is missing; %s waits for the service that makes it", name,
				d.command)
		case errors.As(err, &missing) && t.Create && name == t.Raw && t.Partitions > 0:
			d.add("topic", Warning, "%s is missing%s; run will make it, empty, with %d "+
				"partitions (topics.create, topics.partitions)",
				name, topics.Similar(ctx, d.client, d.call, t, missing.Topics), t.Partitions)
		case errors.As(err, &missing) && t.Create && name == t.Raw:
			d.add("topic", Failure, "%s is missing%s: run waits for it; create it, or set "+
				"topics.partitions to have it made",
				name, topics.Similar(ctx, d.client, d.call, t, missing.Topics))
		case errors.As(err, &missing) && t.Create && name == t.Changelog && d.failed("account"):
			d.add("topic", Failure, "%s is missing, and run would not make it: see the account",
				name)
		case errors.As(err, &missing) && t.Create:
			d.add("topic", OK, "%s is missing; %s will make it (topics.create)", name,
				d.command)
		case errors.As(err, &missing):
			d.add("topic", Failure,
				"%s is missing%s: create it, set topics.create: true, or let this client see it",
				name, topics.Similar(ctx, d.client, d.call, t, missing.Topics))
		case err != nil:
			d.add("topic", Failure, "%s: %v", name, err)
		default:
			counts[name] = have[name]
			d.topic(ctx, name, have[name], counts[t.Raw])
		}
	}
	return counts
}

// unwritten warns if the group has processed records and its sanitized topic never had one. Another
// config of the group may name another topic: what the changelog and the group know of settings
// names none.
func (d *examination) unwritten(ctx context.Context, partitions int) {
	for n := range int32(partitions) {
		r, err := topics.Open(ctx, d.client, d.o.Topics.Sanitized, n,
			consumer.FetcherOptions{Options: d.call})
		if err != nil || r.End > 0 {
			return
		}
	}
	if d.processed(ctx) {
		d.add("topic", Warning, "group %s has processed records, and %s has never had one: is "+
			"there another config of this group with another topics.sanitized? It is also so if "+
			"every record was refused or skipped, and if the topic was made again",
			d.o.Group, d.o.Topics.Sanitized)
	}
}

// topic checks one that is there, against the raw topic's number of partitions.
func (d *examination) topic(ctx context.Context, name string, partitions, want int) {
	t := d.o.Topics
	if want > 0 && partitions != want {
		d.add("topic", Failure, "%v", topics.ExplainPartitions(
			&admin.PartitionsError{Topic: name, Have: partitions, Want: want, Like: t.Raw}, t))
		return
	}
	const batch = "max.message.bytes"
	configs, err := admin.Configs(ctx, d.client, d.call, name, cleanupPolicy, topics.RetentionMS,
		topics.RetentionBytes, timestampType, batch, topics.TimestampBefore, topics.TimestampAhead,
		topics.TimestampBoth)
	if err != nil {
		d.add("topic", Failure, "%s: its settings cannot be read (DescribeConfigs): %v", name, err)
		if name == t.Raw {
			d.skip("the settings of "+name+" cannot be read", "retention", "timestamps")
		}
		return
	}
	var raw map[string]string // nil: not known
	if want > 0 && name != t.Raw {
		raw = d.rawSettings(ctx)
	}
	level, detail := OK, fmt.Sprintf("%s has %d partitions", name, partitions)
	limit, err := strconv.Atoi(configs[batch])
	switch {
	case name == t.Changelog && configs[cleanupPolicy] != topics.Compacted[cleanupPolicy]:
		level, detail = Failure, (&admin.ConfigError{
			Topic: name, Name: cleanupPolicy, Have: configs[cleanupPolicy], Want: "compact",
		}).Error()
	case name == t.Raw && compacts(configs):
		level, detail = Warning, fmt.Sprintf("%s is compacted: a fix is lost once its user has a "+
			"later one, also before it is read: set %s=delete", name, cleanupPolicy)
	case name != t.Changelog && compacts(configs):
		level, detail = Failure, fmt.Sprintf("%s is compacted, so its readers lose all but each "+
			"key's last record: set %s=delete", name, cleanupPolicy)
	case name != t.Raw && err == nil && limit < d.o.MaxBatchBytes:
		level, detail = Warning, fmt.Sprintf("%s takes batches of %d bytes, and geodither "+
			"writes up to %d: raise the topic's max.message.bytes", name, limit,
			d.o.MaxBatchBytes)
	case name != t.Raw && name != t.Changelog &&
		topics.ShorterRetention(configs[topics.RetentionMS], raw[topics.RetentionMS]):
		level, detail = Warning, fmt.Sprintf("%s keeps its records for less time than %s, "+
			"whose timestamps they carry", name, t.Raw)
	}
	d.add("topic", level, "%s", detail)
	if name != t.Raw && raw != nil {
		d.times(name, configs, raw)
	}
	d.retention(name, configs)
}

// rawSettings are those of the raw topic that the times of its records follow from; nil where they
// cannot be read.
func (d *examination) rawSettings(ctx context.Context) map[string]string {
	settings, err := admin.Configs(ctx, d.client, d.call, d.o.Topics.Raw, topics.RetentionMS,
		timestampType, topics.TimestampBefore, topics.TimestampAhead, topics.TimestampBoth)
	if err != nil {
		return nil
	}
	return settings
}

// compacts reports whether a topic loses records to later ones of the same key.
func compacts(settings map[string]string) bool {
	return strings.Contains(settings[cleanupPolicy], topics.Compacted[cleanupPolicy])
}

// sampleRecords is how many raw records of a partition are tried.
const sampleRecords = 1000

// rawRecords reads a few from the end of each partition and tries to use them: a
// wrong encoding shows, whether reading is allowed, and how many fixes are late or
// outside the map.
func (d *examination) rawRecords(ctx context.Context, partitions int) {
	seen := service.NewSample(d.o, partitions)
	read, err := d.fixes(ctx, partitions, func(
		p *engine.Processor, n int32, r consumer.Record, fix engine.Fix,
	) error {
		_, err := seen.Add(p, n, r, fix)
		return err
	})
	if err != nil {
		d.add("raw records", Failure, "%v", err)
		d.skip("the raw records cannot be read", ofFixes...)
		return
	}
	bad := int(seen.Refused.Total())
	advice := d.o.Source().Advice(seen.Refused, 0)
	hopeless := seen.Hopeless(1)
	noDay := seen.Refused.Of(schemas.ReasonKeyDestroyed)
	if seen.Skipped > 0 {
		d.skipped(seen, read)
		read = seen.Seen - seen.Skipped // fixes, from here on
	}
	switch {
	case bad > 0 && 2*noDay > int64(bad):
		// No failure: these may be answered already, and the next ones are of a later day.
		d.add("raw records", Warning,
			"%d of the last %d would be refused: %s; the key begins at %v: %s", bad, read,
			seen.Refused.String(), d.o.Key.FirstDay(), advice)
	case bad > 0 && bad >= read:
		d.add("raw records", Failure, "none of the last %d can be used: %s (%s)",
			read, advice, seen.Refused.String())
	case hopeless != "":
		d.add("raw records", Failure, "nearly all of the last %d would be refused: %s", read,
			hopeless)
	case 2*bad > read:
		d.add("raw records", Warning, "%d of the last %d would be refused: %s; %s",
			bad, read, seen.Refused.String(), advice)
	case bad > 0:
		d.add("raw records", Warning, "%d of the last %d would be refused: %s",
			bad, read, seen.Refused.String())
	default:
		d.add("raw records", OK, "the last %d can be used", read)
	}
	if seen.Ancient > 0 {
		d.add("timestamps", Warning, "%d of the last %d fixes are in records with a Kafka "+
			"timestamp of 1970: their producer sets seconds in place of milliseconds. Brokers "+
			"delete such records first, and max_ahead refuses their fixes", seen.Ancient, seen.Seen)
	}
	d.partitioner(seen.Placed, d.begun)
	d.usersInOnePartition(seen.Users)
	d.placesAndOrder(seen)
}

// visitor gets a fix of a record in partition n.
type visitor = func(p *engine.Processor, n int32, r consumer.Record, fix engine.Fix) error

// fixes visits the fixes of the last records of all raw partitions. read is how many records these
// are.
func (d *examination) fixes(
	ctx context.Context, partitions int, visit visitor,
) (read int, err error) {
	for n := range int32(partitions) {
		p, err := engine.NewProcessor(d.o.Settings,
			engine.Partition{Topic: d.o.Topics.Raw, Number: n, Of: partitions})
		if err == nil {
			err = d.sample(ctx, n, func(r consumer.Record) error {
				read++
				return p.EachFix(topics.Record(r), func(fix engine.Fix) error {
					return visit(p, n, r, fix)
				})
			})
		}
		if err != nil {
			return read, fmt.Errorf("partition %d of %s cannot be read: %w", n, d.o.Topics.Raw, err)
		}
	}
	return read, nil
}

// ExamineFleet compares the vehicles of the last raw records with the noise of counts, which has a
// scale and is drawn for a number of zones. o are the options of the service that sanitizes.
func ExamineFleet(
	ctx context.Context, o service.Options, zones int, scale float64, tell func(Finding),
) []Finding {
	d := newExamination(run, o, tell)
	d.client = o.Client()
	raw := d.o.Topics.Raw
	vehicles, fixes := map[string]bool{}, 0
	d.wait(ctx)
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	have, err := admin.Partitions(ctx, d.client, d.call, raw)
	if err == nil {
		if twice := engine.OneAccount(d.o.Partitioner, d.o.Source(), have[raw]); twice != nil {
			d.add("counts", Failure, "%v", twice)
		}
		_, err = d.fixes(ctx, have[raw], func(
			_ *engine.Processor, _ int32, _ consumer.Record, fix engine.Fix,
		) error {
			if fix.Refused == nil && fix.Skipped == mapping.NoRule {
				vehicles[fix.Raw.UserID], fixes = true, fixes+1
			}
			return nil
		})
	}
	if err != nil || fixes == 0 {
		d.skip("no fix of "+raw+" could be read", "fleet") // Examine says why
		return d.found
	}
	about := len(vehicles) // to one digit: this goes into the logs of a cluster
	for unit := 10; about >= unit; unit *= 10 {
		about = (len(vehicles) + unit/2) / unit * unit
	}
	found := fmt.Sprintf("about %d vehicles in the last %d fixes, %.1g for each of %d zones; the "+
		"noise has the scale %.3g (per_day / epsilon)", about, fixes,
		float64(about)/float64(zones), zones, scale)
	// Where most vehicles are there once, the fleet is larger than the sample.
	if float64(len(vehicles)) < scale*float64(zones) && 3*len(vehicles) <= fixes {
		d.add("fleet", Warning, "%s, which hides so few. Choose larger zones: on files, "+
			"\"geodither counts\" without --per-day shows which are useful", found)
	} else {
		d.add("fleet", OK, "%s", found)
	}
	return d.found
}

// sample visits the last records of a raw partition.
func (d *examination) sample(
	ctx context.Context, n int32, visit func(consumer.Record) error,
) error {
	r, err := topics.Open(ctx, d.client, d.o.Topics.Raw, n,
		consumer.FetcherOptions{Options: d.call})
	if err != nil {
		return err
	}
	return r.Scan(ctx, max(r.First, r.End-sampleRecords), r.End, visit)
}

// group asks for what it has committed, which also shows that it may be asked.
func (d *examination) group(ctx context.Context, partitions int) {
	begun := 0
	for n := range int32(partitions) {
		at, found, err := consumer.Committed(ctx, d.client, d.call, d.o.Group, d.o.Topics.Raw, n)
		if err != nil && errors.Is(err, wire.ErrTemporary) {
			d.add("group", Warning, "%s: its offset in partition %d is not known yet, a "+
				"transaction may be open: %v", d.o.Group, n, err)
			return
		}
		if err != nil {
			d.add("group", Failure, "%s: %v", d.o.Group, err)
			return
		}
		if found {
			begun++
		}
		err = d.moved(ctx, n)
		if err == nil {
			err = d.outside(ctx, n, at, found)
		}
		if err != nil {
			d.add("group", Failure, "partition %d: %v", n, err)
			return
		}
	}
	d.add("group", OK, "%s has begun %d of %d partitions", d.o.Group, begun, partitions)
}

// moved compares the group's offset with the last mark, as a task does at its start. An instance at
// work moves both, and the two are not read at once, so a difference has to last.
func (d *examination) moved(ctx context.Context, n int32) (moved error) {
	const looks, apart = 5, 200 * time.Millisecond
	before := int64(-1)
	for range looks {
		at, found, err := consumer.Committed(ctx, d.client, d.call, d.o.Group, d.o.Topics.Raw, n)
		if err != nil || !found {
			return nil //nolint:nilerr // group says what is wrong with it
		}
		mark, found, err := topics.LastMark(ctx, d.client, d.o.Topics.Changelog, n)
		if err != nil || !found {
			return nil //nolint:nilerr // lastSettings says what is wrong with it
		}
		if moved = task.CheckCommitted(at, mark.Input); before >= 0 && at != before {
			return nil // an instance is at work
		}
		if before = at; moved == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(apart):
		}
	}
	return moved
}

// outside checks, as a task does at its start, that the raw topic holds a partition's offset and
// what was processed before it. Where the offset has expired, the last mark has it.
func (d *examination) outside(ctx context.Context, n int32, at int64, found bool) error {
	mark, marked, err := topics.LastMark(ctx, d.client, d.o.Topics.Changelog, n)
	if err != nil || !found && !marked {
		return nil //nolint:nilerr // lastSettings says what is wrong with it
	}
	if !found {
		at = mark.Input
	}
	r, err := topics.Open(
		ctx,
		d.client,
		d.o.Topics.Raw,
		n,
		consumer.FetcherOptions{Options: d.call},
	)
	if err != nil {
		return err
	}
	known := int64(-1)
	if marked {
		known, err = r.EpochEnd(ctx, mark.Epoch)
	}
	if err != nil {
		return err
	}
	return task.CheckInput(at, r.First, r.End, known)
}

// differences says in which settings a mark's differ from these, and what a key means among them.
func (d *examination) differences(m task.Mark, own service.Fingerprints) string {
	text := own.Differences(m.Settings)
	if d.command != run || bytes.Equal(m.Names, d.o.KeyFingerprint()) {
		return text
	}
	return text + ". Under another noise key run refuses to start where the changelog keeps " +
		"accounts of erased users"
}

// lastSettings compares the last marks of the changelog with the settings of the service.
func (d *examination) lastSettings(
	ctx context.Context, partitions int, own service.Fingerprints,
) {
	source, err := topics.ID(ctx, d.client, d.o.Topics.Raw)
	if err != nil {
		d.add("changelog", Failure, "the id of %s cannot be read: %v", d.o.Topics.Raw, err)
		return
	}
	other, open, differ := 0, 0, ""
	for n := range int32(partitions) {
		mark, found, err := topics.LastMark(ctx, d.client, d.o.Topics.Changelog, n)
		if err != nil {
			d.add("changelog", Failure, "partition %d of %s: %v", n, d.o.Topics.Changelog, err)
			return
		}
		if err := task.CheckSource(mark, source); err != nil {
			d.add("changelog", Failure, "partition %d: %v", n, err)
			return
		}
		same := bytes.Equal(mark.Settings, own.Fingerprint())
		if same {
			if err := d.o.CheckVersions(mark); err != nil {
				d.add("changelog", Failure, "partition %d: %v", n, err)
				return
			}
		}
		if !found || len(mark.Settings) == 0 || same {
			continue
		}
		other++
		differ = d.differences(mark, own)
		if mark.Open {
			open++
		}
	}
	instead, made := "start once with --accept=settings", "releases are made"
	if d.command != run {
		instead = "start with another smooth.group and topics.smoothed"
		made = "records are smoothed"
	}
	switch {
	case open > 0:
		d.add("changelog", Failure, "%d partitions were written under other settings by an "+
			"instance that works still or was killed: stop it cleanly under its own settings, or "+
			"%s. What differs: %s", open, instead, differ)
	case other > 0:
		d.add("changelog", Warning, "%d partitions were written under other settings: from the "+
			"start on %s under these. What differs: %s", other, made, differ)
	default:
		d.add("changelog", OK, "under these settings, or not begun")
	}
}
