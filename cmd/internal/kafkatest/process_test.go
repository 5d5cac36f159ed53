//go:build kafka

package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/geodither/geodither/cmd/internal/service"
)

// folder of the built command, which all tests share.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "geodither-kafkatest-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// built is the command, made when the first test asks for it.
var built = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(folder, "geodither")
	if out, err := exec.Command("go", "build", "-o", path,
		"../../geodither").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// process is an instance of the service in a process of its own.
type process struct {
	*world
	cmd *exec.Cmd
	log captured
}

// spawn starts an instance with the options of a service and a state folder of
// its own.
func (w *world) spawn(o service.Options, instance string) *process {
	w.Helper()
	return w.start(w.config(o, instance, ""), instance)
}

// config writes the config of an instance, with a state folder of its own, and further lines.
func (w *world) config(o service.Options, instance, more string) (path string) {
	w.Helper()
	w.ok(w.model.WriteFile(filepath.Join(w.dir, "model.avro")))
	w.ok(os.WriteFile(filepath.Join(w.dir, "noise.key"), []byte(testKey.Reveal()+"\n"), 0o600))
	path = filepath.Join(w.dir, instance+".yml")
	w.ok(os.WriteFile(path, fmt.Appendf(nil, `
brokers: [%s]
group: %s
topics: {raw: %s, sanitized: %s, changelog: %s, dead_letters: %s}
%s
key_file: noise.key
state_dir: %s
release: {mechanism: lattice, epsilon: %v, delta: %v, budget: none}
transaction: {max_records: %d, max_interval: %v, timeout: %v}
session_timeout: %v
%s
`,
		strings.Join(o.Brokers, ","), o.Group, o.Topics.Raw, o.Topics.Sanitized, o.Topics.Changelog,
		o.Topics.DeadLetters, w.models, instance+"-state",
		o.Release.Epsilon, o.Release.Delta, o.MaxRecords, o.MaxInterval, o.TransactionTimeout,
		o.SessionTimeout, more), 0o600))
	return path
}

// start runs a config as an instance.
func (w *world) start(config, instance string) *process {
	w.Helper()
	binary, err := built()
	w.ok(err)
	p := &process{world: w, cmd: exec.Command(binary, "run", "-c", config), log: newLog()}
	p.cmd.Stderr = p.log
	w.ok(p.cmd.Start())
	w.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		if w.Failed() {
			w.Logf("%s's log:\n%s", instance, p.log)
		}
	})
	return p
}

func (p *process) signal(s os.Signal) {
	p.Helper()
	p.ok(p.cmd.Process.Signal(s))
}

// terminate asks the instance to stop, and requires that it does so well.
func (p *process) terminate() {
	p.Helper()
	p.signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("the instance did not stop cleanly: %v", err)
	}
	if p.log.has("level=ERROR") {
		p.Error("the instance logged errors")
	}
}
