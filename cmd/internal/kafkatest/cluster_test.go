//go:build kafka

package kafkatest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// nodes are the brokers of a cluster that deploy/kafka/kafka.sh started.
type nodes struct {
	*testing.T
	dir string
	env []string // of the script, beside the test's own
}

// shared are the nodes of the cluster that GEODITHER_BROKERS names. Whoever stops
// one must not run in parallel with other tests, and puts it back.
func shared(t *testing.T) nodes {
	t.Helper()
	dir := os.Getenv("GEODITHER_KAFKA_DIR")
	if dir == "" {
		t.Fatal("GEODITHER_KAFKA_DIR does not name the folder of deploy/kafka/kafka.sh: run " +
			"these tests with \"make test-kafka\"")
	}
	return nodes{T: t, dir: dir}
}

// private starts a cluster of one node in a folder of the test's, with settings
// beside the script's, if any are given as key=value.
func private(t *testing.T, settings ...string) nodes {
	t.Helper()
	n := nodes{T: t, dir: t.TempDir()}
	n.up(settings)
	return n
}

// privateSecured is private with the listeners that want a login. The options are Java's.
func privateSecured(t *testing.T, java string, settings ...string) *secured {
	t.Helper()
	n := nodes{T: t, dir: t.TempDir(), env: []string{"JAVA_TOOL_OPTIONS=" + java}}
	n.up(settings, "--secure")
	return newSecuredAt(newHarnessAt(t, n.brokers()...), n)
}

// up starts one node until the test ends.
func (n nodes) up(settings []string, args ...string) {
	n.Helper()
	n.Cleanup(func() { n.script("down") })
	n.script("up", append([]string{"--nodes", "1"}, args...)...)
	if len(settings) == 0 {
		return
	}
	n.script("term", "1")
	path := filepath.Join(n.dir, "node-1", "server.properties")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		n.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("\n" + strings.Join(settings, "\n") + "\n"); err != nil {
		n.Fatal(err)
	}
	n.script("start", "1")
}

// script runs a command of kafka.sh.
func (n nodes) script(command string, args ...string) {
	n.Helper()
	args = append(append([]string{command}, args...), "--dir", n.dir)
	cmd := exec.Command(filepath.Join("..", "..", "..", "deploy", "kafka", "kafka.sh"), args...)
	cmd.Env = append(os.Environ(), n.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		n.Fatalf("kafka.sh %v: %v\n%s", args, err, &out)
	}
}

// on sends a command to one node.
func (n nodes) on(node int32, command string) {
	n.Helper()
	n.script(command, strconv.Itoa(int(node)))
}

// frozen has a node stand still until the returned function is called, or the
// test ends.
func (n nodes) frozen(node int32) (thaw func()) {
	n.Helper()
	n.on(node, "stop")
	done := false
	thaw = func() {
		if !done {
			done = true
			n.on(node, "cont")
		}
	}
	n.Cleanup(thaw)
	return thaw
}

// brokers are the addresses for clients.
func (n nodes) brokers() []string {
	n.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "brokers"))
	if err != nil {
		n.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), ",")
}

// version is Kafka's, as the first lines of a node's log tell it.
func (n nodes) version() string {
	data, err := os.ReadFile(filepath.Join(n.dir, "node-1", "log", "server.log"))
	if err != nil {
		return fmt.Sprintf("unknown: %v", err)
	}
	_, rest, found := strings.Cut(string(data), "Kafka version: ")
	if !found {
		return "unknown"
	}
	line, _, _ := strings.Cut(rest, "\n")
	version, _, _ := strings.Cut(line, " ")
	return version
}
