package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// instance is one "geodither run", under a supervisor: if it exits by itself,
// that is noted, and it is started again. Its log goes on over restarts.
type instance struct {
	name, binary, config, stateDir string
	log                            *os.File

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan error // of cmd: takes its exit, once
	wanted bool       // it is to run; false before it is killed or stopped
	began  int64      // size of the log at the last start
	deaths []string   // how it exited by itself
}

func newInstance(binary, config, stateDir, name string) (*instance, error) {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(config), name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &instance{name: name, binary: binary, config: config, stateDir: stateDir, log: log}, nil
}

func (i *instance) start() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.startLocked()
}

func (i *instance) startLocked() error {
	cmd := exec.Command(i.binary, "run", "-c", i.config)
	cmd.Stdout, cmd.Stderr = i.log, i.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the harness, which ends them in order
	fmt.Fprintf(i.log, "--- start %s\n", time.Now().Format(time.RFC3339Nano))
	if info, err := i.log.Stat(); err == nil {
		i.began = info.Size()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	i.cmd, i.ended, i.wanted = cmd, make(chan error, 1), true
	go i.supervise(cmd, i.ended)
	return nil
}

// supervise waits for the process and, if nobody ended it, starts it anew.
func (i *instance) supervise(cmd *exec.Cmd, ended chan<- error) {
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
func (i *instance) end(signal os.Signal, patience time.Duration) error {
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
		ended <- err // for whoever asks again
		if signal == syscall.SIGKILL {
			return nil
		}
		return err
	case <-time.After(patience):
		return fmt.Errorf("%s still runs %v after %v", i.name, patience, signal)
	}
}

func (i *instance) kill() error { return i.end(syscall.SIGKILL, 10*time.Second) }

// stopPatience is how long an instance may take to stop cleanly, a broker's
// failover included.
const stopPatience = 45 * time.Second

// terminate asks the process to stop, which it must do cleanly: once it has said
// anything, since a signal in its first moments finds nobody who handles it.
func (i *instance) terminate() error {
	i.mu.Lock()
	began := i.began
	i.mu.Unlock()
	for deadline := time.Now().Add(stopPatience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
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
func (i *instance) signal(signal os.Signal) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// wipe deletes the state folder.
func (i *instance) wipe() error { return os.RemoveAll(i.stateDir) }

// close ends the process for good.
func (i *instance) close() error { return errors.Join(i.kill(), i.log.Close()) }

// died says how the process has exited by itself.
func (i *instance) died() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.deaths
}

// logged counts the lines of the log that hold a text.
func (i *instance) logged(text string) (int, error) {
	data, err := os.ReadFile(i.log.Name())
	return bytes.Count(data, []byte(text)), err
}
