package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// asked is a running service that answers over HTTP.
type asked struct {
	*servicetest.Running
	counters *engine.Counters
	addr     string
}

// ask runs a service that answers, with a log that may stop it on the way.
func ask(t *testing.T, o service.Options, stall time.Duration, stop *stops,
	change ...func(*service.Service),
) *asked {
	t.Helper()
	log := new(servicetest.Log)
	o.Logger = slog.New(stop.over(log.Logger().Handler()))
	o.Board, o.Counters = monitor.NewBoard(), new(engine.Counters)
	s, err := service.New(o)
	servicetest.OK(t, err)
	for _, c := range change {
		c(s)
	}
	addr := listen(t, o, stall)
	return &asked{servicetest.Run(t, log, s.Run), o.Counters, addr}
}

// listen answers for a service, and returns the address.
func listen(t *testing.T, o service.Options, stall time.Duration) (addr string) {
	t.Helper()
	server, err := monitor.Open(monitor.Options{Listen: "127.0.0.1:0", Stall: stall},
		monitor.Source{
			Settings: monitor.NewSettings(o.Settings), Service: monitor.NewService(o.Cluster, ""),
			Board: o.Board, Counters: o.Counters, Certificates: o.Connection.Certificates,
		}, o.Logger)
	servicetest.OK(t, err)
	t.Cleanup(server.Close)
	return server.Addr
}

// get asks for a path at an address, and returns the status and the body.
func get(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	servicetest.OK(t, err)
	res, err := http.DefaultClient.Do(req)
	servicetest.OK(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	servicetest.OK(t, err)
	return res.StatusCode, string(body)
}

// get asks for a path, and returns the status and the body.
func (a *asked) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return get(t, a.addr, path)
}

// until waits for an answer.
func (a *asked) until(t *testing.T, path string, status int, words ...string) {
	t.Helper()
	servicetest.Await(t, fmt.Sprintf("%s answers %d %q", path, status, words), func() bool {
		code, body := a.get(t, path)
		for _, word := range words {
			if !strings.Contains(body, word) {
				return false
			}
		}
		return code == status
	}, a)
}

// ready asks for /ready.
func (a *asked) ready(t *testing.T) (status int, r monitor.Readiness) {
	t.Helper()
	status, body := a.get(t, "/ready")
	servicetest.OK(t, json.Unmarshal([]byte(body), &r))
	return status, r
}

// value returns a value of /metrics, by its name and labels.
func (a *asked) value(t *testing.T, series string) (v float64) {
	t.Helper()
	_, body := a.get(t, "/metrics")
	_, after, found := strings.Cut(body, "\n"+series+" ")
	if _, err := fmt.Sscan(after, &v); !found || err != nil {
		t.Fatalf("there is no %s: %v\n%s", series, err, body)
	}
	return v
}

// stops is a log that nobody reads: the writer of a certain line hangs, until the log is read.
type stops struct {
	slog.Handler
	line func(slog.Record) bool
	read chan struct{}
	once sync.Once
}

// moved stops tasks that move to a state, once they may.
func moved(to string) *stops {
	return &stops{
		read: make(chan struct{}),
		line: func(r slog.Record) (found bool) {
			r.Attrs(func(a slog.Attr) bool {
				found = a.Key == "to" && a.Value.String() == to
				return !found
			})
			return found && r.Message == "task moved"
		},
	}
}

// over makes it pass lines on to another handler.
func (s *stops) over(h slog.Handler) slog.Handler {
	if s == nil {
		return h
	}
	return &stops{line: s.line, read: s.read, Handler: h}
}

// Handle implements slog.Handler.
func (s *stops) Handle(ctx context.Context, r slog.Record) error {
	if s.line(r) {
		<-s.read
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s *stops) WithAttrs(attrs []slog.Attr) slog.Handler {
	return s.over(s.Handler.WithAttrs(attrs))
}

// release reads the log from now on.
func (s *stops) release() { s.once.Do(func() { close(s.read) }) }

// TestReadyWhileItRestores: a service whose partitions restore is alive and not ready, and ready
// when they run. What /metrics shows then is what the counters have.
func TestReadyWhileItRestores(t *testing.T) {
	w := atwork.Served(t, 6, 30)
	o := atwork.Options(w, "first")
	o.StateDir += "-lost"
	stop := moved("restoring")
	t.Cleanup(stop.release)
	a := ask(t, o, time.Nanosecond, stop)
	a.until(t, "/ready", http.StatusServiceUnavailable, `"phase":"restoring"`)
	servicetest.Await(t, "all partitions restore", func() bool {
		return a.value(t, `geodither_partitions{phase="restoring"}`) == servicetest.Partitions
	}, a)
	if v := a.value(t, "geodither_ready"); v != 0 {
		t.Errorf("ready is %v", v)
	}
	// Whatever the limit is, no partition that restores is stalled.
	if _, body := a.get(t, "/live"); strings.Contains(body, "partition") {
		t.Errorf("a restoration is a stall: %s", body)
	}
	stop.release()
	a.until(t, "/ready", http.StatusOK, `{"ready":true,"phase":"running"`)
	w.Feed(t)
	servicetest.Await(t, "it has answered", func() bool {
		return a.counters.Snapshot().RecordsIn >= int64(len(w.Cells))+2
	}, a)
	now := a.counters.Snapshot()
	for series, want := range map[string]float64{
		"geodither_records_read_total":                              float64(now.RecordsIn),
		`geodither_records_written_total{kind="released"}`:          float64(now.Releases),
		`geodither_records_written_total{kind="repeated"}`:          float64(now.Repeats),
		`geodither_dead_letters_total{reason="malformed"}`:          float64(now.DeadLetters),
		`geodither_dead_letters_total{reason="null_island"}`:        0,
		"geodither_epsilon_spent_total":                             now.Epsilon,
		`geodither_transactions_total{result="aborted"}`:            0,
		`geodither_partitions{phase="running"}`:                     servicetest.Partitions,
		"geodither_rebalances_total":                                1,
		"geodither_fenced_total":                                    0,
		"geodither_epsilon_per_release":                             o.Release.Epsilon,
		"geodither_restored_records_total":                          float64(now.Restored),
		`geodither_restore_records_remaining{partition="0"}`:        0,
		`geodither_kafka_errors_total{api="Fetch",error="timeout"}`: 0,
	} {
		if v := a.value(t, series); v != want {
			t.Errorf("%s is %v, want %v", series, v, want)
		}
	}
	a.until(t, "/ready", http.StatusOK) // else there is no lag to speak of
	servicetest.Await(t, "nothing is left to read", func() bool {
		for p := range servicetest.Partitions {
			if a.value(t, fmt.Sprintf(`geodither_lag_records{partition="%d"}`, p)) != 0 {
				return false
			}
		}
		return true
	}, a)
	servicetest.Await(t, "the users are counted", func() bool {
		return a.value(t, "geodither_state_users") == float64(len(w.Cells))
	}, a)
	a.until(t, "/status", http.StatusOK, `"counted_at":`)
	if v := a.value(t, `geodither_lag_seconds{partition="0"}`); v != 0 {
		t.Errorf("a lag of %v s without one in records", v)
	}
	if v := a.value(t, "geodither_last_commit_timestamp_seconds"); v < 1.7e9 {
		t.Errorf("the last commit was at %v", v)
	}
	for _, series := range []string{
		`geodither_kafka_request_seconds_count{api="Fetch"}`,
		`geodither_kafka_request_seconds_count{api="Heartbeat"}`,
		`geodither_kafka_request_seconds_count{api="EndTxn"}`,
		"geodither_transaction_seconds_count", "geodither_transaction_records_sum",
		"geodither_state_bytes", "go_goroutines", "process_cpu_seconds_total",
	} {
		if v := a.value(t, series); v <= 0 {
			t.Errorf("%s is %v", series, v)
		}
	}
	for _, reason := range schemas.Reasons() {
		a.value(t, fmt.Sprintf(`geodither_dead_letters_total{reason="%s"}`, reason))
	}
	a.Stop(t)
}

// TestLiveWhileKafkaIsAway: a service whose brokers are away is not ready, and says for how long;
// but it goes on asking, so it is alive.
func TestLiveWhileKafkaIsAway(t *testing.T) {
	const stall = time.Second
	w := servicetest.NewWorld(t, 5)
	w.Feed(t)
	o := atwork.Options(w, "away")
	var network servicetest.Network
	a := ask(t, o, stall, nil, func(s *service.Service) { s.SetClient(network.Client(w.Addr)) })
	a.until(t, "/ready", http.StatusOK)
	network.Cut()
	// Without a step in all that time it would be stalled for good.
	servicetest.Await(t, "Kafka is away", func() bool {
		status, r := a.ready(t)
		return status == http.StatusServiceUnavailable && !r.Ready &&
			r.KafkaAwaySeconds > 3*stall.Seconds()
	}, a)
	a.until(t, "/live", http.StatusOK)
	if v := a.value(t, `geodither_kafka_errors_total{api="Metadata",error="unreachable"}`); v == 0 {
		t.Error("no failure is counted")
	}
	network.Mend()
	a.until(t, "/ready", http.StatusOK)
	if v := a.value(t, "geodither_kafka_away_seconds"); v != 0 {
		t.Errorf("Kafka is away for %v s, and is back", v)
	}
	for _, line := range []string{
		`level=WARN msg="calls to Kafka fail:`,
		`level=INFO msg="contact restored: Kafka is back" away=`,
	} {
		if n := strings.Count(a.Log.String(), line); n != 1 {
			t.Errorf("the log says %d times %s:\n%s", n, line, a.Log)
		}
	}
	a.Stop(t)
	if _, r := a.ready(t); r.Phase != monitor.Draining {
		t.Errorf("after it was asked to stop it is %s", r.Phase)
	}
}

// TestNotLiveWhenItHangs: a task that hangs, here since nobody reads its log, makes /live fail,
// though the group's heartbeats go on.
func TestNotLiveWhenItHangs(t *testing.T) {
	w := servicetest.NewWorld(t, 5)
	o := atwork.Options(w, "hangs")
	stop := moved("committing")
	t.Cleanup(stop.release)
	a := ask(t, o, 2*time.Second, stop)
	a.until(t, "/ready", http.StatusOK)
	a.until(t, "/live", http.StatusOK)
	w.Feed(t)
	a.until(t, "/live", http.StatusServiceUnavailable,
		`{"live":false,"stalled_seconds":{"partition`)
	stop.release()
	a.until(t, "/live", http.StatusOK)
	a.Stop(t)
}

// TestFailedIsNotReady: a service that ends with an error shows it.
func TestFailedIsNotReady(t *testing.T) {
	w := servicetest.NewWorld(t, 3)
	o := atwork.Options(w, "fails")
	servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{},
		admin.Topic{Name: o.Topics.Changelog, Partitions: servicetest.Partitions})) // not compacted
	a := ask(t, o, time.Minute, nil)
	var config *admin.ConfigError
	if err := a.Wait(t); !errors.As(err, &config) ||
		!strings.Contains(err.Error(), "needs compact") {
		t.Fatalf("it ends with %v", err)
	}
	if status, r := a.ready(t); status != http.StatusServiceUnavailable ||
		r.Phase != monitor.Failed {
		t.Errorf("%d, %+v", status, r)
	}
}
