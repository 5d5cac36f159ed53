//go:build kafka

package kafkatest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
)

var assignment = regexp.MustCompile(
	`msg="partitions assigned" generation=(\d+) partitions=("[^"]*"|\S+)`)

// assigned are the generation and the partitions of the last assignment that a
// log names.
func (c captured) assigned() (generation, partitions string) {
	all := assignment.FindAllStringSubmatch(c.String(), -1)
	if len(all) == 0 {
		return "", ""
	}
	last := all[len(all)-1]
	return last[1], last[2]
}

// instance are the options of one of several instances of a service.
func instance(o service.Options, name, instanceID string) service.Options {
	o.StateDir, o.InstanceID, o.Counters = filepath.Join(o.StateDir, name), instanceID,
		new(engine.Counters)
	return o
}

// TestARollingRestart stops and starts three static members in turn. The group
// stays in its generation, each gets the partitions that it had, and finds their
// states on its disk.
func TestARollingRestart(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(6, 30)
	o := w.options("service")
	o.SessionTimeout = 20 * time.Second
	w.createRaw()
	w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
	var options [3]service.Options
	var services [3]*running
	for i := range services {
		name := fmt.Sprint("instance-", i)
		options[i] = instance(o, name, name)
		services[i] = w.serve(options[i])
	}
	w.feed(10)
	var before string
	w.eventually("all three have partitions in one generation", func() bool {
		before, _ = services[0].log.assigned()
		for _, r := range services {
			if generation, partitions := r.log.assigned(); generation != before ||
				len(partitions) < len(`"[0 1]"`) {
				return false
			}
		}
		return true
	})
	w.eventually("all is answered", func() bool { return w.answered(o) })
	w.eventually("all have the states of their partitions", func() bool {
		for _, r := range services {
			_, partitions := r.log.assigned()
			for _, p := range regexp.MustCompile(`\d+`).FindAllString(partitions, -1) {
				if len(r.log.first(1, `"state restored" partition=`+p+" ")) == 0 {
					return false
				}
			}
		}
		return true
	})
	for i := range services {
		_, had := services[i].log.assigned()
		w.feed(3)
		services[i].stop()
		w.feed(3)
		services[i] = w.serve(options[i])
		w.says(services[i], "state restored")
		generation, has := services[i].log.assigned()
		if generation != before || has != had {
			t.Errorf("instance %d had %s in generation %s and comes back to %s in generation %s",
				i, had, before, has, generation)
		}
		w.feed(3)
		w.eventually("all is answered", func() bool { return w.answered(o) })
		for _, line := range services[i].log.first(9, "state restored") {
			if !regexp.MustCompile(`changelog_records=0 input_offset=\d+ took=\S+$`).
				MatchString(line) {
				t.Errorf("instance %d restores instead of going on: %s", i, line)
			}
		}
	}
	for i := range services {
		if generation, _ := services[i].log.assigned(); generation != before {
			t.Errorf("instance %d is in generation %s, not %s", i, generation, before)
		}
		services[i].stop()
	}
	t.Logf("three instances restarted in generation %s", before)
	w.exactlyOnce(o)
}
