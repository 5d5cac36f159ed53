package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// signalsEnv makes the test binary a command that ends slowly.
const signalsEnv = "GEODITHER_TEST_SIGNALS"

// endSlowly does what a command does that has much to finish: asked to end, it ends when the test
// lets it.
func endSlowly() {
	ctx := cli.UntilSignal(context.Background())
	fmt.Fprintln(os.Stdout, "working")
	<-ctx.Done()
	fmt.Fprintln(os.Stdout, "asked to end")
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stdout, "finished")
}

// slowEnd is such a process.
type slowEnd struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

func startSlowEnd(t *testing.T) *slowEnd {
	t.Helper()
	p := &slowEnd{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), signalsEnv+"=1")
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.await(t, "working")
	return p
}

func (p *slowEnd) await(t *testing.T, line string) {
	t.Helper()
	if !p.out.Scan() || p.out.Text() != line {
		t.Fatalf("it prints %q, want %q: %v", p.out.Text(), line, p.cmd.Wait())
	}
}

func (p *slowEnd) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestSecondSignalWithinAMoment is the same wish as the first: a command goes on with what it has
// to finish, and ends well.
func TestSecondSignalWithinAMoment(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startSlowEnd(t)
		asked := time.Now()
		p.signal(t, s)
		p.await(t, "asked to end")
		p.signal(t, s)
		p.signal(t, syscall.SIGTERM)
		if late := time.Since(asked); late >= cli.OneWish {
			t.Logf("the machine took %v for three signals: this shows nothing", late)
			p.signal(t, syscall.SIGKILL)
			_ = p.cmd.Wait()
			continue
		}
		if err := p.in.Close(); err != nil {
			t.Fatal(err)
		}
		p.await(t, "finished")
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("a second %v: %v", s, err)
		}
	}
}

// TestLaterSignalForces: who signals again after a while cannot wait for the end.
func TestLaterSignalForces(t *testing.T) {
	p := startSlowEnd(t)
	p.signal(t, syscall.SIGTERM)
	p.await(t, "asked to end")
	ended := make(chan error, 1)
	// its standard input stays open: it does not end by itself
	go func() { ended <- p.cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) ||
				exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("it ends with %v, not of the signal", err)
			}
			return
		case <-time.After(50 * time.Millisecond):
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // until it ends
		case <-t.Context().Done():
			t.Fatal("no signal ends it")
		}
	}
}

// TestServiceTakesTwoSignals, as coreutils' timeout sends them, for one: it commits, leaves the
// group and exits with 0.
func TestServiceTakesTwoSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	s, log := newTownService(t), new(shared)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "run", "-c", s.config)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GEODITHER_TEST_COMMAND=1"), log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "work", func() bool { return strings.Contains(log.String(), "level=INFO") })
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}
