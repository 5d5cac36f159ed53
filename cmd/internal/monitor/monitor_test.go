package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/mapping"
)

// clock is a time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time       { return c.at }
func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

// newTestBoard is a board at a time that the test sets, on which Kafka is away as the test says.
func newTestBoard() (b *Board, at *clock, away *time.Duration) {
	at, away = &clock{time.UnixMilli(1_700_000_000_000)}, new(time.Duration)
	b = newBoard(at.now)
	b.Watch(Watch{
		Away:      func() time.Duration { return *away },
		Unwritten: func() map[string]Unwritten { return nil },
		Store: func() Store {
			return Store{
				Bytes: 4096, Users: 7, CountedAt: time.Unix(1_700_000_000, 0).UTC(),
				CacheHits: 5, CacheMisses: 3,
			}
		},
		Models: func() []Model {
			return []Model{{ID: "m"}, {ID: "m2", From: time.Unix(1_700_000_000, 0).UTC()}}
		},
	})
	return b, at, away
}

// source is one with settings of the test's.
func source(b *Board) Source {
	return Source{
		Build: Build{Version: "v1", Revision: "abc", Go: "go1"},
		Settings: Settings{
			Fingerprint: "00ff", Mechanism: "codebook", Epsilon: 2, ModelID: "m",
			Rules: []string{"", "tombstone", "speed > 1", "speed > 1"},
		},
		Service: Service{Group: "fleet", Input: "raw", Output: "out"},
		Board:   b, Counters: new(engine.Counters),
		Certificates: func() map[string]time.Time {
			return map[string]time.Time{"client": time.Unix(2_000_000_000, 0)}
		},
	}
}

// get asks a handler, and returns the status and the body.
func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// TestReady follows an instance through its life: it is ready where every assigned partition runs,
// or none is assigned, and otherwise says in which phase it is.
func TestReady(t *testing.T) {
	b, _, away := newTestBoard()
	h := handler(Options{Stall: time.Minute}, source(b))
	var parts []*Partition
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"it starts", func() {}, `{"ready":false,"phase":"starting"}`},
		{"it joins", b.Joining, `{"ready":false,"phase":"joining"}`},
		{"a spare", func() { b.Assigned(1, nil) }, `{"ready":true,"phase":"running"}`},
		{
			"two partitions", func() { b.Assigned(2, []int32{3, 1}) },
			`{"ready":false,"phase":"joining","partitions":{"1":{"phase":"joining"},` +
				`"3":{"phase":"joining"}}}`,
		},
		{
			"tasks begin", func() { parts = []*Partition{b.Begin(1), b.Begin(3)} },
			`{"ready":false,"phase":"fencing","partitions":{"1":{"phase":"fencing"},` +
				`"3":{"phase":"fencing"}}}`,
		},
		{
			"one runs, one restores", func() {
				parts[0].Move(Running)
				parts[1].Move(Restoring)
				parts[1].Restoring(100_000, 220_000, 500_000)
			},
			`{"ready":false,"phase":"restoring","partitions":{"1":{"phase":"running"},` +
				`"3":{"phase":"restoring","records":120000,"of":400000}}}`,
		},
		{
			"both run", func() { parts[1].Move(Running) },
			`{"ready":true,"phase":"running","partitions":{"1":{"phase":"running"},` +
				`"3":{"phase":"running"}}}`,
		},
		{
			"Kafka is away", func() { *away = 12 * time.Second },
			`{"ready":false,"phase":"running","kafka_away_seconds":12,"partitions":` +
				`{"1":{"phase":"running"},"3":{"phase":"running"}}}`,
		},
		{
			"one is lost", func() { *away = 0; parts[0].End(); b.Lost() },
			`{"ready":false,"phase":"joining","partitions":{"1":{"phase":"joining"},` +
				`"3":{"phase":"running"}}}`,
		},
		{
			"the group shares out again", func() { b.Joining(); parts[1].Move(Running) },
			`{"ready":false,"phase":"joining","partitions":{"1":{"phase":"joining"},` +
				`"3":{"phase":"joining"}}}`,
		},
		{
			"another generation", func() {
				parts[1].End()
				b.Assigned(3, []int32{3})
				b.Begin(3).Move(Running)
			},
			`{"ready":true,"phase":"running","partitions":{"3":{"phase":"running"}}}`,
		},
		{
			"it is asked to stop", b.Draining,
			`{"ready":false,"phase":"draining","partitions":{"3":{"phase":"running"}}}`,
		},
		{
			"the generation ends", b.Joining,
			`{"ready":false,"phase":"draining","partitions":{"3":{"phase":"joining"}}}`,
		},
		{
			"it fails", b.Failed,
			`{"ready":false,"phase":"failed","partitions":{"3":{"phase":"joining"}}}`,
		},
		{
			"a signal after that", b.Draining,
			`{"ready":false,"phase":"failed","partitions":{"3":{"phase":"joining"}}}`,
		},
	} {
		step.do()
		code, body := get(t, h, "/ready")
		want := http.StatusServiceUnavailable
		if strings.Contains(step.want, "true") {
			want = http.StatusOK
		}
		if code != want || strings.TrimSpace(body) != step.want {
			t.Errorf("%s: %d %s\nwant %d %s", step.name, code, body, want, step.want)
		}
	}
}

// TestUnwritten: an instance that cannot write a topic is not ready and says why, and so is one of
// which the second stage cannot. It is alive.
func TestUnwritten(t *testing.T) {
	b, _, _ := newTestBoard()
	next, _, _ := newTestBoard()
	var own, other map[string]Unwritten
	for board, unwritten := range map[*Board]*map[string]Unwritten{b: &own, next: &other} {
		w := board.watch
		w.Unwritten = func() map[string]Unwritten { return *unwritten }
		board.Watch(w)
		board.Assigned(1, nil)
	}
	s, second := source(b), source(next)
	s.Stage, second.Stage, s.Next = "windows", "totals", &second
	h := handler(Options{Stall: time.Minute}, s)
	gone := map[string]Unwritten{"out": {Seconds: 12, Cause: "it is gone"}}
	const why = `"out":{"seconds":12,"cause":"it is gone"}`
	for _, c := range []struct{ own, other map[string]Unwritten }{
		{nil, nil}, {gone, nil}, {nil, gone}, {gone, map[string]Unwritten{"log": {Seconds: 3}}},
	} {
		own, other = c.own, c.other
		code, body := get(t, h, "/ready")
		failing := c.own != nil || c.other != nil
		if (code == http.StatusServiceUnavailable) != failing ||
			failing && !strings.Contains(body, why) ||
			len(c.other) > 0 && c.own != nil && !strings.Contains(body, `"log":{"seconds":3`) {
			t.Errorf("%v, %v: %d %s", c.own, c.other, code, body)
		}
		if code, body := get(t, h, "/live"); code != http.StatusOK {
			t.Errorf("it is not alive: %s", body)
		}
	}
	if _, body := get(t, h, "/metrics"); !strings.Contains(body,
		`geodither_unwritten_seconds{stage="windows"} 12`+"\n") {
		t.Error("no metric says it")
	}
}

// TestLag: the lag is to the log's end from what is committed, or from what was read where nothing
// is held, so that markers at the end are none. What waits behind an open transaction has a number
// of its own, and a time.
func TestLag(t *testing.T) {
	b, at, _ := newTestBoard()
	b.Assigned(1, []int32{0})
	p := b.Begin(0)
	p.Move(Running)
	want := func(what string, lag, open int64, seconds float64) {
		t.Helper()
		s := b.status().Partitions["0"]
		if *s.LagRecords != lag || s.OpenRecords != open || s.OpenSeconds != seconds {
			t.Errorf("%s: %d records, %d for %v s, want %d, %d for %v", what, *s.LagRecords,
				s.OpenRecords, s.OpenSeconds, lag, open, seconds)
		}
	}
	p.Fetched(4, 10, 10, 10)
	want("six records are in hand", 6, 0, 0)
	p.Committed(6, 10, 0)
	want("they are committed", 0, 0, 0)
	p.Fetched(10, 10, 10, 15)
	want("a transaction begins", 5, 5, 0)
	at.pass(time.Minute)
	p.Fetched(10, 10, 10, 18)
	want("it goes on", 8, 8, 60)
	p.Fetched(10, 14, 14, 18)
	want("another one is behind it", 8, 4, 0)
	p.Committed(3, 14, 0)
	at.pass(time.Second)
	p.Fetched(14, 18, 18, 18)
	p.Ended(25)
	want("the task waits, and the log grows", 11, 0, 0)
	p.Fetched(25, 25, 25, 25)
	want("all is done, up to a marker", 0, 0, 0)
}

// TestLive: a loop that makes no step for too long is named, in whatever phase but starting and
// restoring; and whatever counts as a step ends that.
func TestLive(t *testing.T) {
	const stall = time.Minute
	b, at, _ := newTestBoard()
	h := handler(Options{Stall: stall}, source(b))
	want := func(what, stalled string) {
		t.Helper()
		code, body := get(t, h, "/live")
		status, text := http.StatusOK, `{"live":true}`
		if stalled != "" {
			status = http.StatusServiceUnavailable
			text = `{"live":false,"stalled_seconds":{` + stalled + `}}`
		}
		if code != status || strings.TrimSpace(body) != text {
			t.Errorf("%s: %d %s, want %s", what, code, body, text)
		}
	}
	at.pass(time.Hour)
	want("it waits for its topics", "")
	b.Joining()
	at.pass(stall)
	want("within the limit", "")
	at.pass(time.Second)
	want("the member is stuck", `"group":61`)
	b.GroupRequested(wire.Outcome{Err: io.EOF})
	want("it has asked in vain", "")
	b.Assigned(1, []int32{4})
	p := b.Begin(4)
	for name, step := range map[string]func(){
		"a step": p.Step, "a request": func() { p.Requested(wire.Outcome{}) },
		"a phase": func() { p.Move(Running) }, "a fetch": func() { p.Fetched(1, 1, 1, 1) },
		"a record": func() { p.Processed(1) }, "a transaction": func() { p.Committed(1, 1, 0) },
		"a part of a restoration": func() { p.Restoring(1, 2, 3) },
	} {
		at.pass(2 * stall)
		b.GroupRequested(wire.Outcome{})
		want("no "+name, `"partition 4":120`)
		step()
		want(name, "")
	}
	p.Move(Restoring)
	at.pass(time.Hour)
	b.GroupRequested(wire.Outcome{})
	want("a long restoration", "")
	b.Joining()
	want("a long restoration of a generation that is over", "")
	p.Move(Running)
	at.pass(time.Hour)
	b.GroupRequested(wire.Outcome{})
	want("a task that does not end when its generation has", `"partition 4":3600`)
	p.End()
	want("it has ended", "")
	b.Draining()
	at.pass(2 * stall)
	want("it does not end", `"group":120`)
}

// TestRequests: a request's time, failure, refusals and throttling are counted, and one that its
// caller gave up is no failure.
func TestRequests(t *testing.T) {
	b, _, _ := newTestBoard()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, o := range []wire.Outcome{
		{API: protocol.Fetch, Took: 20 * time.Millisecond, Held: 1500 * time.Millisecond},
		{API: protocol.Fetch, Codes: []kafka.Error{kafka.NotLeaderForPartition, 9999}},
		{API: protocol.Fetch, Err: context.Canceled},
		{API: protocol.Produce, Err: dial},
		{API: protocol.Produce, Err: &wire.LinkError{Err: io.EOF}},
		{API: protocol.Produce, Err: os.ErrDeadlineExceeded},
		{API: protocol.Produce, Err: io.ErrUnexpectedEOF},
		{API: protocol.ApiKey(68)},
	} {
		b.Requested(o)
	}
	_, body := get(t, handler(Options{}, source(b)), "/metrics")
	for _, line := range []string{
		`geodither_kafka_request_seconds_count{api="Fetch"} 3`,
		`geodither_kafka_request_seconds_bucket{api="Fetch",le="0.01"} 2`,
		`geodither_kafka_request_seconds_count{api="68"} 1`,
		`geodither_kafka_request_seconds_count{api="Heartbeat"} 0`,
		`geodither_kafka_throttle_seconds_total{api="Fetch"} 1.5`,
		`geodither_kafka_throttle_seconds_total{api="Produce"} 0`,
		`geodither_kafka_errors_total{api="Fetch",error="not_leader_for_partition"} 1`,
		`geodither_kafka_errors_total{api="Fetch",error="code_9999"} 1`,
		`geodither_kafka_errors_total{api="Fetch",error="connection"} 0`,
		`geodither_kafka_errors_total{api="Produce",error="unreachable"} 1`,
		`geodither_kafka_errors_total{api="Produce",error="tls_or_login"} 1`,
		`geodither_kafka_errors_total{api="Produce",error="timeout"} 1`,
		`geodither_kafka_errors_total{api="Produce",error="connection"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("there is no %s in\n%s", line, body)
		}
	}
}

// TestOptions: each wrong setting has an error that names its key and says what to write.
func TestOptions(t *testing.T) {
	const session = 10 * time.Second
	if Stall(session) != time.Minute || Stall(time.Minute) != 3*time.Minute {
		t.Error("the default limit is another one")
	}
	for _, c := range []struct {
		o     Options
		words []string
	}{
		{Options{}, nil},
		{Options{Listen: ":8080", Pprof: "localhost:6060"}, nil},
		{Options{Listen: "[::1]:0", Pprof: "[::1]:6060"}, nil},
		{Options{Listen: "10.0.0.1:http", Pprof: "127.9.9.9:1"}, nil},
		{Options{Listen: "8080"}, []string{"listen: write HOST:PORT", "8080"}},
		{Options{Listen: "http://host:8080"}, []string{"listen: write HOST:PORT"}},
		{Options{Listen: ":metrics"}, []string{"listen: write HOST:PORT", "metrics"}},
		{Options{Listen: ":70000"}, []string{"listen: write HOST:PORT", "70000"}},
		{Options{Pprof: ":6060"}, []string{"pprof: :6060", "write localhost:PORT"}},
		{Options{Pprof: "0.0.0.0:6060"}, []string{"pprof: 0.0.0.0:6060", "other machines"}},
		{Options{Pprof: "truck-1:6060"}, []string{"pprof: truck-1:6060", "other machines"}},
		{Options{Pprof: "localhost"}, []string{"pprof: write HOST:PORT"}},
		{Options{Listen: "x", Pprof: "y"}, []string{"listen: ", "pprof: "}},
	} {
		err := c.o.Validate()
		if (err != nil) != (c.words != nil) {
			t.Errorf("%+v: %v", c.o, err)
		}
		for _, word := range c.words {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%+v: %v does not say %q", c.o, err, word)
			}
		}
	}
}

// TestOpen: the listeners answer until they are closed, each its own paths, and one that cannot be
// opened says why.
func TestOpen(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	b, _, _ := newTestBoard()
	fetch := func(url string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	o := Options{Listen: "127.0.0.1:0", Pprof: "localhost:0", Stall: time.Minute}
	s, err := Open(o, source(b), log)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]int{
		s.Addr + "/live": 200, s.Addr + "/ready": 503, s.Addr + "/metrics": 200,
		s.Addr + "/": 404, s.Addr + "/debug/pprof/": 404, s.Pprof + "/debug/pprof/": 200,
		s.Pprof + "/debug/pprof/goroutine": 200, s.Pprof + "/metrics": 404,
	} {
		if code, body := fetch("http://" + url); code != want {
			t.Errorf("%s: %d, want %d: %s", url, code, want, body)
		}
	}
	again := Options{Pprof: "localhost:0", Listen: s.Addr}
	if _, err := Open(again, source(b), log); err == nil ||
		!strings.Contains(err.Error(), "listen: "+s.Addr+" is in use by another process") {
		t.Errorf("a port that is in use: %v", err)
	}
	away := Options{Listen: "203.0.113.1:0"} // TEST-NET-3: of no machine
	if _, err := Open(away, source(b), log); err == nil ||
		!strings.Contains(err.Error(), "listen: cannot listen at 203.0.113.1:0 (") {
		t.Errorf("an address of another machine: %v", err)
	}
	s.Close()
	if code, _ := fetch("http://" + s.Addr + "/live"); code != 0 {
		t.Error("it answers after it was closed")
	}
	nowhere, err := Open(Options{}, source(b), log)
	if err != nil || nowhere.Addr != "" || nowhere.Pprof != "" {
		t.Errorf("it listens without being asked: %+v, %v", nowhere, err)
	}
	nowhere.Close()
}

// TestStatus: the answer is the same to the letter for the same board, so that its reader can
// rely on its names.
func TestStatus(t *testing.T) {
	b, at, _ := newTestBoard()
	s := source(b)
	h := handler(Options{}, s)
	check := func(name string) {
		t.Helper()
		code, body := get(t, h, "/status")
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, []byte(body), "", "  "); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, pretty.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if code != http.StatusOK || pretty.String() != string(want) {
			t.Errorf("%d, not %s (-update writes it):\n%s", code, name, &pretty)
		}
	}
	check("starting.json")
	at.pass(time.Minute)
	b.Joining()
	b.Assigned(5, []int32{2, 0})
	running, restoring := b.Begin(0), b.Begin(2)
	running.Move(Running)
	running.Processed(at.now().Add(-3 * time.Second).UnixMilli())
	running.Fetched(70, 90, 98, 100)
	running.Committed(10, 80, time.Second)
	restoring.Move(Restoring)
	restoring.Restoring(1000, 1250, 2000)
	running.Due(at.now().Add(-30 * time.Second).UnixMilli())
	restoring.Due(at.now().Add(-90 * time.Second).UnixMilli())
	b.Lost()
	var refused engine.Refusals
	refused.Add(schemas.ReasonLate, nil)
	s.Counters.Book(engine.Tally{
		RecordsIn: 10, RecordsOut: 9, Releases: 9, DeadLetters: 1, Transactions: 1, Epsilon: 18,
		Refusals: refused, RecordsSkipped: 7,
		SkippedByRule: [mapping.MaxRules + 1]int64{1: 1, 2: 2, 3: 4},
	})
	_, metrics := get(t, h, "/metrics")
	for _, line := range []string{
		`geodither_records_skipped_total{rule="speed > 1"} 6`,
		`geodither_records_skipped_total{rule="tombstone"} 1`,
		`geodither_dead_letters_total{reason="late"} 1`,
		`geodither_lag_seconds{partition="0"} 3`,
		`geodither_restore_records_remaining{partition="2"} 750`,
		`geodither_window_overdue_seconds 90`,
		`geodither_tls_certificate_expiry_timestamp_seconds{certificate="client"} 2e+09`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("there is no %s in\n%s", line, metrics)
		}
	}
	check("working.json")
}

// TestMetricsAreExplained: deploy/ONCALL.md names each metric with its labels, and no other.
func TestMetricsAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/ONCALL.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	name := regexp.MustCompile("`(geodither_[a-z_]+(\\{[a-z,]+\\})?)`")
	for _, row := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(row, "| `geodither_") {
			continue
		}
		names, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		for _, found := range name.FindAllStringSubmatch(names, -1) {
			explained[found[1]] = true
		}
	}
	b, _, _ := newTestBoard()
	b.Assigned(1, []int32{0})
	p := b.Begin(0)
	p.Move(Running)
	p.Fetched(1, 1, 1, 1)
	registry := newRegistry(source(b))
	shown, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range shown {
		name := family.GetName()
		if !strings.HasPrefix(name, namespace) {
			continue
		}
		if !strings.HasSuffix(name, "_info") { // the table lists their labels in words
			var labels []string
			for _, l := range family.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			if labels != nil {
				name += "{" + strings.Join(labels, ",") + "}"
			}
		}
		if !explained[name] {
			t.Errorf("deploy/ONCALL.md does not explain %s", name)
		}
		delete(explained, name)
	}
	for name := range explained {
		t.Errorf("deploy/ONCALL.md explains %s, which is not there", name)
	}
}

// TestOnCallPage: deploy/ONCALL.md says of each alert and of each phase what to do, and names no
// alert that is not there.
func TestOnCallPage(t *testing.T) {
	page, err := os.ReadFile("../../../deploy/ONCALL.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../../../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	alert := regexp.MustCompile(`\bGeodither[A-Z][A-Za-z]+`)
	there := map[string]bool{}
	for _, name := range alert.FindAllString(string(rules), -1) {
		there[name] = true
		if !strings.Contains(string(page), name) {
			t.Errorf("deploy/ONCALL.md does not say what to do about %s", name)
		}
	}
	if len(there) < 10 {
		t.Errorf("only %d alerts were found", len(there))
	}
	for _, name := range alert.FindAllString(string(page), -1) {
		if !there[name] {
			t.Errorf("deploy/ONCALL.md names %s, which is not there", name)
		}
	}
	for _, phase := range append(slices.Clone(partitionPhases), Starting, Draining, Failed) {
		if !strings.Contains(string(page), "\n| `"+string(phase)+"` |") {
			t.Errorf("deploy/ONCALL.md does not explain the phase %s", phase)
		}
	}
}

// update writes what the tests compare with.
var update = flag.Bool("update", false, "write the expected answers")
