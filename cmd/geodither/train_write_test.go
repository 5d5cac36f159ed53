package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/mobility"
)

// A model's file has its name when it is complete, and leaves nothing behind when
// it is given up or interrupted.
func TestModelFile(t *testing.T) {
	dir := t.TempDir()
	_, path := townFiles(t, dir)
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := len(names(t, dir))
	for name, c := range map[string]struct {
		interrupted, kept bool
	}{"written": {kept: true}, "given up": {}, "interrupted": {interrupted: true}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupted {
				cancel()
			}
			to := filepath.Join(t.TempDir(), "m.avro")
			file, err := files.Prepare(ctx, to, model)
			if c.interrupted {
				// The writing may have been done before the end was seen.
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if err == nil {
					file.Discard()
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if c.kept {
				if err := file.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			if file != nil {
				file.Discard()
			}
			left := names(t, filepath.Dir(to))
			if !c.kept && len(left) > 0 || c.kept && len(left) != 1 {
				t.Fatalf("the folder holds %v", left)
			}
			if c.kept {
				if again, err := mobility.ReadModelFile(to); err != nil ||
					again.ID() != model.ID() {
					t.Errorf("another model was written, or none: %v", err)
				}
			}
		})
	}
	if len(names(t, dir)) != before {
		t.Error("something was left beside the first model")
	}
}
