package state

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// What may be wrong with a folder; see errors.Is. Every error's text says what
// to do.
var (
	// ErrLocked: another process, or another Store of this one, has it open.
	ErrLocked = errors.New("the state folder is in use by another instance: stop that one, or give this one a state folder of its own")
	// ErrFull: the disk, or the user's share of it, is full.
	ErrFull = errors.New("the disk with the state folder is full: free some space and start again")
	// ErrReadOnly: the folder cannot be written.
	ErrReadOnly = errors.New("the state folder cannot be written: make it writable for this user, or name another one")
	// ErrUnmade: the folder is not there and cannot be made.
	ErrUnmade = errors.New("the state folder cannot be made: name one below a folder that exists and that this user may write to")
	// ErrNoFolder: the folder's name, or a part of its path, is that of a file.
	ErrNoFolder = errors.New("the state folder cannot be made, because a file has its name or is on its path: name another one")
	// ErrDamaged: what is on disk does not add up.
	ErrDamaged = errors.New("the state folder is damaged: start again, it is then set aside and restored from the changelog")
	// ErrGone: a file of an open store is not there any more.
	ErrGone = errors.New("files of the state folder have disappeared while it was in use: start again, and it is restored from the changelog, if that is intact: run doctor first, and leave the folder alone meanwhile")
	// ErrForeign: the folder holds the states of something else.
	ErrForeign = errors.New("the state folder belongs to another group or topic: name the folder of this one")
	// ErrAbsent: there is no store in the folder.
	ErrAbsent = errors.New("there is no store in the state folder: check its name; run makes one when it starts")
	// ErrClosed: the store was closed, or has failed before.
	ErrClosed = errors.New("the state store is closed")
)

// explain puts what to do in front of an error of Pebble or of the disk.
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

// explainMake puts what to do in front of an error of making the folder. That something on its
// path does not exist means here that it cannot be, and not that a store has lost its files.
func explainMake(err error) error {
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("state: %w (%w)", ErrNoFolder, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return explain(err)
	}
	return fmt.Errorf("state: %w (%w)", ErrUnmade, err)
}

// damaged reports whether an error is about what is on the disk. Pebble's mark
// for it is not seen by errors.Is of the standard library.
func damaged(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, errPositions)
}

// environment reports whether an error is of the machine and not of what is in
// the folder, so that setting the folder aside would not help.
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
