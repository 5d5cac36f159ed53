package pipeline

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// remakeRaw deletes the raw topic and makes it anew, with its number of partitions.
func (w *world) remakeRaw(tb testing.TB) {
	tb.Helper()
	w.deleteTopic(tb, "raw", false)
	ok(tb, admin.CreateTopics(tb.Context(), w.client, wire.Options{},
		admin.Topic{Name: "raw", Partitions: partitions}))
}

// TestFolderOfAnEarlierCluster: topics that were in memory are gone with the offsets. No
// account was lost here, and the way out is to give the state folder up.
func TestFolderOfAnEarlierCluster(t *testing.T) {
	for _, accept := range []bool{false, true} {
		w := newWorld(t, 12)
		o := w.options("first")
		w.serve(t, o, 2)
		for _, topic := range []string{o.Topics.Changelog, o.Topics.Sanitized, o.Topics.DeadLetters} {
			w.deleteTopic(t, topic, false)
		}
		ok(t, deleteGroup(t.Context(), w.client, o.Group))
		w.remakeRaw(t)
		o.AcceptLost = accept
		err := fails(t, o, "of another cluster or of an earlier raw topic",
			"state reset --discard-account")
		if !errors.Is(err, task.ErrLost) || strings.Contains(err.Error(), "rebuild-changelog") {
			t.Errorf("accepting %t, the service ends with %v", accept, err)
		}
		bad := details(Diagnose(t.Context(), o), LevelFailure)
		if !strings.Contains(bad, "account: the state folder") {
			t.Errorf("accepting %t, the doctor finds %s", accept, bad)
		}
		_, err = ResetState(t.Context(), o, false, true)
		ok(t, err)
		o.AcceptLost = false
		r := start(t, o)
		await(t, "it works", func() bool {
			return strings.Contains(r.log.String(), "state restored")
		}, r)
		r.stop(t)
	}
}

// TestDiagnoseRemadeRaw: the doctor refuses what run refuses, in the same words.
func TestDiagnoseRemadeRaw(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	if found := details(Diagnose(t.Context(), o), LevelOK); !strings.Contains(found,
		"account: nothing processed yet") {
		t.Errorf("before anything was processed: %s", found)
	}
	w.serve(t, o, 2)
	if found := details(Diagnose(t.Context(), o), LevelOK); !strings.Contains(found,
		"account: the changelog has states") {
		t.Errorf("after something was processed: %s", found)
	}
	w.remakeRaw(t)
	bad := details(Diagnose(t.Context(), o), LevelFailure)
	if !strings.Contains(bad, task.ErrSource.Error()) {
		t.Errorf("the doctor finds %s", bad)
	}
	if err := fails(t, o, "set another group"); !errors.Is(err, task.ErrSource) {
		t.Errorf("the service ends with %v", err)
	}
}

// TestAcceptedLossIsNotTrouble: the looks before a loss is accepted are no warnings.
func TestAcceptedLossIsNotTrouble(t *testing.T) {
	for accept, want := range map[bool]int{false: 1, true: 0} {
		var log captured
		o := &observer{log: log.logger(), caller: caller(0), acceptLost: accept}
		o.Retried(task.ErrLost, time.Second)
		if n := strings.Count(log.String(), "level=WARN"); n != want {
			t.Errorf("accepting %t: %d warnings", accept, n)
		}
	}
}

// TestFolderOfTheChangelogBefore: after a rebuild the folder is set aside, and nobody is told
// to name another one.
func TestFolderOfTheChangelogBefore(t *testing.T) {
	w := newWorld(t, 12)
	o := w.options("first")
	w.serve(t, o, 2)
	w.deleteTopic(t, o.Topics.Changelog, false)
	_, err := RebuildChangelog(t.Context(), o, []string{o.StateDir}, false)
	ok(t, err)
	r := start(t, o)
	await(t, "it works", func() bool {
		return strings.Contains(r.log.String(), "state restored")
	}, r)
	r.stop(t)
	log := r.log.String()
	if !strings.Contains(log, "it belongs to the changelog before") ||
		strings.Contains(log, "another group or topic") {
		t.Errorf("the log says\n%s", log)
	}
	if strings.Contains(log, "wiped=") || !strings.Contains(log, "fresh=true") {
		t.Errorf("an empty store is not called fresh:\n%s", log)
	}
}
