package checks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// folderChecks are those of this machine.
func folderChecks() []Check {
	return []Check{
		{"state_dir", "the store", each, needsFolder, (*examination).stateDir},
	}
}

// stateDir tries to write where the states will go, or would be made.
func (d *examination) stateDir(context.Context) {
	dir, err := filepath.Abs(d.o.StateDir)
	for ; err == nil; dir = filepath.Dir(dir) {
		info, statErr := os.Stat(dir)
		if statErr == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no folder: name another", dir)
		}
		if statErr == nil || filepath.Dir(dir) == dir {
			break
		}
	}
	if err == nil {
		err = probe(dir, os.CreateTemp)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		d.add(Failure, "the disk is full: free some space (%v)", err)
	case err != nil:
		d.add(Failure, "it cannot be made or written: name one below a folder that "+
			"exists and that this user may write to (%v)", err)
	default:
		d.add(OK, "%s can be written", d.o.StateDir)
	}
}

// probeBytes are written to see that there is room: on a full disk an empty file
// can still be made.
const probeBytes = 64 << 10

// probe writes a file into a folder, waits until it is on the disk, and removes it.
func probe(dir string, create func(dir, pattern string) (*os.File, error)) error {
	f, err := create(dir, ".geodither-doctor-")
	if err != nil {
		return err
	}
	junk := make([]byte, probeBytes)
	_, _ = rand.Read(junk) // it never fails; zeros might take no room
	_, err = f.Write(junk)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
