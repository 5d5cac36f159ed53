package service_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/state"
)

// TestDiskFull: the disk with the state fills up in the middle of the work. The
// service ends with an error that names it; with room again it goes on, and the
// output is that of an undisturbed one.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 30)
	o := atwork.Options(w, "full")
	published := w.Answers(t, o.Group)
	disk := vfs.NewMem()
	var full atomic.Bool
	run := func(mem vfs.FS) *atwork.Running {
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return fmt.Errorf("write: %w", syscall.ENOSPC)
			}
			return nil
		}))
		return atwork.Start(t, o, func(s *service.Service) {
			s.SetOpenStore(func(dir string, o state.Options) (*state.Store, error) {
				o.FS, o.MemTableBytes = fs, 128<<10 // so that it is soon written to
				return state.Open(dir, o)
			})
		})
	}
	w.Feed(t)
	service := run(disk)
	servicetest.Await(t, "the service works", func() bool { return published.Read(t) > 0 }, service)
	full.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- service.Wait(t) }()
	var err error
	servicetest.Await(t, "the service has noticed", func() bool {
		w.Feed(t)
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	if !errors.Is(err, state.ErrFull) || !errors.Is(err, task.ErrStore) ||
		!errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the service ends with %v", err)
	}
	for _, want := range []string{"disk with the state folder is full", "(folder-failed)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not say %q", err, want)
		}
	}
	full.Store(false)
	left := vfs.NewMem() // the old process holds the old one's lock
	if cloned, err := vfs.Clone(disk, left, o.StateDir, o.StateDir); !cloned || err != nil {
		t.Fatal(cloned, err)
	}
	service = run(left)
	servicetest.Await(t, "everything is answered",
		func() bool { return published.Read(t) >= w.Fed }, service)
	service.Stop(t)
	atwork.RequireUndisturbed(t, w, o.Group)
	requireStates(t, w, o.Group, left)
}
