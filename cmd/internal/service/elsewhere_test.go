package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// remakeRaw deletes the raw topic and makes it again, with its number of partitions.
func remakeRaw(tb testing.TB, w *servicetest.World) {
	tb.Helper()
	w.DeleteTopic(tb, "raw", false)
	servicetest.OK(tb, admin.CreateTopics(tb.Context(), w.Client, wire.Options{},
		admin.Topic{Name: "raw", Partitions: servicetest.Partitions}))
}

// TestFolderOfAnEarlierCluster: topics that were in memory are gone with the offsets. No
// account was lost here, and the way out is to give the state folder up.
func TestFolderOfAnEarlierCluster(t *testing.T) {
	t.Parallel()
	for _, accept := range []bool{false, true} {
		w := servicetest.NewWorld(t, 12)
		o := atwork.Options(w, "first")
		atwork.Serve(t, w, o, 2)
		for _, topic := range []string{
			o.Topics.Changelog, o.Topics.Sanitized, o.Topics.DeadLetters,
		} {
			w.DeleteTopic(t, topic, false)
		}
		w.DeleteGroup(t, o.Group)
		remakeRaw(t, w)
		o.AcceptLost = accept
		err := fails(t, o, "of another cluster or of an earlier raw topic",
			"(folder-elsewhere)")
		if !errors.Is(err, task.ErrLost) || strings.Contains(err.Error(), "rebuild-changelog") {
			t.Errorf("accepting %t, the service ends with %v", accept, err)
		}
		bad := atwork.Details(service.Examine(t.Context(), o, nil, nil), checks.Failure)
		if !strings.Contains(bad, "account: the state folder") {
			t.Errorf("accepting %t, the doctor finds %s", accept, bad)
		}
		_, err = account.ResetFolder(t.Context(), atwork.RepairOptions(o, false, true))
		servicetest.OK(t, err)
		o.AcceptLost = false
		r := atwork.Start(t, o)
		servicetest.Await(t, "it works", func() bool {
			return strings.Contains(r.Log.String(), "state restored")
		}, r)
		r.Stop(t)
	}
}

// TestFolderOfTheChangelogBefore: after a rebuild the folder is set aside, and nobody is told
// to name another one.
func TestFolderOfTheChangelogBefore(t *testing.T) {
	w := servicetest.NewWorld(t, 12)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 2)
	w.DeleteTopic(t, o.Topics.Changelog, false)
	_, err := account.RebuildChangelog(t.Context(), atwork.RepairOptions(o, false, false),
		[]string{o.StateDir})
	servicetest.OK(t, err)
	r := atwork.Start(t, o)
	servicetest.Await(t, "it works", func() bool {
		return strings.Contains(r.Log.String(), "state restored")
	}, r)
	r.Stop(t)
	log := r.Log.String()
	if !strings.Contains(log, "it belongs to the changelog before") ||
		strings.Contains(log, "another group or topic") {
		t.Errorf("the log says\n%s", log)
	}
	if strings.Contains(log, "wiped=") || !strings.Contains(log, "fresh=true") {
		t.Errorf("an empty store is not called fresh:\n%s", log)
	}
}
