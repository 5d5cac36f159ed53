package service_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/state"
)

// machine is one of several that run instances of a service, each with a disk and a network.
type machine struct {
	*atwork.Running
	o       service.Options
	network *servicetest.Network
	disk    *vfs.MemFS
	store   atomic.Pointer[state.Store]
}

// machines are of the service "first", with standbys.
func machines(w *servicetest.World, n, standbys int) []*machine {
	all := make([]*machine, n)
	for i := range all {
		o := atwork.Options(w, "first")
		o.StateDir += fmt.Sprint(".", i)
		o.SessionTimeout, o.Standbys = 2*time.Second, standbys
		all[i] = &machine{o: o, disk: vfs.NewCrashableMem()}
	}
	return all
}

func (m *machine) start(t *testing.T, w *servicetest.World) {
	t.Helper()
	m.network, m.o.Counters = new(servicetest.Network), new(engine.Counters)
	network, disk := m.network, m.disk
	m.store.Store(nil) // that of a killed process is closed
	m.Running = atwork.Start(t, m.o, func(s *service.Service) {
		s.SetOpenStore(func(dir string, o state.Options) (*state.Store, error) {
			o.FS, o.MemTableBytes = disk, 16<<10
			store, err := state.Open(dir, o)
			m.store.Store(store)
			return store, err
		})
		s.SetClient(network.Client(w.Addr))
		s.SetGrace(100 * time.Millisecond)
	})
}

// kill ends the process, and leaves of its disk what a kill -9 leaves: the log of what was
// written, up to what was not flushed yet.
func (m *machine) kill(rng *rand.Rand, percent int) {
	m.disk = m.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
	m.network.Cut()
	m.Cancel()
}

// copied reports whether the store has every partition as it was committed last.
func (m *machine) copied(t *testing.T, w *servicetest.World) bool {
	t.Helper()
	store := m.store.Load()
	if store == nil {
		return false
	}
	for p := range int32(servicetest.Partitions) {
		at, found, err := store.Partition(p).Positions()
		servicetest.OK(t, err)
		committed, _, err := consumer.Committed(t.Context(), w.Client, wire.Options{}, m.o.Group,
			"raw", p)
		servicetest.OK(t, err)
		if !found || at.Input != committed {
			return false
		}
	}
	return true
}

// TestStandby: the instance that inherits partitions reads next to nothing of the changelog, since
// its standbys have read it: a mark of each partition perhaps, if the group has changed in between.
// Without standbys it reads all of it.
func TestStandby(t *testing.T) {
	for _, standbys := range []int{0, 1} {
		t.Run(fmt.Sprint("standbys=", standbys), func(t *testing.T) {
			t.Parallel()
			w := servicetest.NewWorld(t, 30)
			a := w.Answers(t, "first")
			all := machines(w, 2, standbys)
			for _, m := range all {
				m.o.SessionTimeout = 3 * time.Second
				m.start(t, w)
			}
			servicetest.Await(t, "both have a share", func() bool {
				w.Feed(t)
				a.Read(t)
				return all[0].o.Counters.Snapshot().RecordsIn > 0 &&
					all[1].o.Counters.Snapshot().RecordsIn > 0
			}, all[0], all[1])
			for range 10 {
				w.Feed(t)
			}
			servicetest.Await(t, "everything is answered",
				func() bool { return a.Read(t) >= w.Fed }, all[0], all[1])
			if standbys > 0 {
				servicetest.Await(t, "both have copies of everything", func() bool {
					return all[0].copied(t, w) && all[1].copied(t, w)
				}, all[0], all[1])
			}
			before := all[1].o.Counters.Snapshot().Restored
			all[0].network.Cut()
			all[0].Cancel()
			w.Feed(t)
			servicetest.Await(t, "everything is answered",
				func() bool { return a.Read(t) >= w.Fed }, all[1])
			read := all[1].o.Counters.Snapshot().Restored - before
			const few = 3 * servicetest.Partitions
			if standbys > 0 && read > few || standbys == 0 && read <= few {
				t.Errorf("with %d standbys, %d records of the changelog were read after the kill",
					standbys, read)
			}
			t.Logf("%d standbys: %d records of the changelog were read after the kill", standbys,
				read)
			all[1].Stop(t)
			atwork.RequireUndisturbed(t, w, "first")
		})
	}
}

// TestStandbyCrashes kills one of three instances again and again in the middle of its work, while
// others are its standbys, and starts it on what is left of its disk. The output is that of an
// undisturbed service, and so are the copies at the end.
func TestStandbyCrashes(t *testing.T) {
	t.Parallel()
	const rounds = 5
	rng := rand.New(rand.NewPCG(1, 78))
	w := servicetest.NewWorld(t, 30)
	a := w.Answers(t, "first")
	all := machines(w, 3, 2)
	for _, m := range all {
		m.start(t, w)
	}
	alive := func(dead *machine) (left []servicetest.AtWork) {
		for _, m := range all {
			if m != dead {
				left = append(left, m.Running)
			}
		}
		return left
	}
	busy := func(dead *machine) {
		enough := a.Read(t) + 200 + rng.Int64N(200)
		servicetest.Await(t, "the others go on", func() bool {
			n := a.Read(t)
			for n > w.Fed-600 {
				w.Feed(t)
			}
			return n >= enough
		}, alive(dead)...)
	}
	for round := range rounds {
		busy(nil)
		m := all[rng.IntN(len(all))]
		m.kill(rng, []int{100, 50, 0, 90, 100}[round])
		if rng.IntN(3) == 0 {
			m.disk = vfs.NewCrashableMem()
		}
		busy(m)
		m.start(t, w)
	}
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed },
		alive(nil)...)
	servicetest.Await(t, "all have copies of everything", func() bool {
		for _, m := range all {
			if !m.copied(t, w) {
				return false
			}
		}
		return true
	}, alive(nil)...)
	// They all stop at once: a mark of that is in the changelog and in no copy.
	for _, m := range all {
		m.Cancel()
	}
	for _, m := range all {
		servicetest.OK(t, m.Wait(t))
	}
	atwork.RequireUndisturbed(t, w, "first")
	for _, m := range all {
		requireStatesIn(t, w, "first", m.disk, m.o.StateDir)
	}
}

// TestStandbyForgets: an erased user leaves the files of a standby's copy as they leave the
// owner's, while both work.
func TestStandbyForgets(t *testing.T) {
	t.Parallel()
	const user = "zoe-4c1f9a"
	w := servicetest.NewWorld(t, 6)
	a := w.Answers(t, "first")
	all := machines(w, 2, 1)
	for _, m := range all {
		m.o.SessionTimeout = 6 * time.Second
		m.start(t, w)
	}
	both := []servicetest.AtWork{all[0].Running, all[1].Running}
	at := servicetest.StepTime(w.Step).UnixMilli()
	w.Feed(t)
	lat, lon := w.Model.Grid.ToDegrees(w.Model.Grid.Centre(w.Cells[0]))
	value, err := w.Codec.AppendRaw(nil, schemas.Raw{
		UserID: user, Timestamp: at, Latitude: lat, Longitude: lon,
	})
	servicetest.OK(t, err)
	w.Send(t, producer.Record{Key: []byte(user), Value: value, Timestamp: at})
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed },
		both...)
	known := func(m *machine) bool {
		store := m.store.Load()
		if store == nil {
			return false
		}
		for p := range int32(servicetest.Partitions) {
			value, err := store.Partition(p).Get([]byte(user))
			servicetest.OK(t, err)
			if len(value) > 0 {
				return true
			}
		}
		return false
	}
	servicetest.Await(t, "both have the user's state",
		func() bool { return known(all[0]) && known(all[1]) }, both...)
	_, err = erase.Run(t.Context(), erase.Options{
		Settings: all[0].o.Settings, Cluster: all[0].o.Cluster, StateDir: t.TempDir(),
		Users: []string{user}, Logger: slog.New(slog.DiscardHandler),
	})
	servicetest.OK(t, err)
	servicetest.Await(t, "both have forgotten the user", func() bool {
		if a.Read(t) >= w.Fed {
			w.Feed(t) // an idle owner would look only now and then whether it was fenced
		}
		return !known(all[0]) && !known(all[1])
	}, both...)
	for _, m := range all {
		m.Cancel()
	}
	for _, m := range all {
		servicetest.OK(t, m.Wait(t))
		for _, name := range holding(t, m.disk, m.o.StateDir, user) {
			t.Errorf("%s still has the user's id", name)
		}
	}
}

// holding lists the files below a folder that have a text.
func holding(t *testing.T, disk vfs.FS, dir, text string) (found []string) {
	t.Helper()
	names, err := disk.List(dir)
	servicetest.OK(t, err)
	for _, name := range names {
		name = disk.PathJoin(dir, name)
		info, err := disk.Stat(name)
		servicetest.OK(t, err)
		if info.IsDir() {
			found = append(found, holding(t, disk, name, text)...)
			continue
		}
		file, err := disk.Open(name)
		servicetest.OK(t, err)
		data, err := io.ReadAll(file)
		servicetest.OK(t, errors.Join(err, file.Close()))
		if bytes.Contains(data, []byte(text)) {
			found = append(found, name)
		}
	}
	return found
}
