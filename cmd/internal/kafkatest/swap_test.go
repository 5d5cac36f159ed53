//go:build kafka

package kafkatest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism/mobility"
)

// TestASwapUnderAKill puts two new versions of the model up under two instances, the first
// with a start that is to come and the second, when one of them has just been killed, with
// one that is past. Everything is answered once, with the version that the changelog has for
// its offset.
func TestASwapUnderAKill(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(3, 30)
	o := w.options("service")
	o.SessionTimeout, o.TransactionTimeout = 3*time.Second, 6*time.Second
	schedule := filepath.Join(w.dir, "schedule.yml")
	listed := "- model: model.avro\n"
	w.models = "models: schedule.yml"
	put := func(name string, model *mobility.Model, step int64) {
		path, start := filepath.Join(w.dir, name), time.UnixMilli(startMS+step*60_000).UTC()
		w.ok(model.WriteFile(path))
		v, _, err := engine.NewVersion(start, path, func() (*engine.Material, error) {
			return &engine.Material{Model: model}, nil
		})
		w.ok(err)
		o.Later = append(o.Later, v)
		listed += fmt.Sprintf("- {model: %s, start: %s}\n", name, start.Format(time.RFC3339))
		w.ok(os.WriteFile(schedule+".new", []byte(listed), 0o600))
		w.ok(os.Rename(schedule+".new", schedule))
	}
	adopted := func(n int) func() bool {
		return func() bool {
			w.feed(1)
			for p := range int32(w.partitions) {
				if len(w.lastMark(o, p).Amendments) < n {
					return false
				}
			}
			return true
		}
	}
	w.ok(os.WriteFile(schedule, []byte(listed), 0o600))
	w.createRaw()
	w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
	first, second := w.spawn(o, "first"), w.spawn(o, "second")
	w.eventually("both have joined", func() bool {
		return strings.Contains(first.log.String(), "state restored") &&
			strings.Contains(second.log.String(), "state restored")
	})
	w.feed(5)
	w.eventually("all have begun", func() bool {
		for p := range int32(w.partitions) {
			if w.lastMark(o, p).Input == 0 {
				return false
			}
		}
		return true
	})
	put("second.avro", newModel(t, 9), w.step+20)
	w.eventually("all have adopted the second version", adopted(1))
	w.feed(int(max(0, o.Later[0].ID.StartMS/60_000-startMS/60_000-w.step)) + 5) // past its start
	first.signal(syscall.SIGKILL)
	put("third.avro", newModel(t, 3), w.step-2)
	w.feed(5)
	w.eventually("all have adopted the third version", adopted(2))
	again := w.spawn(o, "first")
	w.feed(10)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	again.terminate()
	second.terminate()
	w.exactlyOnce(o)
	for p := range int32(w.partitions) {
		if list := w.lastMark(o, p).Amendments; len(list) != 2 || list[0].From == 0 {
			t.Errorf("partition %d has adopted %+v", p, list)
		}
	}
}
