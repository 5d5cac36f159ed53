package service

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas/registry"
)

// TestOutages follows several callers over a clock of the test's.
func TestOutages(t *testing.T) {
	var log servicetest.Log
	now := time.Unix(1_700_000_000, 0)
	o := newOutages(log.Logger())
	o.now = func() time.Time { return now }
	cause := errors.New("dial refused")
	lines := func(level string) int { return strings.Count(log.String(), "level="+level) }

	o.succeeded("group")
	o.gone("group")
	if log.String() != "" {
		t.Errorf("without an outage the log says %s", log.String())
	}
	// Ten minutes, twenty callers, a call a second each.
	for range 600 {
		for p := range int32(20) {
			o.failed(caller(p), cause)
		}
		now = now.Add(time.Second)
	}
	if n := lines("WARN"); n < 8 || n > 14 {
		t.Errorf("%d warnings in ten minutes", n)
	}
	if !strings.Contains(log.String(), "away=9m") ||
		!strings.Contains(log.String(), "callers_waiting=20") {
		t.Errorf("no warning says how long it lasts:\n%s", log.String())
	}
	// Nineteen come back, and one is given up: another's success ends the outage.
	for p := range int32(19) {
		o.succeeded(caller(p))
	}
	o.gone(caller(19))
	if lines("INFO") != 0 {
		t.Error("Kafka is said to be back because a caller has gone")
	}
	o.succeeded("group")
	if !strings.Contains(log.String(), `msg="contact restored: Kafka is back" away=10m0s`) {
		t.Errorf("the end is missing:\n%s", log.String())
	}
	// While one still fails it is not over.
	o.failed("group", cause)
	o.failed(caller(1), cause)
	now = now.Add(3 * time.Second)
	o.succeeded("group")
	o.succeeded("group")
	if lines("INFO") != 1 {
		t.Error("Kafka is said to be back while a partition still waits")
	}
	o.succeeded(caller(1))
	if !strings.Contains(log.String(), `msg="contact restored: Kafka is back" away=3s`) ||
		lines("INFO") != 2 {
		t.Errorf("the second end is missing:\n%s", log.String())
	}
}

// TestIsAway tells brokers that are away from those that answer, and from other trouble.
func TestIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"no connection": {&wire.Error{
			Op: "fetch", Temporary: true, Err: &net.OpError{Op: "dial", Err: errors.New("refused")},
		}, true},
		"no leader": {
			&wire.Error{Op: "fetch", Temporary: true, Err: kafka.LeaderNotAvailable}, true,
		},
		"marked": {task.WithRemedy(fmt.Errorf("read: %w",
			&wire.Error{Temporary: true, Err: errors.New("EOF")}), task.Rebuild), true},
		"a pending commit": {
			&wire.Error{Op: "offsets", Temporary: true, Err: kafka.UnstableOffsetCommit}, false,
		},
		"no permission": {
			&wire.Error{Op: "fetch", Err: kafka.TopicAuthorizationFailed}, false,
		},
		"not a member": {
			&wire.Error{Op: "join", Temporary: true, Err: kafka.UnknownMemberId}, false,
		},
		"produce, no answer": {
			&producer.Error{Op: "produce", Remedy: producer.Retriable, Err: errors.New("EOF")},
			true,
		},
		"commit, no answer": {
			&producer.Error{Op: "commit", Remedy: producer.Unknown, Err: errors.New("EOF")}, true,
		},
		"another's transaction": {&producer.Error{
			Op: "init", Remedy: producer.Retriable, Err: kafka.ConcurrentTransactions,
		}, false},
		"fenced": {
			&producer.Error{Op: "commit", Remedy: producer.Fenced, Err: errors.New("fenced")},
			false,
		},
		"a file":  {task.WithRemedy(fs.ErrNotExist, task.Rebuild), false},
		"nothing": {nil, false},
	} {
		if got := isAway(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOtherTroubleIsPaced: what is no outage is logged at once and then less and less
// often, and at once again after it was over.
func TestOtherTroubleIsPaced(t *testing.T) {
	var log servicetest.Log
	o := &observer{
		log: log.Logger(), outages: newOutages(log.Logger()), caller: caller(0),
		board: monitor.NewBoard().Begin(0),
	}
	for range 100 {
		o.Retried(fs.ErrNotExist, time.Second)
	}
	o.Fetched(task.Batch{}, 0)
	o.Retried(fs.ErrNotExist, time.Second)
	if n := strings.Count(log.String(), `level=WARN msg="waiting to try again"`); n != 2 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}

// TestRegistryTroubleIsCounted: what waits for the schema registry has an event and a number of its
// own.
func TestRegistryTroubleIsCounted(t *testing.T) {
	client, err := registry.New(registry.Options{URL: "http://127.0.0.1:1"})
	servicetest.OK(t, err)
	_, away := client.Tree(t.Context(), []byte{0, 0, 0, 0, 99}, nil)
	var log servicetest.Log
	o := &observer{
		log: log.Logger(), outages: newOutages(log.Logger()), caller: caller(0),
		board: monitor.NewBoard().Begin(0), counters: new(engine.Counters),
	}
	for range 3 {
		o.Retried(task.WithRemedy(away, task.Rebuild), time.Second)
	}
	waits := o.counters.Snapshot().RegistryWaits
	warning := `level=WARN msg="records wait for the schema registry"`
	if n := strings.Count(log.String(), warning); n != 1 || waits != 3 {
		t.Errorf("%d waits, %d warnings:\n%s", waits, n, log.String())
	}
}

// TestAcceptedLossIsNotTrouble: the looks before a loss is accepted are no warnings.
func TestAcceptedLossIsNotTrouble(t *testing.T) {
	for accept, want := range map[bool]int{false: 1, true: 0} {
		var log servicetest.Log
		o := &observer{
			log: log.Logger(), outages: newOutages(log.Logger()), caller: caller(0),
			acceptLost: accept,
			board:      monitor.NewBoard().Begin(0),
		}
		o.Retried(task.ErrLost, time.Second)
		if n := strings.Count(log.String(), "level=WARN"); n != want {
			t.Errorf("accepting %t: %d warnings", accept, n)
		}
	}
}
