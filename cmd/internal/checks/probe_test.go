package checks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestProbe of the state folder leaves nothing behind, and sees a disk on which a
// file can be made and not written.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	servicetest.OK(t, probe(dir, os.CreateTemp))
	full := func(dir, pattern string) (*os.File, error) {
		link := filepath.Join(dir, pattern)
		if err := os.Symlink("/dev/full", link); err != nil {
			return nil, err
		}
		return os.OpenFile(link, os.O_WRONLY, 0)
	}
	if err := probe(dir, full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestPatience grows with the raw topic's partitions, and stays as it is where they are unknown.
func TestPatience(t *testing.T) {
	w := servicetest.NewWorld(t, 0)
	for topic, want := range map[string]time.Duration{
		"raw":  checkPatience + servicetest.Partitions*partitionPatience,
		"none": checkPatience,
	} {
		d := &examination{patience: checkPatience, client: w.Client}
		d.o.Topics.Raw = topic
		d.wait(t.Context())
		if d.patience != want || len(d.found) > 0 {
			t.Errorf("topic %s: patience %v, want %v; %v", topic, d.patience, want, d.found)
		}
	}
}

// TestWithin: a check that waits too long could not check, whatever it says then. One that is in
// time, or that the user ends, says what it has found.
func TestWithin(t *testing.T) {
	d := &examination{patience: time.Hour}
	d.within(t.Context(), "rights", func(context.Context) { d.add(OK, "all are there") })
	if want := []Finding{{Check: "rights", Level: OK, Detail: "all are there"}}; !same(d.found,
		want) {
		t.Errorf("in time it says %v", d.found)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	d.within(ended, "group", func(ctx context.Context) { d.add(Failure, "%v", ctx.Err()) })
	if got := d.found[len(d.found)-1]; got.Level != Failure || d.patience != time.Hour {
		t.Errorf("after Ctrl-C it says %v", got)
	}
	for _, says := range []func(context.Context){
		func(ctx context.Context) { <-ctx.Done() },
		func(ctx context.Context) {
			<-ctx.Done()
			d.add(Failure, "raw: %v", ctx.Err())
			d.add(Failure, "sanitized: %v", ctx.Err())
		},
	} {
		d.found, d.patience = nil, time.Millisecond
		d.within(t.Context(), "topic", says)
		want := []Finding{{Check: "topic", Level: Failure, Detail: "could not check within 1ms: " +
			"the answers come too slowly or not at all"}}
		if !same(d.found, want) {
			t.Errorf("too late it says %v", d.found)
		}
	}
	d.found = nil
	d.within(t.Context(), "topic", func(ctx context.Context) {
		<-ctx.Done()
		d.add(Failure, "raw is missing")
	})
	if got := d.found[0]; got.Level != Failure ||
		!strings.HasSuffix(got.Detail, "(raw is missing)") {
		t.Errorf("a failure that is found too late: %v", got)
	}
	d.found = nil
	d.within(t.Context(), "topic", func(ctx context.Context) {
		<-ctx.Done()
		d.skip("the topic cannot be read", "map")
	})
	if len(d.found) != 2 || d.found[0].Level != Unchecked || d.found[1].Level != Failure ||
		d.found[1].Check != "topic" {
		t.Errorf("of a check that was too late, and one that needs it: %v", d.found)
	}
}

// same compares findings in all but their errors.
func same(a, b []Finding) bool {
	return slices.EqualFunc(a, b, func(x, y Finding) bool {
		x.Err, y.Err = nil, nil
		return x == y
	})
}
