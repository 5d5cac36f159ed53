//go:build kafka

package kafkatest

import (
	"bytes"
	"context"
	"errors"
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

// shared are the nodes of the cluster that GEODITHER_BROKERS names. A test that stops
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
	if err := (kafkaDir{n.dir, n.env}).call(context.Background(), command, args...); err != nil {
		n.Fatal(err)
	}
}

// kafkaDir is the folder of a cluster of deploy/kafka/kafka.sh, with the script's environment
// beside the test's own.
type kafkaDir struct {
	dir string
	env []string
}

// call runs one command of kafka.sh. An error holds the command's output.
func (k kafkaDir) call(ctx context.Context, command string, args ...string) error {
	args = append(append([]string{command}, args...), "--dir", k.dir)
	cmd := exec.CommandContext(ctx, kafkaScript, args...)
	cmd.Env = append(os.Environ(), k.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kafka.sh %v: %w\n%s", args, err, bytes.TrimSpace(out))
	}
	return nil
}

// kafkaScript starts and stops nodes.
var kafkaScript = filepath.Join("..", "..", "..", "deploy", "kafka", "kafka.sh")

// up starts so many nodes and returns their addresses. With min.insync.replicas 2, one of three may
// be down.
func (k kafkaDir) up(ctx context.Context, nodes int) ([]string, error) {
	if err := k.call(ctx, "up", "--nodes", strconv.Itoa(nodes)); err != nil {
		// An interrupt kills the script, but not the nodes that it has started.
		return nil, errors.Join(err, k.call(context.WithoutCancel(ctx), "down"))
	}
	return k.brokers()
}

// node runs one command on a node, counted from 0.
func (k kafkaDir) node(ctx context.Context, command string, n int) error {
	return k.call(ctx, command, strconv.Itoa(n+1))
}

// brokers are the addresses for clients.
func (k kafkaDir) brokers() ([]string, error) {
	data, err := os.ReadFile(filepath.Join(k.dir, "brokers"))
	return strings.Split(strings.TrimSpace(string(data)), ","), err
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
	brokers, err := kafkaDir{dir: n.dir}.brokers()
	if err != nil {
		n.Fatal(err)
	}
	return brokers
}

// log is the folder of a partition on the first node.
func (n nodes) log(topic string, partition int32) string {
	return filepath.Join(n.dir, "node-1", "data", fmt.Sprintf("%s-%d", topic, partition))
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
