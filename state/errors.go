package state

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// What may be wrong with a folder; see errors.Is. Every error's text says what to do.
var (
	// ErrLocked: another process, or another Store of this process, has the folder open.
	ErrLocked = errors.New("the state folder is used by another instance (folder-in-use)")
	// ErrFull: the disk, or the user's quota on it, is full.
	ErrFull = errors.New("the disk with the state folder is full (folder-failed)")
	// ErrReadOnly: the folder cannot be written.
	ErrReadOnly = errors.New("the state folder cannot be written (folder-failed)")
	// ErrUnmade: the folder does not exist and cannot be made.
	ErrUnmade = errors.New("the state folder cannot be made (folder-failed)")
	// ErrNoFolder: a file has the folder's name, or is a part of its path.
	ErrNoFolder = errors.New("a file is on the state folder's path (folder-failed)")
	// ErrDamaged: the files on disk contradict each other.
	ErrDamaged = errors.New("the state folder is damaged (folder-failed)")
	// ErrGone: a file of an open store is no longer there.
	ErrGone = errors.New("files of the state folder have disappeared while in use (folder-failed)")
	// ErrForeign: the folder holds the states of something else.
	ErrForeign = errors.New("the state folder belongs to another group or topic (folder-elsewhere)")
	// ErrAbsent: there is no store in the folder.
	ErrAbsent = errors.New("there is no store in the state folder")
	// ErrClosed: the store was closed, or has failed before.
	ErrClosed = errors.New("the state store is closed")
)

// explain precedes an error of Pebble or of the disk by what to do.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("state: %w (%w)", ErrFull, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("state: %w (%w)", ErrReadOnly, err)
	case damaged(err):
		return fmt.Errorf("state: %w (%w)", ErrDamaged, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("state: %w (%w)", ErrGone, err)
	}
	return fmt.Errorf("state: %w", err)
}

// explainMake precedes an error of making the folder by what to do. If a part of the path does not
// exist, that means here that it cannot be made, and not that a store has lost its files.
func explainMake(err error) error {
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("state: %w (%w)", ErrNoFolder, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT),
		errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return explain(err)
	}
	return fmt.Errorf("state: %w (%w)", ErrUnmade, err)
}

// damaged reports whether an error means that the files are damaged. The standard library's
// errors.Is does not see how Pebble marks such errors.
func damaged(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, errPositions)
}

// environment reports whether an error comes from the machine and not from the files, so that to
// set the store aside would not help.
func environment(err error) bool {
	for _, e := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission, syscall.EIO,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOTDIR, syscall.ENAMETOOLONG,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

var errPositions = errors.New("the positions of a partition cannot be read")
