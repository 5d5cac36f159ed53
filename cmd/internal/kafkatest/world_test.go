//go:build kafka

package kafkatest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// startMS is when the fleet sets out: the start of a step.
const startMS = servicetest.StartMS

// testKey is as a key file has it: a service refuses the key of a small seed, and marks records
// under one that was made here.
var testKey = func() noise.Key {
	key, err := noise.ParseKey(noise.KeyFromSeed(1 << 40).Reveal())
	if err != nil {
		panic(err)
	}
	return key
}()

// world is a raw topic and a fleet that feeds it. Services are named by their
// group, and so are their other topics.
type world struct {
	*harness
	raw        string
	partitions int
	dir        string
	model      *mobility.Model
	models     string // how a config names it
	codec      *schemas.Codec
	fleet      *rand.Rand
	cells      []grid.Cell // of each vehicle
	feeder     *producer.Idempotent
	step       int64
	fed        int64
}

func (h *harness) world(partitions, vehicles int) *world {
	h.Helper()
	w := &world{
		harness: h, raw: h.prefix + "raw", partitions: partitions, dir: h.TempDir(),
		model:  servicetest.NeighbourModel(h, servicetest.Town, 1000, 1),
		models: "model: model.avro",
		fleet:  rand.New(rand.NewPCG(1, 1)),
	}
	var err error
	w.codec, err = schemas.NewCodec(schemas.Avro)
	h.ok(err)
	w.feeder, err = producer.NewIdempotent(h.client, producer.Options{RetryTimeout: patience})
	h.ok(err)
	for range vehicles {
		w.cells = append(w.cells, w.model.SampleInitial(w.fleet))
	}
	return w
}

// topics are those of a service.
func (w *world) topics(name string) topics.Set {
	return topics.Set{
		Raw: w.raw, Sanitized: w.prefix + name + ".out", Changelog: w.prefix + name + ".log",
		DeadLetters: w.prefix + name + ".dead",
		Create:      true, Partitions: w.partitions,
	}
}

// options are those of a service with small transactions.
func (w *world) options(name string) service.Options {
	return service.Options{
		Cluster: topics.Cluster{
			Brokers: w.brokers, Group: w.prefix + name, Topics: w.topics(name),
		},
		Settings: engine.Settings{
			Model: w.model, Key: testKey,
			Release: mechanism.Options{
				Mechanism: law.Lattice, Epsilon: 1, Delta: .01,
			},
		},
		StateDir:   filepath.Join(w.dir, name),
		MaxRecords: 50, MaxInterval: 20 * time.Millisecond, SessionTimeout: 6 * time.Second,
		Counters: new(engine.Counters),
	}
}

// createRaw makes the raw topic, which keeps its records forever: they are older
// than Kafka would keep them by default.
func (w *world) createRaw() {
	w.Helper()
	w.ok(admin.CreateTopics(w.Context(), w.client, wire.Options{}, admin.Topic{
		Name: w.raw, Partitions: w.partitions, Configs: map[string]string{"retention.ms": "-1"},
	}))
}

// feed writes steps of the fleet to the raw topic: a fix of every vehicle, the
// first one's twice, a late one every tenth step, and one that is cut short.
func (w *world) feed(steps int) {
	w.Helper()
	for range steps {
		var records []producer.Record
		add := func(vehicle int, ms int64) {
			lat, lon := w.model.Grid.ToDegrees(w.model.Grid.Centre(w.cells[vehicle]))
			fix := schemas.Raw{
				UserID: fmt.Sprintf("vehicle-%03d", vehicle), Timestamp: ms, Latitude: lat,
				Longitude: lon,
			}
			value, err := w.codec.AppendRaw(nil, fix)
			w.ok(err)
			records = append(records, producer.Record{
				Key: []byte(fix.UserID), Value: value, Timestamp: ms,
			})
		}
		now := startMS + w.step*60_000
		for v := range w.cells {
			add(v, now)
			w.cells[v] = w.model.SampleNext(w.fleet, w.cells[v], w.step)
		}
		add(0, now+1)
		if w.step%10 == 9 {
			add(1, now-60_000)
		}
		bad := records[w.step%int64(len(records))]
		bad.Value = bad.Value[:len(bad.Value)-3]
		records = append(records, bad)
		_, err := w.feeder.Send(w.Context(), w.raw, w.partitions, records)
		w.ok(err)
		w.fed += int64(len(records))
		w.step++
	}
}

// answered reports whether a service has committed all that was fed.
func (w *world) answered(o service.Options) bool {
	w.Helper()
	for p := range int32(w.partitions) {
		_, end, err := w.fetcher(w.raw, p, false).Bounds(w.Context())
		w.ok(err)
		offset, _, err := consumer.Committed(w.Context(), w.client, wire.Options{},
			o.Group, w.raw, p)
		w.ok(err)
		if offset < end {
			return false
		}
	}
	return true
}
