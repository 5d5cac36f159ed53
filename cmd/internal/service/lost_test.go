package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/state"
)

// TestLostChangelog: a changelog that was deleted, or deleted and made again, is not
// begun again while the group has offsets or the folder has states. It is written back from
// the folder, and what comes out is what an undisturbed run gives.
func TestLostChangelog(t *testing.T) {
	for name, test := range map[string]struct{ again, create, folder bool }{
		"deleted":                  {false, true, true},
		"deleted, may not be made": {false, false, true},
		"deleted, no folder":       {false, true, false},
		"made again":               {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := servicetest.NewWorld(t, 12)
			o := atwork.Options(w, "first")
			atwork.Serve(t, w, o, 4)
			saved := o.StateDir + ".saved"
			servicetest.OK(t, os.CopyFS(saved, os.DirFS(o.StateDir)))
			w.DeleteTopic(t, o.Topics.Changelog, test.again)
			o.Topics.Create = test.create
			if !test.folder {
				servicetest.OK(t, os.RemoveAll(o.StateDir))
			}
			out := w.View(t, o.Topics.Sanitized, true)
			published := out.Read(t)
			r := atwork.Start(t, o, func(s *service.Service) {
				s.SetPatience(200 * time.Millisecond)
			})
			err := r.Wait(t)
			if !errors.Is(err, task.ErrLost) {
				t.Fatalf("the service ends with %v", err)
			}
			for _, part := range []string{
				"(changelog-lost)",
			} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not say %q", err, part)
				}
			}
			if !test.again && w.Exists(t, o.Topics.Changelog) {
				t.Error("the changelog was made again")
			}
			if got := out.Read(t); got != published {
				t.Errorf("%d sanitized records have become %d", published, got)
			}
			if aside, err := filepath.Glob(filepath.Join(o.StateDir, "store.aside*")); err != nil ||
				len(aside) > 0 {
				t.Errorf("the good folder was set aside: %v, %v", aside, err)
			}
			found := service.Examine(t.Context(), o, nil, nil)
			if bad := atwork.Details(found, checks.Failure); !strings.Contains(
				bad, "account: the changelog is lost") {
				t.Errorf("doctor finds %+v", found)
			}
			if strings.Contains(atwork.Details(found, checks.OK),
				o.Topics.Changelog+" is missing") {
				t.Errorf("doctor finds it well that the changelog is missing: %+v", found)
			}

			plan, err := account.RebuildChangelog(t.Context(),
				atwork.RepairOptions(o, false, false), []string{saved})
			servicetest.OK(t, err)
			if plan.Made == test.again || len(plan.Partitions) != servicetest.Partitions {
				t.Errorf("rebuilt as %+v", plan)
			}
			if report := atwork.Verify(t, o); !report.Verified {
				t.Errorf("what was written back is reported as %+v", report)
			}
			o.Topics.Create = false
			atwork.Serve(t, w, o, 4)
			atwork.RequireUndisturbed(t, w, "first")
			if report := atwork.Verify(t, o); !report.Verified {
				t.Errorf("after it went on: %+v", report)
			}
		})
	}
}

// TestAcceptedLossKeepsTheStore: a changelog that was emptied has the same id, so the state
// folder is not set aside at the start. An operator who accepts the loss finds a copy of it all the
// same.
func TestAcceptedLossKeepsTheStore(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	for p := range int32(servicetest.Partitions) {
		w.DeleteRecords(t, o.Topics.Changelog, p, -1)
	}
	if err := fails(t, o, "the changelog is empty"); !errors.Is(err, task.ErrLost) {
		t.Errorf("the service ends with %v", err)
	}
	o.AcceptLost = true
	atwork.Serve(t, w, o, 1)
	accepted := o
	accepted.AcceptLost = false // the permission was for one start
	atwork.Serve(t, w, accepted, 1)
	if a := w.Answers(t, o.Group); a.Read(t) != w.Fed {
		t.Errorf("%d records have %d answers", w.Fed, a.Read(t))
	}
	copies, err := filepath.Glob(filepath.Join(o.StateDir, "store.aside-*"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("there are the copies %v, %v", copies, err)
	}
	dir := o.StateDir + ".kept"
	servicetest.OK(t, os.CopyFS(filepath.Join(dir, "store"), os.DirFS(copies[0])))
	store, err := state.Open(dir, state.Options{ReadOnly: true})
	servicetest.OK(t, err)
	kept := 0
	for p := range int32(servicetest.Partitions) {
		servicetest.OK(t, store.Partition(p).Iterate(func(_, _ []byte) error {
			kept++
			return nil
		}))
	}
	servicetest.OK(t, store.Close())
	if kept != 12 {
		t.Errorf("the copy has %d states, want 12", kept)
	}
}

// TestAcceptedLossNeedsAnOffset: with the group's offsets gone too, going on would release
// everything again.
func TestAcceptedLossNeedsAnOffset(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 2)
	w.DeleteTopic(t, o.Topics.Changelog, false)
	w.DeleteGroup(t, o.Group)
	o.AcceptLost = true
	if err := fails(t, o, "set it to"); !errors.Is(err, task.ErrLost) {
		t.Errorf("the service ends with %v", err)
	}
	o.AcceptLost = false
	if err := fails(t, o, "the state folder",
		"(changelog-lost)"); !errors.Is(err, task.ErrLost) {
		t.Errorf("the service ends with %v", err)
	}
	plan, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{o.StateDir})
	servicetest.OK(t, err)
	for _, p := range plan.Partitions {
		if !p.NoOffset {
			t.Errorf("rebuilt as %+v", p)
		}
	}
	atwork.Serve(t, w, o, 2)
	atwork.RequireUndisturbed(t, w, "first")
}

// TestChangelogIsRemadeAtWork: a changelog that is deleted under a service, or deleted and
// made again, stops it, at work and idle, and nothing is published beside the new one.
func TestChangelogIsRemadeAtWork(t *testing.T) {
	for name, test := range map[string]struct {
		again, fed bool
		every      time.Duration
	}{
		"deleted, idle":       {false, false, 20 * time.Millisecond},
		"made again, idle":    {true, false, 20 * time.Millisecond},
		"made again, at work": {true, true, time.Hour}, // the task alone sees it
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := servicetest.NewWorld(t, 12)
			for range 4 {
				w.Feed(t)
			}
			o := atwork.Options(w, "first")
			a := w.Answers(t, o.Group)
			r := atwork.Start(t, o, func(s *service.Service) { s.SetChangelogEvery(test.every) })
			servicetest.Await(t, "everything is answered",
				func() bool { return a.Read(t) >= w.Fed }, r)
			w.DeleteTopic(t, o.Topics.Changelog, test.again)
			before := w.Fed
			if test.fed {
				w.Feed(t)
			}
			if err := r.Wait(t); !errors.Is(err, task.ErrLost) ||
				!strings.Contains(err.Error(), "(changelog-lost)") {
				t.Fatalf("the service ends with %v", err)
			}
			if got := a.Read(t); got != before {
				t.Errorf("%d answers have become %d", before, got)
			}
			_, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
				[]string{o.StateDir})
			servicetest.OK(t, err)
			atwork.Serve(t, w, o, 2)
			atwork.RequireUndisturbed(t, w, "first")
		})
	}
}

// TestChangelogIsToDelete: a policy under which the changelog would forget stops the
// service before the broker begins to.
func TestChangelogIsToDelete(t *testing.T) {
	w := servicetest.NewWorld(t, 4)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 2)
	r := atwork.Start(t, o, func(s *service.Service) { s.SetChangelogEvery(20 * time.Millisecond) })
	servicetest.Await(t, "it works",
		func() bool { return strings.Contains(r.Log.String(), "state restored") }, r)
	w.Alter(t, o.Topics.Changelog, "cleanup.policy", "compact,delete")
	var config *admin.ConfigError
	if err := r.Wait(t); !errors.As(err, &config) ||
		!strings.Contains(err.Error(), "accounts of ε") {
		t.Errorf("the service ends with %v", err)
	}
}

// TestSanitizedTopicIsRemade: no account is in the sanitized topic. The service goes on
// into the new one, and what it publishes there is what it would have published.
func TestSanitizedTopicIsRemade(t *testing.T) {
	t.Parallel()
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	w.DeleteTopic(t, o.Topics.Sanitized, false)
	w.Feed(t)
	r := atwork.Start(t, o)
	ends := func() (n int64) {
		for p := range int32(servicetest.Partitions) {
			f, err := consumer.NewFetcher(w.Client, "raw", p, consumer.FetcherOptions{})
			servicetest.OK(t, err)
			_, end, err := f.Bounds(t.Context())
			servicetest.OK(t, err)
			n += end
		}
		return n
	}()
	servicetest.Await(t, "everything is processed", func() bool {
		var n int64
		for p := range int32(servicetest.Partitions) {
			at, _, err := consumer.Committed(t.Context(), w.Client,
				wire.Options{}, o.Group, "raw", p)
			servicetest.OK(t, err)
			n += at
		}
		return n == ends
	}, r)
	r.Stop(t)
	undisturbed := atwork.Options(w, "undisturbed")
	atwork.Serve(t, w, undisturbed, 0)
	want, got := w.View(t, undisturbed.Topics.Sanitized, false),
		w.View(t, o.Topics.Sanitized, false)
	want.Read(t)
	got.Read(t)
	for p := range want.Lines {
		n := len(got.Lines[p])
		if n == 0 || n >= len(want.Lines[p]) {
			t.Fatalf("partition %d: %d records of %d", p, n, len(want.Lines[p]))
		}
		for i, line := range got.Lines[p] {
			if line != want.Lines[p][len(want.Lines[p])-n+i] {
				t.Fatalf("partition %d: record %d is another one", p, i)
			}
		}
	}
}
