//go:build kafka

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// countedWorld is a raw topic whose fixes two instances of "geodither counts serve" count.
type countedWorld struct {
	*harness
	config.Counting
	raw    string
	codec  *schemas.Codec
	feeder *producer.Idempotent
}

const countedPartitions = 3

// newCountedWorld makes the topics and the instances. What is published has its brokers' times.
func newCountedWorld(t *testing.T) (w *countedWorld, instances []*supervised) {
	t.Helper()
	h := newHarness(t)
	times := map[string]string{"message.timestamp.type": "LogAppendTime"}
	w = &countedWorld{harness: h, raw: h.topic("raw", countedPartitions, map[string]string{
		"message.timestamp.after.max.ms": "9223372036854775807",
	})}
	counted, dir := h.topic("counted", countedPartitions, times), t.TempDir()
	h.ok(os.WriteFile(filepath.Join(dir, "noise.key"), []byte(testKey.Reveal()+"\n"), 0o600))
	binary, err := built()
	h.ok(err)
	today := time.Now().UTC().Format(time.DateOnly)
	for n := range 2 {
		i := &supervised{name: fmt.Sprint("counts-", n+1), binary: binary, command: "counts serve"}
		i.config, i.stateDir = filepath.Join(dir, i.name+".yml"), filepath.Join(dir, i.name)
		h.ok(os.WriteFile(i.config, fmt.Appendf(nil, `brokers: [%s]
group: %scounts
topics: {raw: %s, counts: %s}
key_file: noise.key
state_dir: %s/state
session_timeout: %v
transaction: {timeout: %v}
counts: {epsilon: 1, per_day: 2, zone: 4km, box: "51.40,-0.20,51.46,-0.10", window: 1m,
  grace: 3s, skew: 10s, first: %s}
`, strings.Join(h.brokers, ","), h.prefix, w.raw, counted, i.stateDir, sessionTimeout,
			transactionTimeout, today), 0o600))
		instances = append(instances, i)
	}
	w.Counting, _, err = config.ReadCounting(instances[0].config)
	h.ok(err)
	w.codec, err = schemas.NewCodec(schemas.Avro)
	h.ok(err)
	w.feeder, err = producer.NewIdempotent(h.client, producer.Options{RetryTimeout: patience})
	h.ok(err)
	h.ok(w.early(t.Context()))
	h.alter(w.raw, "message.timestamp.type", "LogAppendTime")
	for _, c := range []topics.Set{w.Windows.Topics, w.Totals.Topics} {
		h.ok(topics.Create(t.Context(), h.client, wire.Options{}, c))
	}
	return w, instances
}

// start starts an instance until the test ends.
func (w *countedWorld) start(i *supervised) {
	w.Helper()
	_, err := launch(i)
	w.ok(err)
	w.Cleanup(func() {
		if err := i.kill(); err != nil {
			w.Error(err)
		}
		if text, err := os.ReadFile(i.log.Name()); w.Failed() && err == nil {
			w.Logf("%s's log:\n%s", i.name, text)
		}
	})
}

// early sends a fix to each partition while the raw topic still has the producers' times: ten years
// ahead. None counts, and none hides what comes after it.
func (w *countedWorld) early(ctx context.Context) error {
	const ahead = 10 * 365 * 24 * time.Hour
	var records []producer.Record
	for n := range 20 {
		fix := schemas.Raw{
			UserID: fmt.Sprintf("early-%02d", n), Timestamp: time.Now().Add(ahead).UnixMilli(),
			Latitude: 51.43, Longitude: -.15,
		}
		value, err := w.codec.AppendRaw(nil, fix)
		if err != nil {
			return err
		}
		records = append(records, producer.Record{
			Key: []byte(fix.UserID), Value: value, Timestamp: fix.Timestamp,
		})
	}
	_, err := w.feeder.Send(ctx, w.raw, countedPartitions, records)
	return err
}

// feed sends fixes of now until a time, of other vehicles again and again: some fixes are late, and
// some lie ahead.
func (w *countedWorld) feed(ctx context.Context, until time.Time) error {
	const vehicles, further = 8, 3
	for i := 0; time.Now().Before(until); i++ {
		var records []producer.Record
		for n := i * further; n < i*further+vehicles; n++ {
			fix := schemas.Raw{
				UserID: fmt.Sprintf("vehicle-%04d", n), Timestamp: time.Now().UnixMilli(),
				Latitude:  51.39 + float64(n*37%80)/1000,
				Longitude: -.21 + float64((n+i)*53%120)/1000,
			}
			switch (n + i) % 7 {
			case 0:
				fix.Timestamp -= 1500
			case 1:
				fix.Timestamp -= 20_000
			case 2:
				fix.Timestamp += 50_000
			}
			value, err := w.codec.AppendRaw(nil, fix)
			if err != nil {
				return err
			}
			records = append(records, producer.Record{
				Key: []byte(fix.UserID), Value: value, Timestamp: fix.Timestamp,
			})
		}
		if _, err := w.feeder.Send(ctx, w.raw, countedPartitions, records); err != nil {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// closes is the time at which a window may be published.
func (w *countedWorld) closes(endMS int64) int64 {
	return endMS + w.Settings.Admission.GraceMS + w.Settings.SkewMS
}

// published is how many committed records there are, the end of the last window, and by how much
// the earliest record came too early, also for readers of uncommitted records.
func (w *countedWorld) published() (n int, endMS, earlyMS int64) {
	w.Helper()
	codec, err := schemas.NewCodec(w.Totals.WithDefaults().SanitizedEncoding)
	w.ok(err)
	for p := range int32(countedPartitions) {
		w.scan(w.Totals.Topics.Sanitized, p, true, func(rec consumer.Record) {
			r, err := codec.DecodeCounts(rec.Value)
			w.ok(err)
			earlyMS = max(earlyMS, w.closes(r.WindowEnd)-rec.Timestamp)
		})
		w.scan(w.Totals.Topics.Sanitized, p, false, func(rec consumer.Record) {
			r, err := codec.DecodeCounts(rec.Value)
			w.ok(err)
			n, endMS = n+1, max(endMS, r.WindowEnd)
		})
	}
	return n, endMS, earlyMS
}

// verified counts the raw topic again, by settings that a test may change.
func (w *countedWorld) verified(change func(*counting.Settings)) verify.CountsReport {
	w.Helper()
	s := w.Settings // a copy
	change(&s)
	report, err := verify.Counts(w.Context(), verify.CountsOptions{
		Windows: w.Windows, Totals: w.Totals, Count: service.NewCounting(s, w.Windows.Cluster),
	})
	w.ok(err)
	return report
}

// as leaves the settings as they are.
func as(*counting.Settings) {}

// TestCountedUnderFaults kills and freezes two instances of "geodither counts serve" and two
// brokers: in the first windows, those of the day so far, and while a window of the feed closes.
// One instance loses its disk.
// Every zone of each window must be published once, with the bytes that counting the raw topic
// again gives, and no window before its end, counts.grace and counts.skew. That fixes are left out
// of the recount has to be found.
func TestCountedUnderFaults(t *testing.T) {
	cluster := kafkaDir{dir: shared(t).dir} // so it is not parallel
	w, instances := newCountedWorld(t)
	for _, i := range instances {
		w.start(i)
	}
	w.eventually("a window is published", func() bool {
		n, _, _ := w.published()
		return n > 0
	})
	const least = 15 * time.Second // the freezes have ended when the window closes
	last := w.Settings.Plan.At(time.Now().Add(least).UnixMilli()).EndMS
	closes := time.UnixMilli(w.closes(last))
	b := &breaker{
		cluster: cluster, instances: instances, note: t.Logf, feeding: func() bool { return true },
		began: time.Now(), counts: map[kind]int{},
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error { return w.feed(ctx, time.UnixMilli(last).Add(5*time.Second)) })
	atClose := time.Until(closes) - 50*time.Millisecond
	group.Go(func() error {
		return b.strikeAll(ctx, []fault{
			{kind: brokerFreeze, target: 0, lasts: 5 * time.Second},
			{kind: brokerKill, target: 1, at: atClose, lasts: time.Second},
		})
	})
	group.Go(func() error {
		return b.strikeAll(ctx, []fault{
			{kind: instanceWipe, target: 0},
			{kind: instanceFreeze, target: 1, lasts: sessionTimeout + time.Second},
			{kind: instanceKill, target: 0, at: atClose},
			{kind: instanceKill, target: 1, at: atClose},
		})
	})
	w.ok(group.Wait())
	w.eventually("the windows of the feed are published", func() bool {
		time.Sleep(time.Second)
		_, end, _ := w.published()
		return end >= last && w.verified(as).Verified // each partition has its own windows
	})
	for _, i := range instances {
		w.ok(i.terminate())
		deaths, _, err := i.close()
		w.ok(err)
		if len(deaths) > 0 {
			t.Errorf("an instance exited by itself: %v", deaths)
		}
	}
	for p := range int32(countedPartitions) {
		w.settled(w.Totals.Topics.Sanitized, p)
	}
	n, _, early := w.published()
	report := w.verified(as)
	if !report.Verified || int(report.Records) != n || n == 0 || early > 0 {
		t.Errorf("%d records, %d ms early: %+v", n, early, report)
	}
	if w.verified(func(s *counting.Settings) { s.Admission.GraceMS -= 60_000 }).Verified {
		t.Error("fixes that are left out are not found")
	}
	t.Logf("%+v", report)
}

// TestCountedWrongFields: raw records whose fields have other names, under a config without a
// mapping. Few of them do not count, which metrics and the log say by reason. A topic of them stops
// the service before it commits one.
func TestCountedWrongFields(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	binary, err := built()
	h.ok(err)
	for _, c := range []struct {
		records int
		stops   bool
	}{{60, false}, {600, true}} {
		raw := h.topic(fmt.Sprint("raw", c.records), countedPartitions,
			map[string]string{"message.timestamp.type": "LogAppendTime"})
		feeder, err := producer.NewIdempotent(h.client, producer.Options{RetryTimeout: patience})
		h.ok(err)
		var records []producer.Record
		for n := range c.records {
			device := fmt.Sprintf("device-%02d", n%20)
			records = append(records, producer.Record{
				Key: []byte(device), Timestamp: time.Now().UnixMilli(),
				Value: fmt.Appendf(nil, `{"device":%q,"time":%d,"lat":51.43,"lon":-0.15}`, device,
					time.Now().UnixMilli()),
			})
		}
		_, err = feeder.Send(t.Context(), raw, countedPartitions, records)
		h.ok(err)
		dir := t.TempDir()
		h.ok(os.WriteFile(filepath.Join(dir, "noise.key"), []byte(testKey.Reveal()+"\n"), 0o600))
		i := &supervised{
			name: "counts", binary: binary, command: "counts serve",
			config: filepath.Join(dir, "counts.yml"),
		}
		h.ok(os.WriteFile(i.config, fmt.Appendf(nil, `brokers: [%s]
group: %s%d
topics: {raw: %s, counts: %s.counted, create: true, replication: 1}
encoding: {raw: json}
key_file: noise.key
state_dir: %s/state
http: {listen: "127.0.0.1:0"}
counts: {epsilon: 1, per_day: 2, zone: 4km, box: "51.40,-0.20,51.46,-0.10", window: 1h}
`, strings.Join(h.brokers, ","), h.prefix, c.records, raw, raw, dir), 0o600))
		_, err = launch(i)
		h.ok(err)
		t.Cleanup(func() { _ = i.kill() })
		said := func(words string) bool {
			text, err := os.ReadFile(i.log.Name())
			h.ok(err)
			return strings.Contains(string(text), words)
		}
		if c.stops {
			h.eventually("it stops", func() bool {
				return said(fmt.Sprintf("%d of %[1]d, missing_field: user_id %[1]d", c.records))
			})
			if n := h.committed(h.prefix+fmt.Sprint(c.records)+"-counts", raw); n > 0 {
				t.Errorf("%d records are committed", n)
			}
			continue
		}
		h.eventually("the log has a line", func() bool {
			return said(`reasons="missing_field: user_id 60"`) && said("every record is refused")
		})
		text, err := os.ReadFile(i.log.Name())
		h.ok(err)
		at := regexp.MustCompile(`listening for HTTP.* address=(\S+)`).FindSubmatch(text)
		res, err := http.Get("http://" + string(at[1]) + "/metrics")
		h.ok(err)
		metrics, err := io.ReadAll(res.Body)
		h.ok(errors.Join(err, res.Body.Close()))
		if !strings.Contains(string(metrics),
			`geodither_dead_letters_total{reason="missing_field: `+
				`user_id",stage="windows"} 60`) {
			t.Error("no counter has them")
		}
	}
}
