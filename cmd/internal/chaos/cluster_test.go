package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestInterruptedStart: a script that is killed as it starts nodes cannot stop
// them; somebody else has to.
func TestInterruptedStart(t *testing.T) {
	dir := t.TempDir()
	script, said := filepath.Join(dir, "kafka.sh"), filepath.Join(dir, "said")
	if err := os.WriteFile(script,
		[]byte("#!/bin/sh\necho $1 >> "+said+"\n[ $1 = down ] || exec sleep 60\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for { // until it is at work
			if got, _ := os.ReadFile(said); string(got) == "up\n" {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := (cluster{script: script, dir: dir, nodes: 3}).up(ctx); err == nil {
		t.Error("the interrupt is not an error")
	}
	if got, err := os.ReadFile(said); string(got) != "up\ndown\n" {
		t.Errorf("the script was asked for %q, %v", got, err)
	}
}
