package account_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/state"
)

// TestRebuildRefuses whatever would leave something out of an account: a running service,
// states that lag, folders of others, partitions without a folder.
func TestRebuildRefuses(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	old := o.StateDir + ".old"
	servicetest.OK(t, os.CopyFS(old, os.DirFS(o.StateDir)))
	refused := func(what string, o service.Options, folders []string, want ...string) {
		t.Helper()
		for _, keep := range []bool{true, false} {
			plan, err := account.RebuildChangelog(t.Context(),
				atwork.RepairOptions(o, keep, false), folders)
			if err == nil {
				t.Errorf("%s: rebuilt as %+v", what, plan)
				continue
			}
			for _, part := range want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: the error %q does not say %q", what, err, part)
				}
			}
		}
	}
	refused("nothing is lost", o, []string{o.StateDir}, "nothing to write back")

	for range 3 {
		w.Feed(t)
	}
	a := w.Answers(t, o.Group)
	r := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, r)
	refused("a service at work", o, []string{old}, "has members")
	r.Stop(t)

	w.DeleteTopic(t, o.Topics.Changelog, false)
	changed := o
	changed.Release.Epsilon *= 2
	refused("states that lag", changed, []string{old}, "the newest states", "lag behind the group",
		old, "other settings")
	refused("no folder has them", o, nil, "no folder has states of it")
	refused("a folder that is not there", o, []string{o.StateDir + ".none"}, "no store")
	other := atwork.Options(w, "second")
	atwork.Serve(t, w, other, 0)
	refused("another service's folder", o, []string{other.StateDir}, "belongs to another group")
	if w.Exists(t, o.Topics.Changelog) {
		t.Error("a refusal has made the topic")
	}

	// A dry run writes nothing; the newest of several folders counts; a second run has
	// nothing left to do.
	for _, keep := range []bool{true, false} {
		plan, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, keep, false),
			[]string{old, o.StateDir, old})
		servicetest.OK(t, err)
		users := 0
		for _, p := range plan.Partitions {
			users += p.Users
			if p.Folder != o.StateDir || p.NoOffset || p.Kept {
				t.Errorf("partition %d: %+v", p.Number, p)
			}
		}
		if users != 12 || !plan.Made || w.Exists(t, o.Topics.Changelog) == keep {
			t.Errorf("keep %v: %d users, %+v", keep, users, plan)
		}
	}
	refused("it is written back already", o, []string{o.StateDir}, "nothing to write back")
	atwork.Serve(t, w, o, 2)
	w.DeleteTopic(t, o.Topics.Changelog, false)
	refused("two changelogs", o, []string{old, o.StateDir}, "copies of two changelogs")
	_, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{o.StateDir})
	servicetest.OK(t, err)
	atwork.Serve(t, w, o, 1)
	atwork.RequireUndisturbed(t, w, "first")
	w.DeleteTopic(t, o.Topics.Changelog, false)
	w.DeleteGroup(t, o.Group)
	refused("a group without offsets", o, nil, "partition 2: no folder has its states")
}

// TestRebuildFromSeveralFolders: each instance has the states of its own partitions, and
// old copies of others'. One folder alone is refused, all together are whole.
func TestRebuildFromSeveralFolders(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	a := w.Answers(t, o.Group)
	atwork.Serve(t, w, o, 2) // the first instance has all partitions
	second := o
	second.StateDir, second.Counters = o.StateDir+".second", new(engine.Counters)
	o.Counters = new(engine.Counters)
	one, two := atwork.Start(t, o), atwork.Start(t, second)
	servicetest.Await(t, "both have partitions", func() bool {
		w.Feed(t)
		return o.Counters.Snapshot().RecordsIn > 0 && second.Counters.Snapshot().RecordsIn > 0 &&
			a.Read(t) > 0
	}, one, two)
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, one, two)
	ends := make(chan struct{}, 2)
	for _, r := range []*atwork.Running{one, two} {
		// both at once, so that neither gets the other's partitions
		go func() { r.Cancel(); <-r.Done(); ends <- struct{}{} }()
	}
	<-ends
	<-ends
	servicetest.OK(t, errors.Join(one.Err, two.Err))
	w.DeleteTopic(t, o.Topics.Changelog, false)
	for _, folders := range [][]string{{o.StateDir}, {second.StateDir}} {
		if plan, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, true, false),
			folders); err == nil {
			t.Logf("%s has taken everything over before its end: %+v", folders, plan)
		}
	}
	plan, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{o.StateDir, second.StateDir})
	servicetest.OK(t, err)
	t.Logf("rebuilt as %+v", plan.Partitions)
	atwork.Serve(t, w, second, 2)
	atwork.Serve(t, w, o, 2)
	atwork.RequireUndisturbed(t, w, "first")
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("afterwards: %+v", report)
	}
}

// TestRebuildChecksTheMark: a store whose mark does not belong to its states, or that has
// none, is not written back.
func TestRebuildChecksTheMark(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	w.DeleteTopic(t, o.Topics.Changelog, false)
	for what, change := range map[string]struct {
		mark func(task.Mark) []byte
		want string
	}{
		"none": {func(task.Mark) []byte { return nil }, "has no mark"},
		"another": {
			func(m task.Mark) []byte { m.Input++; return task.AppendMark(nil, m) },
			"its mark says",
		},
		"another raw topic's": {func(m task.Mark) []byte {
			m.Source = []byte("another")
			return task.AppendMark(nil, m)
		}, "deleted and made again"},
	} {
		dir := o.StateDir + "." + strings.ReplaceAll(what, " ", "-")
		servicetest.OK(t, os.CopyFS(dir, os.DirFS(o.StateDir)))
		looked, err := state.Open(dir, state.Options{ReadOnly: true})
		servicetest.OK(t, err)
		identity := looked.Identity()
		servicetest.OK(t, looked.Close())
		store, err := state.Open(dir, state.Options{Identity: identity})
		servicetest.OK(t, err)
		for n := range int32(servicetest.Partitions) {
			p := store.Partition(n)
			at, _, err := p.Positions()
			servicetest.OK(t, err)
			value, err := p.Get([]byte(state.MarkName))
			servicetest.OK(t, err)
			m, err := task.DecodeMark(value)
			servicetest.OK(t, err)
			servicetest.OK(t, p.Apply(
				[]state.Change{{Key: []byte(state.MarkName), Value: change.mark(m)}}, at))
		}
		servicetest.OK(t, store.Close())
		if _, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
			[]string{dir}); err == nil || !strings.Contains(err.Error(), change.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRebuildRemoves: what the lost end of a changelog had removed, such as an erased user's state,
// is removed again.
func TestRebuildRemoves(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 3)
	looked, err := state.Open(o.StateDir, state.Options{ReadOnly: true})
	servicetest.OK(t, err)
	identity := looked.Identity()
	servicetest.OK(t, looked.Close())
	store, err := state.Open(o.StateDir, state.Options{Identity: identity})
	servicetest.OK(t, err)
	p := store.Partition(0)
	at, _, err := p.Positions()
	servicetest.OK(t, err)
	var user []byte
	servicetest.OK(t, p.Iterate(func(key, _ []byte) error {
		user = bytes.Clone(key)
		return nil
	}))
	at.Changelog += 2 // where the removal lay
	servicetest.OK(t, p.Apply([]state.Change{{Key: user}}, at))
	servicetest.OK(t, store.Close())
	plan, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{o.StateDir})
	servicetest.OK(t, err)
	for _, p := range plan.Partitions {
		if (p.Folder != "") != (p.Number == 0) {
			t.Errorf("rebuilt as %+v", p)
		}
	}
	_, err = account.User(t.Context(), atwork.AccountOptions(o), string(user))
	if err == nil || !strings.Contains(err.Error(), "has no state") {
		t.Errorf("the user: %v", err)
	}
	atwork.Serve(t, w, o, 1)
}
