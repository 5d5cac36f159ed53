//go:build kafka

package kafkatest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/schemas"
)

// Arguments of kcat, which is librdkafka: its own default for records with a key is
// CRC-32, and murmur2_random is what Java's client does.
var (
	asLibrdkafka = []string(nil)
	asJava       = []string{"-X", "topic.partitioner=murmur2_random"}
)

// kcat writes a fix of some users in JSON, all of one step.
func (w *world) kcat(args []string, ms int64, users ...string) {
	w.Helper()
	codec, err := schemas.NewCodec(schemas.JSON)
	w.ok(err)
	var lines bytes.Buffer
	for i, user := range users {
		lat, lon := w.model.Grid.ToDegrees(w.model.Grid.Centre(w.cells[i%len(w.cells)]))
		value, err := codec.AppendRaw(nil, schemas.Raw{
			UserID: user, Timestamp: ms, Latitude: lat, Longitude: lon,
		})
		w.ok(err)
		fmt.Fprintf(&lines, "%s\t%s\n", user, value)
	}
	cmd := exec.CommandContext(w.Context(), "kcat",
		append([]string{"-P", "-b", strings.Join(w.brokers, ","), "-t", w.raw, "-K", "\t"},
			args...)...)
	cmd.Stdin = &lines
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("kcat, which Debian has as a package of that name: %v\n%s", err, out)
	}
	w.fed += int64(len(users))
}

// fleetOf names users.
func fleetOf(n int) (users []string) {
	for i := range n {
		users = append(users, fmt.Sprintf("truck-%03d", i))
	}
	return users
}

// answer runs a service until it has answered all that was fed.
func (w *world) answer(o service.Options) {
	w.Helper()
	s := w.serve(o)
	w.eventually("everything is answered", func() bool { return s.ended() || w.answered(o) })
	if s.ended() {
		w.Fatalf("the service ends with %v", s.Err)
	}
	s.stop()
}

// TestPartitionsAreLibrdkafkas: what the hashes here say is where librdkafka writes.
func TestPartitionsAreLibrdkafkas(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		by   engine.Partitioner
	}{
		"crc32":   {asLibrdkafka, engine.CRC32},
		"murmur2": {asJava, engine.Murmur2},
	} {
		w := newHarness(t).world(7, 1)
		w.createRaw()
		users := fleetOf(300)
		for i := range users { // of many lengths: murmur2 takes four bytes at a time
			users[i] += strings.Repeat("ä", i%9)
		}
		w.kcat(test.args, startMS, users...)
		seen := 0
		client, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.ConsumeTopics(w.raw))
		w.ok(err)
		for seen < len(users) {
			client.PollFetches(w.Context()).EachRecord(func(r *kgo.Record) {
				seen++
				if want, _ := test.by.Partition(r.Key, 7); r.Partition != want {
					t.Errorf("%s: librdkafka puts %q into partition %d, not %d",
						name, r.Key, r.Partition, want)
				}
			})
		}
		client.Close()
	}
}
