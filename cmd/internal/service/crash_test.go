package service_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/state"
)

// untouched is the line of a store that was not restored in full.
var untouched = regexp.MustCompile(`(?m)msg="state restored" .*took=\S+$`)

// TestCrashes cuts a service off from its broker and its disk in the middle of
// its work, again and again, and starts it again on what a power cut has left of
// the disk: a part of what was not synced, or nothing at all. The output is that
// of an undisturbed service. (TestLoopCrashes crashes one task at every call;
// here are whole services, with their group, their model and their zombies.)
func TestCrashes(t *testing.T) {
	seeds := uint64(3)
	if s := os.Getenv(service.CrashesEnv); s != "" {
		if _, err := fmt.Sscan(s, &seeds); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			runCrashes(t, seed)
		})
	}
}

// runCrashes makes four crashes. The wait for a dead member's session is most of
// a round, so that rounds of several seeds may well run at the same time.
func runCrashes(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 77))
	disk := vfs.NewCrashableMem()
	w := servicetest.NewWorld(t, 30)
	o := atwork.Options(w, "crashing")
	o.SessionTimeout = 2 * time.Second
	published := w.Answers(t, o.Group)
	kept := 0 // restarts that went on from what the disk had kept
	run := func() (*atwork.Running, *servicetest.Network) {
		network, fs := new(servicetest.Network), disk
		return atwork.Start(t, o, func(s *service.Service) {
			s.SetOpenStore(func(dir string, o state.Options) (*state.Store, error) {
				o.FS, o.MemTableBytes = fs, 16<<10 // so that tables are written too
				return state.Open(dir, o)
			})
			s.SetClient(network.Client(w.Addr))
			s.SetGrace(100 * time.Millisecond)
		}), network
	}
	for round := range 4 {
		service, network := run()
		enough := published.Read(t) + 150 + rng.Int64N(300)
		servicetest.Await(t, "the service has done its part", func() bool {
			n := published.Read(t)
			for n > w.Fed-800 { // so that it is in the middle of something
				w.Feed(t)
			}
			return n >= enough
		}, service)
		first := rng.IntN(2) == 0 // either may be the last to see the process alive
		if first {
			network.Cut()
		}
		// The process alone dies first; then the power goes, with more or less of
		// what was not synced.
		disk = disk.CrashClone(
			vfs.CrashCloneCfg{UnsyncedDataPercent: []int{100, 0, 50, 90}[round], RNG: rng})
		if round > 0 && rng.IntN(5) == 0 {
			disk = vfs.NewCrashableMem() // nothing is left
		}
		if !first {
			network.Cut()
		}
		service.Cancel() // it lives on without a connection for a while, as a zombie
		if round > 0 && untouched.MatchString(service.Log.String()) {
			kept++
		}
	}
	service, _ := run()
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, service)
	service.Stop(t)
	atwork.RequireUndisturbed(t, w, o.Group)
	requireStates(t, w, o.Group, disk)
	t.Logf("%d of 3 crashes left something of the store; %d changelog records were replayed, %d "+
		"transactions dropped",
		kept, o.Counters.Snapshot().Restored, o.Counters.Snapshot().Aborts)
	if o.Counters.Snapshot().Restored == 0 {
		t.Error("nothing was ever restored: the test shows nothing")
	}
	if kept == 0 {
		t.Error("no crash has left anything of the store: the test shows nothing of catching up")
	}
}

// requireStates holds the states of a group, in its changelog and in its store,
// against those of the undisturbed service.
func requireStates(t *testing.T, w *servicetest.World, group string, disk vfs.FS) {
	t.Helper()
	requireStatesIn(t, w, group, disk, filepath.Join(w.Dir, group))
}

func requireStatesIn(
	t *testing.T, w *servicetest.World, group string, disk vfs.FS, folder string,
) {
	t.Helper()
	want, got := w.View(t, "calm.log", false), w.View(t, group+".log", false)
	want.Read(t)
	got.Read(t)
	store, err := state.Open(folder,
		state.Options{FS: disk, ReadOnly: true, Logger: slog.New(slog.DiscardHandler)})
	servicetest.OK(t, err)
	defer func() { servicetest.OK(t, store.Close()) }()
	for p := range want.Lines {
		states := fold(want.Lines[p])
		if len(states) == 0 {
			t.Errorf("partition %d: no states to compare", p)
		}
		if !maps.Equal(fold(got.Lines[p]), states) {
			t.Errorf("partition %d: the changelog's states are not those of an undisturbed service",
				p)
		}
		stored := map[string]string{}
		servicetest.OK(t, store.Partition(int32(p)).Iterate(func(k, v []byte) error {
			stored[string(k)] = string(v)
			return nil
		}))
		if !maps.Equal(stored, states) {
			t.Errorf("partition %d: the store's states are not those of an undisturbed service", p)
		}
	}
}

// fold is the last value of each user.
func fold(lines []servicetest.Line) map[string]string {
	states := map[string]string{}
	for _, l := range lines {
		switch {
		case !task.ValidKey([]byte(l.Key)):
		case l.Value == "":
			delete(states, l.Key)
		default:
			states[l.Key] = l.Value
		}
	}
	return states
}
