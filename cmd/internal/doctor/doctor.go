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

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
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
	if r := o.Release; r.Budget.Lifetime == 0 && engine.NightsOpen(r.Hours) {
		d.add("nights", Warning, "releases are drawn at night, and release.budget has no "+
			"lifetime: nights add up and tell where somebody lives. Leave 21:00 to 06:00 out of "+
			"release.hours, or set a lifetime")
	}
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

// ExamineCounting looks for whatever would keep a service that counts from working, beside what
// Examine has looked at: its folder, schemas, rights and topics. Without brokers it has no findings
// about these, since Examine has them.
func ExamineCounting(ctx context.Context, o service.Options, tell func(Finding)) []Finding {
	d := newExamination("counts", o, tell)
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
		d.within(ctx, "topic", func(ctx context.Context) { d.topicsThere(ctx) })
	}
	return d.found
}

// models looks at later versions of the model.
func (d *examination) models() {
	d.largeMap(d.o.Model)
	for _, v := range d.o.Later {
		model, err := d.o.Try(v)
		if err != nil {
			d.add("models", Failure, "%v", err)
			continue
		}
		g := model.Grid
		detail, level := fmt.Sprintf("%v: %d × %d cells of %.0f m", v.ID, g.Width(),
			g.Height(), 1000*g.CellKM()), OK
		if v.GridID() != d.o.Model.Grid.ID() {
			level, detail = Warning, detail+
				", another map than the first version's: every user who comes to it starts over"
		}
		d.add("models", level, "%s", detail)
		d.largeMap(model)
	}
}

// largeMap warns where the most probable cell is published and chance may have chosen it.
func (d *examination) largeMap(m *mobility.Model) {
	// A small mass may become twice the least.
	n, most := m.Grid.Cells(), int(1/mechanism.LeastMass)/2
	if n > most && d.o.Release.Mechanism == law.Codebook &&
		d.o.Release.Estimate == mechanism.EstimateMode {
		d.add("models", Warning, "the map has %d cells, more than %d, so chance may choose the "+
			"most probable one where little is known: set publish.estimate to mean", n, most)
	}
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

// maxTimeout is a setting of brokers, and usualMaxTimeout Kafka's own default of it.
const (
	maxTimeout      = "transaction.max.timeout.ms"
	usualMaxTimeout = 15 * time.Minute
)

// transactions compares the timeout of transactions with how long they take, and with what the
// brokers allow.
func (d *examination) transactions(ctx context.Context) {
	const check = "transactions"
	timeout, interval := d.o.TransactionTimeout, d.o.MaxInterval
	limits, err := admin.BrokerConfigs(ctx, d.client, d.call, maxTimeout)
	ms, broken := strconv.ParseInt(limits[maxTimeout], 10, 64)
	limit, known := time.Duration(ms)*time.Millisecond, err == nil && broken == nil
	unknown := "the brokers do not tell it"
	if errors.Is(err, kafka.ClusterAuthorizationFailed) {
		unknown = "this client may not DescribeConfigs the cluster, which run does not need"
	}
	switch {
	case timeout <= interval:
		d.add(check, Failure, "transaction.timeout is %v, and transaction.max_interval %v: "+
			"brokers would abort transactions before they are committed. Set a longer timeout or "+
			"a shorter interval", timeout, interval)
	case known && timeout > limit:
		d.add(check, Failure, "transaction.timeout is %v, and the brokers allow %v (%s): run "+
			"would be refused. Set it to that or less", timeout, limit, maxTimeout)
	case known:
		d.add(check, OK, "transaction.timeout is %v; the brokers allow %v", timeout, limit)
	case timeout > usualMaxTimeout:
		d.add(check, Warning, "transaction.timeout is %v, and brokers allow %v unless %s says "+
			"otherwise, which could not be checked: %s", timeout, usualMaxTimeout, maxTimeout,
			unknown)
	default:
		d.add(check, Unchecked, "transaction.timeout is %v; %s could not be checked: %s", timeout,
			maxTimeout, unknown)
	}
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
		d.within(ctx, "settings", func(ctx context.Context) { d.lastSettings(ctx, n) })
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

// failed reports whether a check has found something that would stop the service.
func (d *examination) failed(check string) bool {
	return slices.ContainsFunc(d.found,
		func(f Finding) bool { return f.Check == check && f.Level == Failure })
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

// expired looks for partitions whose states have gone on, and whose offset the brokers have
// forgotten.
func (d *examination) expired(ctx context.Context, partitions int) {
	for n := range int32(partitions) {
		_, found, err := consumer.Committed(ctx, d.client, d.call, d.o.Group, d.o.Topics.Raw, n)
		if err != nil || found {
			continue
		}
		mark, found, err := topics.LastMark(ctx, d.client, d.o.Topics.Changelog, n)
		if err == nil && found && mark.Input > 0 {
			d.add(
				"group",
				Warning,
				"partition %d: %s has states up to offset %d, and group %s has "+
					"no offset: it expired (offsets.retention.minutes) or was deleted. A start "+
					"goes on at %[3]d",
				n,
				d.o.Topics.Changelog,
				mark.Input,
				d.o.Group,
			)
			return
		}
	}
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
func (d *examination) differences(m task.Mark) string {
	text := d.o.Differences(m.Settings)
	if bytes.Equal(m.Names, d.o.KeyFingerprint()) {
		return text
	}
	return text + ". Under another noise key run refuses to start where the changelog keeps " +
		"accounts of erased users"
}

// lastSettings compares the last marks of the changelog with the settings of the service.
func (d *examination) lastSettings(ctx context.Context, partitions int) {
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
		same := bytes.Equal(mark.Settings, d.o.Fingerprint())
		if same {
			err := d.o.CheckVersions(mark)
			if err == nil {
				err = task.CheckOpen(mark, mark.Settings, d.o.Versions())
			}
			if err != nil {
				d.add("changelog", Failure, "partition %d: %v", n, err)
				return
			}
		}
		if !found || len(mark.Settings) == 0 || same {
			continue
		}
		other++
		differ = d.differences(mark)
		if mark.Open {
			open++
		}
	}
	switch {
	case open > 0:
		d.add("changelog", Failure, "%d partitions were written under other settings by an "+
			"instance that works still or was killed: stop it cleanly under its own settings, or "+
			"start once with --accept=settings. What differs: %s", open, differ)
	case other > 0:
		d.add("changelog", Warning, "%d partitions were written under other settings: from the "+
			"start on releases are made under these. What differs: %s", other, differ)
	default:
		d.add("changelog", OK, "under these settings, or not begun")
	}
}

// accounts says whether a user could have a second account, and reports whether users may have one
// at all.
func (d *examination) accounts(ctx context.Context, partitions int) (begun bool) {
	const check = "accounts' places"
	begun, err := account.CheckPartitioner(ctx, d.client, d.o.Settings, d.o.Topics.Changelog,
		int32(partitions))
	switch {
	case err != nil:
		d.add(check, Failure, "%v", err)
	case begun:
		d.add(check, OK, "the changelog was written under the same partitioner")
	}
	return begun
}
