package erase_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/replay"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// user shares no beginning with another user, so a table does not shorten the id.
const user = "zoe-4c1f9a"

// feed feeds steps of the fleet, and a fix of the user in each.
func feed(t *testing.T, w *servicetest.World, steps int) {
	t.Helper()
	for range steps {
		at := servicetest.StepTime(w.Step).UnixMilli()
		w.Feed(t)
		lat, lon := w.Model.Grid.ToDegrees(w.Model.Grid.Centre(w.Cells[0]))
		value, err := w.Codec.AppendRaw(nil, schemas.Raw{
			UserID: user, Timestamp: at, Latitude: lat, Longitude: lon,
		})
		servicetest.OK(t, err)
		w.Send(t, producer.Record{Key: []byte(user), Value: value, Timestamp: at})
	}
}

// serve runs a service over steps of the feed until it has answered everything.
func serve(t *testing.T, w *servicetest.World, o service.Options, steps int) {
	t.Helper()
	feed(t, w, steps)
	atwork.Serve(t, w, o, 0)
}

func options(o service.Options, users ...string) erase.Options {
	return erase.Options{
		Settings: o.Settings, Cluster: o.Cluster, StateDir: o.StateDir, Users: users,
		Logger: o.Logger,
	}
}

// requireVerified requires that everything can be computed again, erasures and all.
func requireVerified(t *testing.T, o service.Options) {
	t.Helper()
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("not verified: %+v", report)
	}
}

func run(t *testing.T, o erase.Options) erase.Result {
	t.Helper()
	result, err := erase.Run(t.Context(), o)
	servicetest.OK(t, err)
	return result
}

// TestStopped: after a clean stop the command erases at once. No byte of the user is left in the
// folder, the account stays, and the user's return goes on with it.
func TestStopped(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "first")
	serve(t, w, o, 3)
	before, err := account.User(t.Context(), atwork.AccountOptions(o), user)
	servicetest.OK(t, err)
	result := run(t, options(o, user))
	if len(result.Receipts) != 1 || len(result.Unknown)+len(result.Pending) > 0 {
		t.Fatalf("%+v", result)
	}
	r := result.Receipts[0]
	if r.ChangelogTombstoneOffset == nil || !r.Account.Kept || r.Partition != before.Partition {
		t.Errorf("%+v", r)
	}
	requireGone(t, o.StateDir)
	if _, err := account.User(t.Context(), atwork.AccountOptions(o), user); !errors.Is(err,
		account.ErrNoState) {
		t.Errorf("after the erasure: %v", err)
	}
	again := run(t, options(o, user))
	if len(again.Receipts) != 1 || *again.Receipts[0].ChangelogTombstoneOffset !=
		*r.ChangelogTombstoneOffset || !again.Receipts[0].ErasedAt.Equal(r.ErasedAt) {
		t.Errorf("repeated: %+v, not %+v", again, r)
	}
	requireVerified(t, o)
	serve(t, w, o, 1)
	requireVerified(t, o)
	after, err := account.User(t.Context(), atwork.AccountOptions(o), user)
	servicetest.OK(t, err)
	if after.Releases != before.Releases+1 ||
		after.EpsilonSpent != before.EpsilonSpent+servicetest.Release.Epsilon {
		t.Errorf("the account went from %d releases, Σε %v to %d, %v", before.Releases,
			before.EpsilonSpent, after.Releases, after.EpsilonSpent)
	}
}

// TestBudgetStays: a user who has spent a budget and is erased has no other one, by the published
// records: neither at once nor after a second erasure, and neither in a window nor for life.
func TestBudgetStays(t *testing.T) {
	for _, budget := range []mechanism.Budget{
		{Epsilon: 2 * servicetest.Release.Epsilon, WindowSteps: 600},
		{Lifetime: 2 * servicetest.Release.Epsilon},
	} {
		w := servicetest.NewWorld(t, 6)
		o := atwork.Options(w, "first")
		o.Release.Budget = budget
		for range 3 {
			serve(t, w, o, 2)
			run(t, options(o, user))
		}
		serve(t, w, o, 1)
		if spent := w.Spent(t, o.Topics.Sanitized)[user]; spent != 2*servicetest.Release.Epsilon {
			t.Errorf("%+v: Σε = %g with three erasures", budget, spent)
		}
	}
}

// TestReplay: a range that goes on after an erasure is no first release again, and says why; one
// that ends there is.
func TestReplay(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "first")
	serve(t, w, o, 3)
	r := run(t, options(o, user)).Receipts[0]
	serve(t, w, o, 1)
	plan := func(to string) replay.Plan {
		options := replay.Options{Output: "again", TempDir: t.TempDir()}
		if to != "" {
			servicetest.OK(t, options.To.Set(to))
		}
		plan, err := replay.NewPlan(t.Context(), o, options)
		servicetest.OK(t, err)
		return plan
	}
	if p := plan(""); p.Identical ||
		!strings.Contains(fmt.Sprint(p.Partitions[r.Partition].Differs), "a user was erased") {
		t.Errorf("%+v", p)
	}
	if p := plan(fmt.Sprint(r.RawOffset)); !p.Identical {
		t.Errorf("a range that ends at the erasure: %+v", p)
	}
}

// TestReset drops the account as well. The number of releases goes on: under the same number and
// step the same noise would be drawn twice.
func TestReset(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "first")
	serve(t, w, o, 3)
	before, err := account.User(t.Context(), atwork.AccountOptions(o), user)
	servicetest.OK(t, err)
	e := options(o, user)
	run(t, e) // the account is kept, and goes with the second
	e.ResetBudget = true
	r := run(t, e).Receipts[0]
	if r.Account.Kept || r.Account.Code != "dropped" {
		t.Errorf("%+v", r.Account)
	}
	requireVerified(t, o)
	serve(t, w, o, 1)
	requireVerified(t, o)
	after, err := account.User(t.Context(), atwork.AccountOptions(o), user)
	servicetest.OK(t, err)
	if after.Releases != before.Releases+1 || after.EpsilonSpent != servicetest.Release.Epsilon {
		t.Errorf("after a reset: %d releases, Σε %v", after.Releases, after.EpsilonSpent)
	}
}

// TestNeeded: a receipt says what an account is kept for, and until when if that ends.
func TestNeeded(t *testing.T) {
	for want, budget := range map[string]mechanism.Budget{
		"kept_for_sums": {}, "kept_for_lifetime": {Lifetime: 90},
		"kept_for_window": {Epsilon: 9, WindowSteps: 60},
	} {
		w := servicetest.NewWorld(t, 6)
		o := atwork.Options(w, "first")
		o.Release.Budget = budget
		serve(t, w, o, 3)
		a := run(t, options(o, user)).Receipts[0].Account
		if a.Code != want || !a.Kept || (a.NeededUntil == nil) != (budget.WindowSteps == 0) {
			t.Errorf("%+v: %+v, want %q", budget, a, want)
		}
	}
}

// TestIdle: a running service that has nothing to do follows without a record, and its folder too.
func TestIdle(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "first")
	a := w.Answers(t, o.Group)
	feed(t, w, 3)
	s := atwork.Start(t, o)
	servicetest.Await(t, "everything is answered", func() bool { return a.Read(t) >= w.Fed }, s)
	result := run(t, options(o, user))
	if len(result.Receipts) != 1 || result.Receipts[0].LocalStore != "in_use" {
		t.Fatalf("%+v", result)
	}
	servicetest.Await(t, "the owner has caught up, without a record", func() bool {
		return bytes.Count(s.Log.Bytes(), []byte("state restored")) > servicetest.Partitions
	}, s)
	requireGone(t, o.StateDir)
	feed(t, w, 1)
	servicetest.Await(t, "the service goes on", func() bool {
		return o.Counters.Snapshot().RecordsIn >= w.Fed
	}, s)
	s.Stop(t)
	after, err := account.User(t.Context(), atwork.AccountOptions(o), user)
	servicetest.OK(t, err)
	requireVerified(t, o)
	if after.Releases != 4 {
		t.Errorf("%d releases after the user's return", after.Releases)
	}
}

// TestTwoInstances erases while instances are in the middle of their input: whichever has the
// partition carries out the request, once, and no log names the user. At a boundary of the input,
// such as one where the partition has just changed hands, the command erases without a request.
func TestTwoInstances(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	one := atwork.Options(w, "first")
	two := one
	two.StateDir, two.Counters = one.StateDir+"-2", new(engine.Counters)
	a := w.Answers(t, one.Group)
	const steps = 150
	feed(t, w, steps)
	s1, s2 := atwork.Start(t, one), atwork.Start(t, two)
	servicetest.Await(t, "the user is known", func() bool {
		_, err := account.User(t.Context(), atwork.AccountOptions(one), user)
		return err == nil
	}, s1, s2)
	result := run(t, options(one, user))
	if len(result.Receipts) != 1 || result.Receipts[0].RawOffset == 0 {
		t.Fatalf("%+v", result)
	}
	servicetest.Await(t, "everything is answered",
		func() bool { return a.Read(t) >= w.Fed }, s1, s2)
	s1.Stop(t)
	feed(t, w, 1)
	servicetest.Await(t, "the other goes on", func() bool { return a.Read(t) >= w.Fed }, s2)
	s2.Stop(t)
	requireVerified(t, one)
	if bytes.Count(append(s1.Log.Bytes(), s2.Log.Bytes()...), []byte("users erased")) > 1 {
		t.Errorf("the request was carried out twice:\n%s\n%s", s1.Log, s2.Log)
	}
	for _, s := range []*atwork.Running{s1, s2} {
		if bytes.Contains(s.Log.Bytes(), []byte(user)) {
			t.Errorf("the log names the user:\n%s", s.Log)
		}
	}
	after, err := account.User(t.Context(), atwork.AccountOptions(one), user)
	servicetest.OK(t, err)
	if after.Releases != steps+1 {
		t.Errorf("%d releases, want one for each of %d steps", after.Releases, steps+1)
	}
}

// TestPending: a service that was killed with records in hand has to be started for the erasure.
// The request waits in the changelog, and the repeated command gives the receipt.
func TestPending(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	o := atwork.Options(w, "first")
	serve(t, w, o, 3)
	feed(t, w, 1)
	p := servicetest.Murmur2Place([]byte(user))
	open(t, w, o, p)
	result, err := erase.Run(t.Context(), options(o, user))
	if !errors.Is(err, erase.ErrPending) || !strings.Contains(err.Error(), "start it") ||
		len(result.Pending) != 1 || len(result.Receipts) != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	atwork.Serve(t, w, o, 0)
	if result = run(t, options(o, user)); len(result.Receipts) != 1 {
		t.Fatalf("%+v", result)
	}
	requireVerified(t, o)
	requireGone(t, o.StateDir)
}

// open writes the last mark of a partition once more, as a worker leaves it that is killed.
func open(t *testing.T, w *servicetest.World, o service.Options, p int32) {
	t.Helper()
	o.Cluster = o.Cluster.WithDefaults()
	mark, _, err := topics.LastMark(t.Context(), w.Client, o.Topics.Changelog, p)
	servicetest.OK(t, err)
	mark.Open = true
	tx, err := producer.NewTransactional(w.Client, o.TransactionalID(p), producer.Options{})
	servicetest.OK(t, err)
	servicetest.OK(t, tx.Init(t.Context()))
	_, err = tx.Produce(t.Context(), producer.Batch{
		TopicPartition: producer.TopicPartition{Topic: o.Topics.Changelog, Partition: p},
		Records: []producer.Record{{
			Key: []byte(task.MarkKey), Value: task.AppendMark(nil, mark), Timestamp: 1,
		}},
	})
	servicetest.OK(t, err)
	_, err = tx.Commit(t.Context())
	servicetest.OK(t, err)
}

// TestNobody: wrong uses.
func TestNobody(t *testing.T) {
	w := atwork.Served(t, 4, 2)
	o := atwork.Options(w, "first")
	result := run(t, options(o, "vehicle-001", "nobody", "vehicle-002"))
	if len(result.Unknown) != 1 || result.Unknown[0] != 1 || len(result.Receipts) != 2 {
		t.Errorf("%+v", result)
	}
	for words, users := range map[string][]string{
		"at least one user": {}, "user 2 is empty": {"a", ""}, "user 2 is named twice": {"a", "a"},
	} {
		if _, err := erase.Run(t.Context(), options(o, users...)); err == nil ||
			!strings.Contains(err.Error(), words) {
			t.Errorf("users %q: %v", users, err)
		}
	}
	o.Release.Epsilon = 2
	if _, err := erase.Run(t.Context(), options(o, "vehicle-000")); err == nil ||
		!strings.Contains(err.Error(), "other settings") {
		t.Errorf("under another ε: %v", err)
	}
}

func TestGoneBy(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	day := "86400000"
	by := erase.GoneBy(at, map[string]string{
		"max.compaction.lag.ms": day, "delete.retention.ms": day, "segment.ms": "604800000",
	})
	if by == nil || !by.Equal(at.AddDate(0, 0, 3)) {
		t.Errorf("%v", by)
	}
	for _, lag := range []string{"9223372036854775807", "", "0", "9223372036854"} {
		by := erase.GoneBy(at, map[string]string{
			"max.compaction.lag.ms": lag, "delete.retention.ms": day,
		})
		if by != nil {
			t.Errorf("with a lag of %q: %v", lag, by)
		}
	}
}

func requireGone(t *testing.T, dir string) {
	t.Helper()
	var files []string
	for range 200 { // the store deletes files in the background
		if files = holding(t, dir); len(files) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%v still have the user's id", files)
}

// holding lists the files below a folder that have the user's id.
func holding(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(user)) {
			files = append(files, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	servicetest.OK(t, err)
	return files
}
