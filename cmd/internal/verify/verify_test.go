package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// requireKinds requires that violations of just these kinds were found, all of
// them in one partition.
func requireKinds(tb testing.TB, r verify.Report, partition int32, kinds ...string) {
	tb.Helper()
	if r.Verified {
		tb.Error("the report says verified")
	}
	for _, p := range r.Partitions {
		found := map[string]bool{}
		for _, v := range p.Violations {
			found[v.Kind] = true
		}
		if p.Partition != partition {
			if !p.Verified || len(found) > 0 {
				tb.Errorf("partition %d, which nobody touched, has %+v", p.Partition, p)
			}
			continue
		}
		for _, kind := range kinds {
			if !found[kind] {
				tb.Errorf("no violation %q is found: %+v", kind, p)
			}
			delete(found, kind)
		}
		if len(found) > 0 {
			tb.Errorf("violations that are none are found: %+v", p.Violations)
		}
	}
}

// TestVerify: what a service has published is verified, with all of it counted;
// also while another one works on it.
func TestVerify(t *testing.T) {
	w := atwork.Served(t, 30, 12)
	report := atwork.Verify(t, atwork.Options(w, "first"))
	if !report.Verified {
		t.Fatalf("a clean run does not verify: %+v", report)
	}
	var raw, answered, users int64
	for _, p := range report.Partitions {
		raw, answered, users = raw+p.Raw, answered+p.Sanitized+p.DeadLetters, users+p.Users
	}
	if raw != w.Fed || answered != w.Fed || users != 30 {
		t.Errorf("%d raw records, %d answers and %d users are counted, want %d, as many, and 30",
			raw, answered, users, w.Fed)
	}
	t.Run("beside a service", func(t *testing.T) {
		service := atwork.Start(t, atwork.Options(w, "first"))
		for range 3 {
			w.Feed(t)
			if report := atwork.Verify(t, atwork.Options(w, "first")); !report.Verified {
				t.Errorf("a running service does not verify: %+v", report)
			}
		}
		service.Stop(t)
	})
	t.Run("nothing yet", func(t *testing.T) {
		o := atwork.Options(w, "nobody")
		servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{}, o.Topics))
		report := atwork.Verify(t, o)
		if report.Verified || !strings.Contains(fmt.Sprint(report.Partitions[0].NotVerified),
			"group nobody has committed nothing") {
			t.Errorf("a service that never ran has %+v", report)
		}
	})
	t.Run("no topics", func(t *testing.T) {
		if _, err := verify.Run(t.Context(), atwork.VerifyOptions(atwork.Options(w, "typo"),
			"")); err == nil || !strings.Contains(err.Error(), "typo") {
			t.Errorf("the error is %v", err)
		}
	})
}

// altered changes the last byte of a record's value.
func altered(l servicetest.Line) servicetest.Line {
	b := []byte(l.Value)
	b[len(b)-1] ^= 2
	l.Value = string(b)
	return l
}

// TestVerifyFindsDamage: each way in which the output can be wrong is found, in
// its partition, and named.
func TestVerifyFindsDamage(t *testing.T) {
	w := atwork.Served(t, 30, 12)
	const p, at = 1, 20
	cases := map[string]struct {
		change func([]servicetest.Line) []servicetest.Line
		kinds  []string
	}{
		"removed": {
			func(l []servicetest.Line) []servicetest.Line { return slices.Delete(l, at, at+1) },
			[]string{verify.Missing},
		},
		"first removed": {
			func(l []servicetest.Line) []servicetest.Line { return l[1:] },
			[]string{verify.Missing},
		},
		"last removed": {
			func(l []servicetest.Line) []servicetest.Line { return l[:len(l)-1] },
			[]string{verify.Missing},
		},
		"all removed": {
			func([]servicetest.Line) []servicetest.Line { return []servicetest.Line{} },
			[]string{verify.Missing},
		},
		"duplicated": {
			func(l []servicetest.Line) []servicetest.Line { return slices.Insert(l, at, l[at]) },
			[]string{verify.Duplicate},
		},
		"duplicated late": {
			func(l []servicetest.Line) []servicetest.Line { return append(l, l[len(l)-3]) },
			[]string{verify.Duplicate},
		},
		"altered": {
			func(l []servicetest.Line) []servicetest.Line { l[at] = altered(l[at]); return l },
			[]string{verify.Different},
		},
		"another time": {
			func(l []servicetest.Line) []servicetest.Line { l[at].Timestamp++; return l },
			[]string{verify.Different},
		},
		"swapped": {func(l []servicetest.Line) []servicetest.Line {
			l[at], l[at+1] = l[at+1], l[at]
			return l
		}, []string{verify.Order}},
		"moved": {func(l []servicetest.Line) []servicetest.Line {
			late := l[at]
			return append(slices.Delete(l, at, at+1), late)
		}, []string{verify.Order}},
		"foreign": {func(l []servicetest.Line) []servicetest.Line {
			return slices.Insert(l, at,
				servicetest.Line{Key: "somebody", Value: "something", Timestamp: 1})
		}, []string{verify.Extra}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := atwork.Options(w, "first")
			o.Topics.Sanitized = strings.ReplaceAll(name, " ", "-") + ".out"
			w.CopyTopic(t, "first.out", o.Topics.Sanitized, p,
				func(l []servicetest.Line) []servicetest.Line {
					if len(l) <= at+2 {
						t.Fatalf("there are %d records only", len(l))
					}
					return c.change(l)
				})
			report := atwork.Verify(t, o)
			requireKinds(t, report, p, c.kinds...)
			if n := report.Partitions[p].ViolationCount; n != 1 && name != "all removed" {
				t.Errorf("%d violations are counted, want 1: %+v",
					n, report.Partitions[p].Violations)
			}
		})
	}
	for name, change := range map[string]func([]servicetest.Line) []servicetest.Line{
		"removed": func(l []servicetest.Line) []servicetest.Line { return l[1:] },
		"altered": func(l []servicetest.Line) []servicetest.Line {
			l[0] = altered(l[0])
			return l
		},
		"duplicated": func(l []servicetest.Line) []servicetest.Line {
			return append(l, l[len(l)-1])
		},
	} {
		t.Run("dead letter "+name, func(t *testing.T) {
			o := atwork.Options(w, "first")
			o.Topics.DeadLetters = name + ".dead"
			w.CopyTopic(t, "first.dead", o.Topics.DeadLetters, p, change)
			requireKinds(t, atwork.Verify(t, o), p, verify.DeadLetter)
		})
	}
}

// TestVerifyFindsOtherReleases: an aborted transaction may repeat a record, and
// nothing else.
func TestVerifyFindsOtherReleases(t *testing.T) {
	w := atwork.Served(t, 30, 12)
	v := w.View(t, "first.out", false)
	v.Read(t)
	const p = 2
	w.Write(t, false, "first.out", p, v.Lines[p][5:15]...)
	report := atwork.Verify(t, atwork.Options(w, "first"))
	if !report.Verified || report.Partitions[p].NotCommitted != 10 {
		t.Fatalf("an aborted repetition does not verify: %+v", report)
	}
	w.Write(t, false, "first.out", p, v.Lines[p][15], altered(v.Lines[p][16]))
	report = atwork.Verify(t, atwork.Options(w, "first"))
	requireKinds(t, report, p, verify.Uncommitted)
	if n := report.Partitions[p].ViolationCount; n != 1 {
		t.Errorf("%d violations are counted, want 1", n)
	}
}

// TestVerifyFindsStates: a state in the changelog that is altered, removed, or of
// nobody.
func TestVerifyFindsStates(t *testing.T) {
	w := atwork.Served(t, 30, 12)
	const p = 0
	v := w.View(t, "first.log", false)
	v.Read(t)
	last := v.Lines[p][slices.IndexFunc(v.Lines[p],
		func(l servicetest.Line) bool { return l.Key != task.MarkKey })]
	old := last // an older value of a user whose state has changed since
	for name, l := range map[string]servicetest.Line{
		"altered": altered(old),
		"removed": {Key: old.Key, Timestamp: old.Timestamp},
		"nobody":  {Key: "nobody", Value: old.Value, Timestamp: old.Timestamp},
	} {
		t.Run(name, func(t *testing.T) {
			o := atwork.Options(w, "first")
			o.Topics.Changelog = name + ".log"
			w.CopyTopic(t, "first.log", o.Topics.Changelog, p,
				func(lines []servicetest.Line) []servicetest.Line { return append(lines, l) })
			requireKinds(t, atwork.Verify(t, o), p, verify.StateDiffers)
		})
	}
}

// TestVerifyFindsMovedOffsets: back, and forward.
func TestVerifyFindsMovedOffsets(t *testing.T) {
	w := atwork.Served(t, 30, 12)
	const p = 3
	at, found, err := consumer.Committed(t.Context(), w.Client, wire.Options{}, "first", "raw", p)
	servicetest.OK(t, err)
	if !found {
		t.Fatal("there is no offset")
	}
	for _, to := range []int64{at - 5, at + 5} {
		w.MoveOffset(t, "first", p, to)
		report := atwork.Verify(t, atwork.Options(w, "first"))
		requireKinds(t, report, p, verify.OffsetMoved)
		if v := report.Partitions[p].Violations; len(v) != 1 || v[0].Offset != to {
			t.Errorf("violations of a group moved to %d: %+v", to, v)
		}
	}
}

// TestVerifyAfterRetention: without the raw records there is nothing to verify
// against, and the report names it.
func TestVerifyAfterRetention(t *testing.T) {
	w := atwork.Served(t, 30, 12)
	const p = 1
	w.DeleteRecords(t, "raw", p, 3)
	report := atwork.Verify(t, atwork.Options(w, "first"))
	for _, got := range report.Partitions {
		if got.Verified != (got.Partition != p) || got.ViolationCount > 0 {
			t.Errorf("partition %d: %+v", got.Partition, got)
		}
	}
	if n := report.Partitions[p].NotVerified; len(n) != 1 || !strings.Contains(n[0], "retention") {
		t.Errorf("the reason is %q", n)
	}
}
