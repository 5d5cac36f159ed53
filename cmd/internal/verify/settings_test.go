package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestVerifyUnderOtherSettings: with another config than the service's nothing
// can be recomputed, and after a change of settings only users that came later.
func TestVerifyUnderOtherSettings(t *testing.T) {
	w := atwork.Served(t, 10, 6)
	other := atwork.Options(w, "first")
	other.Release = mechanism.Options{Epsilon: 2, Delta: .01}
	report := atwork.Verify(t, other)
	for _, p := range report.Partitions {
		if p.Verified || p.ViolationCount > 0 || len(p.NotVerified) != 1 ||
			!strings.Contains(p.NotVerified[0], "other settings") {
			t.Errorf("partition %d under another ε: %+v", p.Partition, p)
		}
	}
	for range 15 {
		w.Cells = append(w.Cells, w.Model.SampleInitial(w.Fleet))
	}
	atwork.Serve(t, w, other, 6)
	report = atwork.Verify(t, other)
	if report.Verified {
		t.Error("what was released under other settings is said to be verified")
	}
	users := int64(0)
	for _, p := range report.Partitions {
		if p.ViolationCount > 0 || len(p.NotVerified) != 1 ||
			!strings.Contains(p.NotVerified[0], "settings changed") {
			t.Errorf("partition %d after a change of settings: %+v", p.Partition, p)
		}
		users += p.Users
	}
	if users != 15 {
		t.Errorf("%d users' states are compared, want those of the 15 that came later", users)
	}
	// What can be known is still looked at.
	other.Topics.Sanitized = "later.out"
	w.CopyTopic(t, "first.out", "later.out", 1, func(l []servicetest.Line) []servicetest.Line {
		i := slices.IndexFunc(l, func(l servicetest.Line) bool { return l.Key >= "vehicle-010" })
		l[i] = altered(l[i])
		return l
	})
	found := atwork.Verify(t, other).Partitions[1]
	if len(found.Violations) != 1 || found.Violations[0].Kind != verify.Different {
		t.Errorf("an altered record of a later user: %+v", found)
	}
}

// TestVerifyOutsideAfterOtherSettings: after a change of settings the states of users who
// were there before are not known, so that a late fix outside the map cannot be told from
// one that is outside and not late. Neither is a violation.
func TestVerifyOutsideAfterOtherSettings(t *testing.T) {
	w := atwork.Served(t, 10, 3)
	other := atwork.Options(w, "first")
	other.Release = mechanism.Options{Epsilon: 2, Delta: .01}
	for v := range 10 {
		fix := servicetest.FixAt(w.Model, 205, 5)
		// its user's first step
		fix.UserID, fix.Timestamp = fmt.Sprintf("vehicle-%03d", v), servicetest.StartMS
		late := producer.Record{
			Key: []byte(fix.UserID), Value: servicetest.Encode(t, schemas.Avro, fix),
			Timestamp: fix.Timestamp,
		}
		fix.Timestamp += 10 * 60_000
		outside := producer.Record{
			Key: []byte(fix.UserID), Value: servicetest.Encode(t, schemas.Avro, fix),
			Timestamp: fix.Timestamp,
		}
		w.Send(t, late, outside)
	}
	atwork.Serve(t, w, other, 3)
	for _, p := range atwork.Verify(t, other).Partitions {
		if p.ViolationCount > 0 {
			t.Errorf("partition %d: %+v", p.Partition, p.Violations)
		}
	}
}

// TestVerifyAcrossPartitioners: records that were refused for their partition are fed again after
// topics.partitioner was put right. All that is committed is verified. An altered record is found,
// whether it was committed before the change or after it.
func TestVerifyAcrossPartitioners(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	first := atwork.Options(w, "first")
	first.Partitioner = engine.CRC32 // the feed uses murmur2
	atwork.Serve(t, w, first, 2)
	second := first
	second.Partitioner = engine.Murmur2
	w.Step = 0
	once := second
	once.AcceptLost = true // no user has an account in a partition that is not the user's
	atwork.Serve(t, w, once, 4)
	report := atwork.Verify(t, second)
	if !report.Verified {
		t.Errorf("settings that differ in the partitioner alone do not verify: %+v", report)
	}
	var refused, users int64
	for _, p := range report.Partitions {
		refused, users = refused+p.RefusedPlaces, users+p.Users
	}
	if refused == 0 || users != 6 {
		t.Errorf("%d records are taken as refused, %d users are compared", refused, users)
	}
	for name, at := range map[string]func(n int) int{
		"first": func(int) int { return 0 }, "last": func(n int) int { return n - 1 },
	} {
		second.Topics.Sanitized = name + ".changed"
		const p = 1
		w.CopyTopic(t, "first.out", second.Topics.Sanitized, p,
			func(l []servicetest.Line) []servicetest.Line {
				l[at(len(l))] = altered(l[at(len(l))])
				return l
			})
		if got := atwork.Verify(t, second); got.Partitions[p].Verified {
			t.Errorf("the %s record was altered, and the report says verified", name)
		}
	}
}

// TestVerifyUnproved: where a compacted raw topic may have lost records from before the settings'
// mark, the report says that a change cannot be ruled out, and compares the later users.
func TestVerifyUnproved(t *testing.T) {
	w := atwork.Served(t, 10, 3)
	other := atwork.Options(w, "first")
	other.Release = mechanism.Options{Epsilon: 2, Delta: .01}
	atwork.Serve(t, w, other, 3)
	for policy, want := range map[string]string{
		"delete":  "the settings changed at raw offset ",
		"compact": "it cannot be proved that the settings did not change at raw offset ",
	} {
		w.Alter(t, other.Topics.Raw, "cleanup.policy", policy)
		for _, p := range atwork.Verify(t, other).Partitions {
			if p.Verified || p.ViolationCount > 0 || len(p.NotVerified) != 1 ||
				!strings.HasPrefix(p.NotVerified[0], want) {
				t.Errorf("partition %d of a topic with %s: %+v", p.Partition, policy, p)
			}
		}
	}
}

// TestVerifyMovedAfterSettings: an offset that was moved hides nothing of what a change of settings
// has left as it was: all users are compared, and the offset is the one violation.
func TestVerifyMovedAfterSettings(t *testing.T) {
	w := atwork.Served(t, 10, 3)
	second := atwork.Options(w, "first")
	second.MaxAhead = 7 * time.Minute
	atwork.Serve(t, w, second, 3)
	const p = 1
	users := atwork.Verify(t, second).Partitions[p].Users
	w.MoveOffset(t, second.Group, p, w.LastMarks(t, second.Topics.Changelog)[p].Input-1)
	got := atwork.Verify(t, second).Partitions[p]
	if users == 0 || got.Users != users || got.Verified || len(got.NotVerified) > 0 ||
		len(got.Violations) != 1 || got.Violations[0].Kind != verify.OffsetMoved {
		t.Errorf("%d users are to be compared: %+v", users, got)
	}
}

// TestVerifyMovedWithoutDays: a moved offset is found too where the key no longer has the days of
// the fixes, so that nothing can be said of the results.
func TestVerifyMovedWithoutDays(t *testing.T) {
	w := atwork.Served(t, 10, 3)
	o := atwork.Options(w, "first")
	const p = 1
	w.MoveOffset(t, o.Group, p, w.LastMarks(t, o.Topics.Changelog)[p].Input-1)
	key, err := o.Key.From(noise.DayAt(servicetest.StartMS) + 1)
	servicetest.OK(t, err)
	o.Key = key
	got := atwork.Verify(t, o).Partitions[p]
	if got.Verified || len(got.NotVerified) != 1 || got.ViolationCount != 1 || got.Equal != 0 ||
		len(got.Violations) != 1 || got.Violations[0].Kind != verify.OffsetMoved {
		t.Errorf("%+v", got)
	}
}

// TestVerifyForgedRefusal: after a change of settings that leaves all results as they are, a dead
// letter that says a record lay in the wrong partition cannot excuse that its release and its
// user's state are missing, since no partitioner refuses that record and no other.
func TestVerifyForgedRefusal(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	first := atwork.Options(w, "first")
	first.Partitioner = engine.Murmur2
	const name = "lonely"
	fix := servicetest.FixAt(w.Model, 2, 2)
	fix.UserID, fix.Timestamp = name, servicetest.StartMS
	value := servicetest.Encode(t, schemas.Avro, fix)
	w.Send(t, producer.Record{Key: []byte(name), Value: value, Timestamp: fix.Timestamp})
	atwork.Serve(t, w, first, 2)
	second := first
	second.MaxAhead = 7 * time.Minute
	atwork.Serve(t, w, second, 2)
	if report := atwork.Verify(t, second); !report.Verified {
		t.Errorf("settings that change no result do not verify: %+v", report)
	}
	p, _ := engine.Murmur2.Partition([]byte(name), servicetest.Partitions)
	processor, err := engine.NewProcessor(second.WithDefaults().Settings,
		engine.Partition{Topic: "raw", Number: p, Of: servicetest.Partitions})
	servicetest.OK(t, err)
	offsets, fx := new(engine.Offsets), task.Effects{}
	offsets.Add(0)
	processor.Misplace(offsets, 1)
	record := task.Record{Key: []byte(name), Value: value, Timestamp: fix.Timestamp}
	_, record.Read, err = processor.Key(record)
	servicetest.OK(t, err)
	servicetest.OK(t, processor.Process(record, nil, &fx))
	letter := fx.DeadLetters[0]
	without := func(lines []servicetest.Line) []servicetest.Line {
		return slices.DeleteFunc(lines, func(l servicetest.Line) bool { return l.Key == name })
	}
	forged := second
	forged.Topics.Sanitized, forged.Topics.DeadLetters = "forged.out", "forged.dead"
	forged.Topics.Changelog = "forged.log"
	w.CopyTopic(t, second.Topics.Sanitized, forged.Topics.Sanitized, int(p), without)
	w.CopyTopic(t, second.Topics.Changelog, forged.Topics.Changelog, int(p), without)
	w.CopyTopic(t, second.Topics.DeadLetters, forged.Topics.DeadLetters, int(p),
		func(lines []servicetest.Line) []servicetest.Line {
			return slices.Insert(lines, 0, servicetest.Line{
				Key: string(letter.Key), Value: string(letter.Value), Timestamp: letter.Timestamp,
			})
		})
	if got := atwork.Verify(t, forged).Partitions[p]; got.Verified {
		t.Errorf("a dead letter excuses a release that is missing: %+v", got)
	}
}

// TestVerifyWhileModelsChange: the service goes on with another model after the changelog was read
// and before the outputs are. The verification names that model, and finds no violation.
func TestVerifyWhileModelsChange(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"log.retention.ms": "-1"}))
	servicetest.OK(t, err)
	t.Cleanup(cluster.Close)
	w := servicetest.NewWorldAt(t, cluster.ListenAddrs()[0], 20)
	o := atwork.Options(w, "first")
	atwork.Serve(t, w, o, 4)
	// A partition asks for its offset before and after it reads the changelog.
	asked, read, goOn := map[int32]int{}, make(chan struct{}), make(chan struct{})
	cluster.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (
		kmsg.Response, error, bool,
	) {
		cluster.KeepControl()
		if partition := askedPartition(r.(*kmsg.OffsetFetchRequest)); asked != nil {
			if asked[partition]++; asked[partition] == 2 {
				asked = nil
				cluster.SleepControl(func() { close(read); <-goOn })
			}
		}
		return nil, nil, false
	})
	reported := make(chan verify.Report, 1)
	go func() { reported <- atwork.Verify(t, o) }()
	<-read
	longer := o
	longer.Later = []*engine.Version{atwork.Version(t, w.Step,
		servicetest.NeighbourModel(t, servicetest.Town, 1000, 9))}
	atwork.Serve(t, w, longer, 4)
	close(goOn)
	report, said := <-reported, 0
	for _, p := range report.Partitions {
		if p.ViolationCount > 0 {
			t.Errorf("partition %d: %+v", p.Partition, p)
		}
		for _, n := range p.NotVerified {
			if strings.Contains(n, "changed while it was verified") && strings.Contains(n,
				longer.Later[0].ID.Model.String()) {
				said++
			}
		}
	}
	if said == 0 {
		t.Errorf("nothing says that the models have changed: %+v", report)
	}
}

// askedPartition is the partition that a request asks about.
func askedPartition(r *kmsg.OffsetFetchRequest) int32 {
	if len(r.Groups) > 0 {
		return r.Groups[0].Topics[0].Partitions[0]
	}
	return r.Topics[0].Partitions[0]
}
