package service_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/state"
)

// exposure is everything that a service lets out of its memory.
type exposure struct {
	log         []byte
	answers     []byte // of the listener
	deadLetters []consumer.Record
	changelog   []consumer.Record
	sanitized   []consumer.Record
	files       map[string][]byte // of the state folder, by path
	states      []byte            // what the folder's store holds, uncompressed

	anonymous bool // sanitized records carry neither the user id nor the exact time
}

// audit names the places at which an exposure holds a fix's place or cell. The
// sanitized topic, unless it is anonymous, and the keys of changelog and store
// name the user, nothing else may.
func audit(e exposure, fix schemas.Raw, g *grid.Grid) (found []string) {
	place := append(servicetest.CoordinateSecrets(fix, g), servicetest.CellSecrets(fix, g)...)
	place = append(place, servicetest.KeySecrets(servicetest.Key, servicetest.DayOfFix(fix))...)
	person := append(servicetest.UserSecrets(fix.UserID), place...)
	look := func(where string, b []byte, secrets []servicetest.Secret) {
		for _, name := range servicetest.Leaks(b, secrets) {
			found = append(found, where+": "+name)
		}
	}
	look("log", e.log, person)
	look("answers", e.answers, person)
	for _, r := range e.deadLetters {
		look("dead letter", append(append([]byte{}, r.Key...), r.Value...), person)
	}
	for _, r := range e.changelog {
		look("changelog key", r.Key, place)
		look("changelog value", r.Value, person)
	}
	public := place
	if e.anonymous {
		public = append(servicetest.TimeSecrets(fix.Timestamp), person...)
	}
	for _, r := range e.sanitized {
		look("sanitized key", r.Key, public)
		look("sanitized value", r.Value, public)
		look("sanitized timestamp", fmt.Append(nil, r.Timestamp), public)
	}
	for name, b := range e.files {
		look("file "+filepath.Base(name), b, place)
	}
	look("store", e.states, place)
	return found
}

// TestCanary runs a service over good and bad records that hold a known place,
// stops it with an error at the end, and searches everything that it let out.
// Every kind of place is then shown to be searched: a leak planted there is found.
func TestCanary(t *testing.T) {
	// A large map, whose cells have six digits, so that none occurs by chance.
	box := grid.Box{South: 53.2, West: -3.3, North: 53.6, East: -2.6}
	w := servicetest.NewWorld(t, 0)
	w.Model = servicetest.NeighbourModel(t, box, 70, 4)
	fix, g := servicetest.Sentinel(), w.Model.Grid
	cell := g.Locate(fix.Latitude, fix.Longitude)
	if cell < 100_000 {
		t.Fatalf("the cell %d is too small a number to be recognized", cell)
	}
	e := expose(t, w, "canary", fix, engine.Publish{})
	if found := audit(e, fix, g); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	hidden := expose(t, w, "anonymous", fix,
		engine.Publish{Timestamp: engine.TimestampStep, User: engine.UserPseudonym})
	hidden.anonymous = true
	if found := audit(hidden, fix, g); len(found) > 0 || len(hidden.sanitized) == 0 {
		t.Errorf("found %q in %d anonymous records and what is beside them",
			found, len(hidden.sanitized))
	}
	if len(audit(exposure{anonymous: true, sanitized: e.sanitized}, fix, g)) == 0 {
		t.Error("names and times are not found in records that have them")
	}
	if len(e.deadLetters) == 0 || len(e.changelog) == 0 || len(e.sanitized) == 0 ||
		len(e.files) == 0 || len(e.states) == 0 || len(e.log) == 0 || len(e.answers) < 10_000 {
		t.Fatal("there was nothing to search")
	}

	raw := servicetest.Encode(t, schemas.Avro, fix)
	type bare schemas.Raw // a raw record without what redacts it
	redacted := e
	redacted.log = fmt.Appendf(redacted.log, "fix=%v", fix)
	if found := audit(redacted, fix, g); len(found) > 0 {
		t.Errorf("a raw record that is logged shows %q", found)
	}
	plants := map[string]func(e *exposure){
		"log": func(e *exposure) {
			e.log = fmt.Appendf(e.log, "msg=late lat=%v", fix.Latitude)
		},
		"log record": func(e *exposure) { e.log = fmt.Appendf(e.log, "fix=%v", bare(fix)) },
		"answer": func(e *exposure) {
			e.answers = fmt.Appendf(e.answers, "geodither_fixes{user=%q} 1", fix.UserID)
		},
		"log user": func(e *exposure) { e.log = fmt.Appendf(e.log, "user=%s", fix.UserID) },
		"log key": func(e *exposure) {
			e.log = fmt.Appendf(e.log, "key=%s", servicetest.Key.Reveal())
		},
		"log day's key": func(e *exposure) {
			e.log = fmt.Appendf(e.log, "key=%x",
				servicetest.DayKey(t, servicetest.Key, servicetest.DayOfFix(fix)))
		},
		"log subkey": func(e *exposure) {
			e.log = fmt.Appendf(e.log, "key=%x",
				servicetest.Subkey(t, servicetest.Key, "geodither 1: pseudonyms"))
		},
		"sanitized key": func(e *exposure) {
			e.sanitized = append(e.sanitized, consumer.Record{
				Key: servicetest.DayKey(t, servicetest.Key, servicetest.DayOfFix(fix)),
			})
		},
		"changelog's key": func(e *exposure) {
			e.changelog = append(e.changelog, consumer.Record{
				Value: servicetest.Subkey(t, servicetest.Key, "geodither 1: all days"),
			})
		},
		"log cell": func(e *exposure) { e.log = fmt.Appendf(e.log, "cell=%d", cell) },
		"dead letter": func(e *exposure) {
			e.deadLetters = append(e.deadLetters, consumer.Record{Value: raw})
		},
		"dead letter key": func(e *exposure) {
			e.deadLetters = append(e.deadLetters, consumer.Record{Key: []byte(fix.UserID)})
		},
		"changelog value": func(e *exposure) {
			e.changelog = append(e.changelog, consumer.Record{Value: raw})
		},
		"changelog key": func(e *exposure) {
			e.changelog = append(e.changelog, consumer.Record{Key: raw[10:]})
		},
		"sanitized": func(e *exposure) {
			e.sanitized = append(e.sanitized, consumer.Record{Value: raw})
		},
		"store": func(e *exposure) { e.states = append(e.states, raw...) },
	}
	for name, plant := range plants {
		leaking := e
		plant(&leaking)
		if len(audit(leaking, fix, g)) == 0 {
			t.Errorf("a leak planted in the %s is not found", name)
		}
	}
	t.Run("planted in the store's files", func(t *testing.T) {
		dir := filepath.Join(w.Dir, "leaking")
		store, err := state.Open(dir, state.Options{Logger: atwork.Options(w, "leaking").Logger})
		servicetest.OK(t, err)
		servicetest.OK(t, store.Partition(0).Apply(
			[]state.Change{{Key: []byte("user"), Value: raw}}, state.Positions{}))
		servicetest.OK(t, store.Close())
		if len(audit(exposure{files: readFiles(t, dir)}, fix, g)) == 0 {
			t.Error("not found")
		}
	})
}

// expose runs a service over the canary in every guise, and then over a record
// on whose state it must give up.
func expose(
	t *testing.T, w *servicetest.World, group string, fix schemas.Raw, publish engine.Publish,
) exposure {
	t.Helper()
	var records []producer.Record
	for i := range int64(10) { // good ones: new steps, repeats, a late one
		later := fix
		later.Timestamp += i / 2 * 60_000
		rec := servicetest.Record(t, 0, later)
		records = append(records,
			producer.Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
	}
	late := servicetest.Record(t, 0, fix)
	records = append(
		records, producer.Record{Key: late.Key, Value: late.Value, Timestamp: late.Timestamp})
	for _, b := range append(servicetest.BadRecords(t), servicetest.BadJSONRecords(t)...) {
		records = append(records,
			producer.Record{Key: b.Rec.Key, Value: b.Rec.Value, Timestamp: max(b.Rec.Timestamp, 0)})
	}
	w.Send(t, records...)

	o := atwork.Options(w, group)
	o.Publish = publish
	o.Board = monitor.NewBoard()
	addr := listen(t, o, time.Minute)
	published := w.Answers(t, o.Group)
	first := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, first)
	e := exposure{files: readFiles(t, o.StateDir)} // with what is only in the write-ahead log
	for _, path := range []string{"/live", "/ready", "/metrics", "/status"} {
		_, body := get(t, addr, path)
		e.answers = append(e.answers, body...)
	}
	first.Stop(t)
	e.log = first.Log.Bytes()

	// A second run finds a state that it cannot read.
	user := "user-of-a-bad-state"
	p := servicetest.Murmur2Place([]byte(user))
	_, err := w.Feeder.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{
			Topic: servicetest.Topics(o.Group).Changelog, Partition: p,
		},
		Records: []producer.Record{{
			Key: []byte(user), Value: []byte{99}, Timestamp: servicetest.StartMS,
		}},
	})
	servicetest.OK(t, err)
	fix.UserID = user
	rec := servicetest.Record(t, 0, fix)
	w.Send(t, producer.Record{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp})
	second := atwork.Start(t, o)
	failure := second.Wait(t)
	if failure == nil {
		t.Fatal("the second run does not fail")
	}
	e.log = append(append(e.log, second.Log.Bytes()...), failure.Error()...)
	servicetest.RequireNoLeak(t, "the error", []byte(failure.Error()),
		servicetest.UserSecrets(user))

	e.sanitized, e.deadLetters = w.Records(t, servicetest.Topics(o.Group).Sanitized),
		w.Records(t, servicetest.Topics(o.Group).DeadLetters)
	e.changelog = w.Records(t, servicetest.Topics(o.Group).Changelog)
	for name, b := range readFiles(t, o.StateDir) {
		e.files["closed/"+name] = b
	}
	e.states = readStates(t, o.StateDir)
	return e
}

// readFiles reads every file of a folder, which may be in use.
func readFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		files[strings.TrimPrefix(path, dir)] = b
		return nil
	})
	servicetest.OK(t, err)
	return files
}

// readStates reads what a closed store holds, as it is before compression.
func readStates(t *testing.T, dir string) (all []byte) {
	t.Helper()
	store, err := state.Open(dir, state.Options{
		ReadOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	servicetest.OK(t, err)
	defer store.Close()
	numbers, err := store.Partitions()
	servicetest.OK(t, err)
	for _, p := range numbers {
		servicetest.OK(t, store.Partition(p).Iterate(func(key, value []byte) error {
			if !task.ValidKey(key) {
				return fmt.Errorf("key %q is kept for the store", key)
			}
			all = append(append(all, key...), value...)
			return nil
		}))
	}
	return all
}
