//go:build kafka

package kafkatest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// supervised is one "geodither run" or "geodither counts" under a supervisor, which notes an exit
// that nobody asked for and starts the process again. All starts write to the same log.
type supervised struct {
	name, binary, config, stateDir string
	command                        string // empty: run
	listen                         string // address of its metrics; empty: none
	log                            *os.File

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan error // receives the result of cmd once
	wanted bool       // false from just before it is killed or stopped
	began  int64      // size of the log at the last start
	starts int
	deaths []string // exits that nobody asked for
}

// launch starts an instance with the configuration file that it has, beside which it puts its log.
func launch(i *supervised) (*supervised, error) {
	path := filepath.Join(filepath.Dir(i.config), i.name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	i.log = log
	if err := i.start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return i, nil
}

func (i *supervised) start() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.startLocked()
}

func (i *supervised) startLocked() error {
	cmd := exec.Command(i.binary,
		append(strings.Fields(cmp.Or(i.command, "run")), "-c", i.config)...)
	cmd.Stdout, cmd.Stderr = i.log, i.log
	// Ctrl-C must reach only the harness, which ends all in order
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	fmt.Fprintf(i.log, "--- start %s\n", time.Now().Format(time.RFC3339Nano))
	if info, err := i.log.Stat(); err == nil {
		i.began = info.Size()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	i.cmd, i.ended, i.wanted = cmd, make(chan error, 1), true
	i.starts++
	go i.supervise(cmd, i.ended)
	return nil
}

// pid returns the process's id.
func (i *supervised) pid() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cmd.Process.Pid
}

// life returns how many times the process has been started.
func (i *supervised) life() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.starts
}

// supervise waits for the process and, if nobody ended it, starts it again.
func (i *supervised) supervise(cmd *exec.Cmd, ended chan<- error) {
	err := cmd.Wait()
	i.mu.Lock()
	wanted := i.wanted
	fmt.Fprintf(i.log, "--- end %s: %v\n", time.Now().Format(time.RFC3339Nano), cmd.ProcessState)
	if wanted {
		i.deaths = append(i.deaths, fmt.Sprintf("%s: %v", i.name, cmd.ProcessState))
	}
	i.mu.Unlock()
	ended <- err
	if !wanted {
		return
	}
	time.Sleep(time.Second)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.wanted && i.cmd == cmd { // nobody has ended or started it in the meantime
		if err := i.startLocked(); err != nil {
			i.deaths = append(i.deaths, fmt.Sprintf("%s: %v", i.name, err))
		}
	}
}

// end sends a signal that ends the process, and waits for that.
func (i *supervised) end(signal os.Signal, patience time.Duration) error {
	i.mu.Lock()
	i.wanted = false
	cmd, ended := i.cmd, i.ended
	i.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-ended:
		ended <- err // for the next caller
		if signal == syscall.SIGKILL {
			return nil
		}
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s still runs %v after %v", i.name, patience, signal)
	}
}

func (i *supervised) kill() error { return i.end(syscall.SIGKILL, 10*time.Second) }

// stopPatience is how long an instance may take to stop cleanly, a broker's
// failover included.
const stopPatience = 45 * time.Second

// terminate asks the process to stop cleanly. It waits until the process has logged something,
// because at the very start the process does not handle signals yet.
func (i *supervised) terminate() error {
	i.mu.Lock()
	began := i.began
	i.mu.Unlock()
	for deadline := time.Now().Add(stopPatience); time.Now().
		Before(deadline); time.Sleep(20 * time.Millisecond) {
		if info, err := i.log.Stat(); err != nil || info.Size() > began {
			break
		}
	}
	if err := i.end(syscall.SIGTERM, stopPatience); err != nil {
		return fmt.Errorf("%s did not stop cleanly: %w", i.name, err)
	}
	return nil
}

// signal freezes the process or lets it go on.
func (i *supervised) signal(signal os.Signal) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// close ends the process for good. It returns the exits that nobody asked for, and the number
// of errors in the log.
func (i *supervised) close() (deaths []string, errorLines int, err error) {
	err = errors.Join(i.kill(), i.log.Close())
	i.mu.Lock()
	defer i.mu.Unlock()
	text, failed := os.ReadFile(i.log.Name())
	return i.deaths, bytes.Count(text, []byte("level=ERROR")), errors.Join(err, failed)
}
