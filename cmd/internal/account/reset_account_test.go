package account_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// TestResetKeepsTheOnlyCopy: a folder that may hold what the changelog does not is not
// removed, whatever has become of the changelog, unless somebody asks for it.
func TestResetKeepsTheOnlyCopy(t *testing.T) {
	for name, test := range map[string]struct {
		lose func(*servicetest.World, service.Options) service.Options
		says string
	}{
		"deleted": {func(w *servicetest.World, o service.Options) service.Options {
			w.DeleteTopic(t, o.Topics.Changelog, false)
			return o
		}, "(changelog-lost)"},
		"made again": {func(w *servicetest.World, o service.Options) service.Options {
			w.DeleteTopic(t, o.Topics.Changelog, true)
			return o
		}, "was made again"},
		"behind, after an accepted loss": {func(
			w *servicetest.World, o service.Options,
		) service.Options {
			saved := o.StateDir + ".saved"
			servicetest.OK(t, os.CopyFS(saved, os.DirFS(o.StateDir)))
			w.DeleteTopic(t, o.Topics.Changelog, false)
			accepting := o
			accepting.AcceptLost = true
			atwork.Serve(t, w, accepting, 2)
			o.StateDir = saved
			return o
		}, "was made again"},
		"of another group": {func(_ *servicetest.World, o service.Options) service.Options {
			o.Group = "another"
			return o
		}, "of another cluster, group or topic"},
		"no broker": {func(_ *servicetest.World, o service.Options) service.Options {
			o.Brokers = []string{"127.0.0.1:1"}
			return o
		}, "no broker answers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := servicetest.NewWorld(t, 12)
			o := atwork.Options(w, "first")
			atwork.Serve(t, w, o, 3)
			o = test.lose(w, o)
			for _, keep := range []bool{true, false} {
				_, err := account.ResetFolder(t.Context(), atwork.RepairOptions(o, keep, false))
				if !errors.Is(err, account.ErrOnlyCopy) ||
					!strings.Contains(err.Error(), test.says) {
					t.Errorf("keep %t: %v", keep, err)
				}
			}
			if name == "deleted" {
				_, err := account.ResetEverything(t.Context(),
					atwork.RepairOptions(o, false, false))
				if !errors.Is(err, account.ErrOnlyCopy) {
					t.Errorf("a reset of everything: %v", err)
				}
			}
			if _, err := os.Stat(filepath.Join(o.StateDir, "store")); err != nil {
				t.Fatalf("the store is gone: %v", err)
			}
			got, err := account.ResetFolder(t.Context(), atwork.RepairOptions(o, false, true))
			if err != nil || len(got.Names) != 1 || got.Restorable {
				t.Errorf("discarded: %+v, %v", got, err)
			}
		})
	}
}

// TestResetLeavesWhatIsAside: a store that was set aside may be the last copy of an account
// too, and nobody can tell.
func TestResetLeavesWhatIsAside(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 2)
	aside := filepath.Join(o.StateDir, "store.aside-1")
	servicetest.OK(t, os.CopyFS(aside, os.DirFS(filepath.Join(o.StateDir, "store"))))
	got, err := account.ResetFolder(t.Context(), atwork.RepairOptions(o, false, false))
	if err != nil || len(got.Names) != 1 || len(got.Aside) != 1 || !got.Restorable {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(aside); err != nil {
		t.Errorf("what was set aside is gone: %v", err)
	}
	_, err = account.ResetFolder(t.Context(), atwork.RepairOptions(o, false, true))
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(aside); err == nil {
		t.Error("what was set aside is still there")
	}
}
