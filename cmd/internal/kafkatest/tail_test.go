//go:build kafka

package kafkatest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
)

// TestAChangelogThatLostItsEnd puts the changelog of some steps ago back on the broker's disk. The
// service refuses to start, whether its folder has the end or its disk is new. It goes on after
// "state rebuild-changelog", and publishes nothing twice.
func TestAChangelogThatLostItsEnd(t *testing.T) {
	t.Parallel()
	cluster := private(t)
	w := newHarnessAt(t, cluster.brokers()...).world(1, 5)
	w.createRaw()
	services := map[string]service.Options{}
	for _, name := range []string{"folder", "disk"} {
		o := w.options(name)
		o.TransactionTimeout, o.StateDir = 10*time.Second, filepath.Join(w.dir, name+"-state")
		services[name] = o
		w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
	}
	round := func() {
		w.feed(3)
		for name, o := range services {
			p := w.spawn(o, name)
			w.eventually("all is answered", func() bool { return w.answered(o) })
			p.terminate()
		}
	}
	round()
	old := t.TempDir()
	cluster.on(1, "term")
	for name, o := range services {
		w.ok(os.CopyFS(filepath.Join(old, name), os.DirFS(cluster.log(o.Topics.Changelog, 0))))
	}
	cluster.on(1, "start")
	round()
	cluster.on(1, "term")
	for name, o := range services {
		folder := cluster.log(o.Topics.Changelog, 0)
		w.ok(os.RemoveAll(folder))
		w.ok(os.CopyFS(folder, os.DirFS(filepath.Join(old, name))))
	}
	cluster.on(1, "start")
	w.ok(os.RemoveAll(services["disk"].StateDir))
	for name, o := range services {
		words := map[string]string{"folder": "lost at its end", "disk": "(changelog-end-lost)"}[name]
		w.refused(o, name, words)
		t.Log(w.command("state", "rebuild-changelog", "-c", filepath.Join(w.dir, name+".yml"),
			o.StateDir))
	}
	round()
	for _, o := range services {
		w.once(o, w.fed)
		w.exactlyOnce(o)
	}
}

// refused requires that an instance does not start, for reasons that its log names.
func (w *world) refused(o service.Options, instance string, words ...string) {
	w.Helper()
	p := w.spawn(o, instance)
	defer time.AfterFunc(patience, func() { p.cmd.Process.Kill() }).Stop()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		w.Errorf("%s ends with %v", instance, err)
	}
	for _, l := range p.log.first(1, "geodither: ") {
		w.Log(l)
	}
	for _, word := range words {
		if !p.log.has(word) {
			w.Errorf("%s does not say %q", instance, word)
		}
	}
}

// command runs a command that must succeed, and returns what it prints.
func (w *world) command(args ...string) string {
	w.Helper()
	binary, err := built()
	w.ok(err)
	out, err := exec.CommandContext(w.Context(), binary, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("geodither %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// once requires an answer to each of so many raw records, for a committed reader.
func (w *world) once(o service.Options, records int64) {
	w.Helper()
	got, t := 0, o.Topics
	for p := range int32(w.partitions) {
		w.settled(t.Sanitized, p)
		got += len(w.lines(t.Sanitized, p, false)) + len(w.lines(t.DeadLetters, p, false))
	}
	if int64(got) != records {
		w.Errorf("%d records have %d answers", records, got)
	}
}
