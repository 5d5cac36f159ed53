//go:build kafka

package kafkatest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestErasedIsGoneFromTheDisks erases a user of a running service. Kafka's cleaner then leaves no
// byte of the id or of the state in the changelog's files, and Pebble none in the state folder.
func TestErasedIsGoneFromTheDisks(t *testing.T) {
	t.Parallel()
	const user = "zoe-4c1f9a" // shares no beginning with another user, so no table shortens it
	n := private(t)
	w := newHarnessAt(t, n.brokers()...).world(1, 5)
	o := w.options("service")
	w.createRaw()
	send := func() {
		ms := startMS + w.step*60_000
		lat, lon := w.model.Grid.ToDegrees(w.model.Grid.Centre(w.cells[0]))
		value, err := w.codec.AppendRaw(nil, schemas.Raw{
			UserID: user, Timestamp: ms, Latitude: lat, Longitude: lon,
		})
		w.ok(err)
		_, err = w.feeder.Send(t.Context(), w.raw, w.partitions,
			[]producer.Record{{Key: []byte(user), Value: value, Timestamp: ms}})
		w.ok(err)
	}
	send()
	w.feed(5)
	r := w.serve(o)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	const lag = "2000"
	for key, value := range map[string]string{
		"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": lag,
		"delete.retention.ms": "1000",
	} {
		w.alter(o.Topics.Changelog, key, value)
	}
	var state []byte
	w.scan(o.Topics.Changelog, 0, false, func(r consumer.Record) {
		if string(r.Key) == user {
			state = bytes.Clone(r.Value)
		}
	})
	if len(state) == 0 {
		t.Fatal("the user has no state")
	}
	log := filepath.Join(n.dir, "node-1", "data", o.Topics.Changelog+"-0")
	needles := [][]byte{[]byte(user), state}
	if files := holding(t, log, needles); len(files) == 0 {
		t.Fatal("the search finds nothing while the user is there")
	}

	result, err := erase.Run(t.Context(), erase.Options{
		Settings: o.Settings, Cluster: o.Cluster, StateDir: o.StateDir, Users: []string{user},
	})
	w.ok(err)
	if len(result.Receipts) != 1 {
		t.Fatalf("%+v", result)
	}
	receipt := result.Receipts[0]
	if receipt.GoneBy == nil || receipt.Changelog["max.compaction.lag.ms"] != lag {
		t.Errorf("%+v", receipt)
	}
	fed := 0
	w.eventually("the cleaner has removed the user", func() bool {
		w.feed(1) // the segment at work is closed when a record arrives
		fed++
		return len(holding(t, log, needles)) == 0
	})
	t.Logf("gone after %d steps of the feed", fed)
	w.eventually("all is answered", func() bool { return w.answered(o) })
	r.stop()
	w.eventually("the state folder is rid of the user", func() bool {
		return len(holding(t, o.StateDir, needles)) == 0
	})
	report, err := verify.Run(t.Context(), verify.Options{
		Settings: o.Settings, Cluster: o.Cluster, TempDir: t.TempDir(),
	})
	w.ok(err)
	if !report.Verified {
		t.Errorf("%+v", report)
	}
}

// holding lists the files below a folder that have one of some bytes. Files may go meanwhile.
func holding(t *testing.T, dir string, needles [][]byte) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var data []byte
			data, err = os.ReadFile(path)
			for _, needle := range needles {
				if bytes.Contains(data, needle) {
					files = append(files, path)
					break
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
