package main

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
	"time"
)

// nodes of the cluster. With min.insync.replicas 2, one may be down at a time.
const nodes = 3

// cluster is three Kafka nodes by deploy/kafka/kafka.sh.
type cluster struct{ script, dir string }

// call runs one command of kafka.sh. Its errors hold what it said.
func (c cluster) call(ctx context.Context, command string, args ...string) error {
	cmd := exec.CommandContext(ctx, c.script, append([]string{command, "--dir", c.dir}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kafka.sh %s %s: %w\n%s", command, strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// up starts the cluster and returns its brokers.
func (c cluster) up(ctx context.Context) ([]string, error) {
	if err := c.call(ctx, "up", "--nodes", strconv.Itoa(nodes)); err != nil {
		// An interrupt kills the script, but not the nodes that it has started.
		return nil, errors.Join(err, c.call(context.WithoutCancel(ctx), "down"))
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "brokers"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(text)), ","), nil
}

// ready waits until every node answers: a broker that was frozen has to be taken
// in again.
func (c cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := c.call(ctx, "status")
		if err == nil || ctx.Err() != nil {
			return err
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

// node runs one command on a node, counted from 0.
func (c cluster) node(ctx context.Context, command string, n int) error {
	return c.call(ctx, command, strconv.Itoa(n+1))
}
