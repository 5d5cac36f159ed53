package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pass is one reading of a history: so many instances of a group of their own, with topics of their
// own.
type pass struct {
	number, instances, maxRecords int
}

// group is the name of the group, and of its topics before their dots.
func (p pass) group() string { return fmt.Sprintf("history-%d", p.number) }

func (p pass) topics() outputs {
	return outputs{p.group() + ".sanitized", p.group() + ".dead", p.group() + ".changelog"}
}

// passes are those of a run. No two have transactions of the same length.
func passes(instances []int) []pass {
	var all []pass
	for n, count := range instances {
		all = append(all, pass{n + 1, count, 500 * (n + 1)})
	}
	return all
}

// parseCounts reads numbers of instances, such as 1,3.
func parseCounts(text string) ([]int, error) {
	var counts []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--history %s: write numbers of instances, such as 1,3", text)
		}
		counts = append(counts, n)
	}
	if len(counts) < 2 {
		return nil, fmt.Errorf("--history %s: one pass has nothing to be compared with", text)
	}
	return counts, nil
}

// read is what a pass has published, by user, and by partition for dead letters, which name no
// user. A digest is of all records in their order: keys, values and timestamps.
type read struct {
	digests         map[string][sha256.Size]byte
	sanitized, dead int
}

// take adds a record to the digest of its user or partition.
func (d *read) take(r *kgo.Record, dead bool) {
	name := "user " + string(r.Key)
	if dead {
		name = fmt.Sprintf("dead letters of partition %d", r.Partition)
		d.dead++
	} else {
		d.sanitized++
	}
	before := d.digests[name]
	h := sha256.New()
	h.Write(before[:])
	var number [8]byte
	for _, part := range [][]byte{r.Key, r.Value} {
		h.Write(binary.BigEndian.AppendUint64(number[:0], uint64(len(part))))
		h.Write(part)
	}
	h.Write(binary.BigEndian.AppendUint64(number[:0], uint64(r.Timestamp.UnixMilli())))
	d.digests[name] = [sha256.Size]byte(h.Sum(nil))
}

// sum is the digest of all.
func (d *read) sum() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(d.digests)) {
		digest := d.digests[name]
		fmt.Fprintf(h, "%d %s", len(name), name)
		h.Write(digest[:])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// differ counts the users, and partitions of dead letters, that two passes do not agree on.
func (d *read) differ(other *read) int {
	n := 0
	for name, digest := range d.digests {
		if other.digests[name] != digest {
			n++
		}
	}
	for name := range other.digests {
		if _, ok := d.digests[name]; !ok {
			n++
		}
	}
	return n
}

// readPass is what came of a pass.
type readPass struct {
	pass
	read
	took time.Duration
}

// text is a line of the report.
func (p *readPass) text() string {
	return fmt.Sprintf("%d instances with transactions of %d records, in %v: %d sanitized records "+
		"+ %d dead letters, digest %s", p.instances, p.maxRecords, p.took, p.sanitized, p.dead,
		p.sum())
}

// readHistory is the course that feeds the raw topic once, and then has several passes read it from
// its start.
func readHistory(ctx context.Context, h *harness, r *report) (err error) {
	if err := h.prepare(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, h.end(r), h.cluster.call(context.WithoutCancel(ctx), "down"))
	}()
	client, err := newClient(h.brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	counts, err := parseCounts(h.History)
	if err != nil {
		return err
	}
	var topics []outputs
	for _, p := range passes(counts) {
		topics = append(topics, p.topics())
	}
	if err := createTopics(ctx, client, h.Partitions, topics...); err != nil {
		return err
	}
	if err := feedHistory(ctx, h); err != nil {
		return err
	}
	var first *readPass
	for _, p := range passes(counts) {
		found, err := readAgain(ctx, h, p)
		if err != nil {
			return fmt.Errorf("pass %d: %w", p.number, err)
		}
		if first == nil {
			first = &found
		}
		r.passes = append(r.passes, found)
		if got := found.sanitized + found.dead; got != h.fed.all() {
			r.Violations = append(r.Violations, fmt.Sprintf("pass %d: %d records are answered "+
				"by %d", p.number, h.fed.all(), got))
		}
		if n := first.differ(&found.read); n > 0 {
			r.Violations = append(r.Violations, fmt.Sprintf("%d instances and %d instances: the "+
				"bytes of %d of %d users and partitions of dead letters differ", first.instances,
				p.instances, n, len(first.digests)))
		}
	}
	return nil
}

// feedHistory fills the raw topic as fast as it goes.
func feedHistory(ctx context.Context, h *harness) error {
	h.note("feeding %d records", h.steps()*h.Vehicles)
	said := new(bytes.Buffer)
	cmd := exec.CommandContext(ctx, h.binary, "produce", "--brokers", strings.Join(h.brokers, ","),
		"--topic", rawTopic, "--simulate", strconv.Itoa(h.Vehicles), "--steps",
		strconv.Itoa(h.steps()), "--model", h.model(), "--seed", strconv.FormatUint(h.Seed, 10))
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("geodither produce: %w\n%s", err, said)
	}
	h.fed = fed{fleet: h.steps() * h.Vehicles}
	return nil
}

// readAgain runs a pass to its end.
func readAgain(ctx context.Context, h *harness, p pass) (readPass, error) {
	found := readPass{pass: p, read: read{digests: map[string][sha256.Size]byte{}}}
	reader, err := follow(h, &found.read, p.topics())
	if err != nil {
		return found, err
	}
	defer reader.client.Close()
	began := time.Now()
	h.note("pass %d: %d instances, %d partitions", p.number, p.instances, h.Partitions)
	var running []*instance
	for n := range p.instances {
		i, err := configFor(h, p, fmt.Sprintf("%s-%d", p.group(), n+1))
		if err != nil {
			return found, err
		}
		if i, err = launch(i); err != nil {
			return found, err
		}
		h.instances, running = append(h.instances, i), append(running, i)
	}
	err = reader.until(ctx, func() bool { return found.sanitized+found.dead >= h.fed.all() })
	found.took = time.Since(began).Round(time.Second)
	if err != nil {
		return found, err
	}
	for _, i := range running {
		if err := i.terminate(); err != nil {
			return found, err
		}
	}
	return found, reader.rest(ctx, h.Partitions) // a clean stop may have committed something
}

// configFor prepares an instance of a pass.
func configFor(h *harness, p pass, name string) (*instance, error) {
	i := &instance{name: name, binary: h.binary}
	var err error
	i.config, i.stateDir, err = h.writeConfig(name, p.group(), p.topics(),
		fmt.Sprintf("transaction: {max_records: %d}\n", p.maxRecords))
	return i, err
}

// follower reads what a pass publishes, read_committed, as it comes.
type follower struct {
	client *kgo.Client
	read   *read
	dead   string             // topic
	next   map[string][]int64 // offsets, by topic and partition
}

// follow starts to read a pass's topics.
func follow(h *harness, to *read, topics outputs) (*follower, error) {
	names := []string{topics.sanitized, topics.dead}
	client, err := newClient(h.brokers, from(names, h.Partitions, false)...)
	if err != nil {
		return nil, err
	}
	f := &follower{client: client, read: to, dead: topics.dead, next: map[string][]int64{}}
	for _, name := range names {
		f.next[name] = make([]int64, h.Partitions)
	}
	return f, nil
}

// until reads until done, or until nothing has come for a while.
func (f *follower) until(ctx context.Context, done func() bool) error {
	last := time.Now()
	for !done() {
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		fetches := f.client.PollFetches(waiting)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			f.next[r.Topic][r.Partition] = r.Offset + 1
			last = time.Now()
			if !r.Attrs.IsControl() {
				f.read.take(r, r.Topic == f.dead)
			}
		})
		if time.Since(last) > stuckAfter {
			return fmt.Errorf("the service is stuck: %d sanitized records and %d dead letters, "+
				"and nothing in the last %v", f.read.sanitized, f.read.dead, stuckAfter)
		}
	}
	return nil
}

// rest reads up to where the topics end now.
func (f *follower) rest(ctx context.Context, partitions int) error {
	for topic, next := range f.next {
		end, err := ends(ctx, f.client, topic, partitions, false)
		if err != nil {
			return err
		}
		err = f.until(ctx, func() bool {
			for partition := range end {
				if next[partition] < end[partition] {
					return false
				}
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}
