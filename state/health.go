package state

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// health is what is known about the disk of one open database.
//
// In places, Pebble answers a failed write by ending the process: at a new log file it panics in a
// way that cannot be recovered from, and at the manifest it calls Fatalf. A full disk should end in
// an error for it. So the first write that fails is remembered and does not return: the
// goroutine of Pebble stays where it is, with the locks that it holds. Calls to the store do not
// wait for it and return the error. To open the store again takes a new process. Nothing is lost,
// because the store is a cache.
type health struct {
	broken  chan struct{} // closed at the first failure
	breaks  sync.Once
	failure error         // why; read it only after broken is closed
	frozen  chan struct{} // closed when Pebble must not be called any more
	freezes sync.Once
	report  func(error) // called once, with the first failure

	manifests atomic.Int64 // how many the database has begun
}

// fail makes an error the failure if it is the first one, and returns it explained.
func (h *health) fail(err error) error {
	h.breaks.Do(func() {
		h.failure = err
		close(h.broken)
		h.report(err)
	})
	return explain(err)
}

// freeze makes an error the failure and does not return.
func (h *health) freeze(err error) {
	_ = h.fail(err)
	h.freezes.Do(func() { close(h.frozen) })
	select {}
}

// check returns the failure, if there is one.
func (h *health) check() error {
	select {
	case <-h.broken:
		return explain(h.failure)
	default:
		return nil
	}
}

// await makes a call that may write, and gives up on it when the database fails, because the call
// may be frozen. The caller must not touch what the call uses after that. The goroutine costs less
// than a microsecond a call.
func (h *health) await(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-h.broken:
		return h.failure
	}
}

// freezingFS is a file system whose failing writes do not return.
type freezingFS struct {
	vfs.FS
	h *health
}

func (f freezingFS) check(err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		f.h.freeze(err)
	}
	return err
}

func (f freezingFS) file(file vfs.File, err error) (vfs.File, error) {
	if f.check(err) != nil {
		return nil, err
	}
	return freezingFile{file, f}, nil
}

// Create implements vfs.FS. A folder that is gone is a failure here too: Pebble would try a flush
// again without end, and writes would wait for it.
func (f freezingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if errors.Is(err, fs.ErrNotExist) {
		f.h.freeze(err)
	}
	return f.file(file, err)
}

// ReuseForWrite implements vfs.FS.
func (f freezingFS) ReuseForWrite(oldName, newName string, c vfs.DiskWriteCategory) (
	vfs.File, error,
) {
	return f.file(f.FS.ReuseForWrite(oldName, newName, c))
}

// OpenReadWrite implements vfs.FS.
func (f freezingFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (
	vfs.File, error,
) {
	return f.file(f.FS.OpenReadWrite(name, c, opts...))
}

// OpenDir implements vfs.FS. A folder is opened to sync it.
func (f freezingFS) OpenDir(name string) (vfs.File, error) { return f.file(f.FS.OpenDir(name)) }

// Rename implements vfs.FS.
func (f freezingFS) Rename(oldName, newName string) error {
	return f.check(f.FS.Rename(oldName, newName))
}

// MkdirAll implements vfs.FS.
func (f freezingFS) MkdirAll(dir string, perm fs.FileMode) error {
	return f.check(f.FS.MkdirAll(dir, perm))
}

// Unwrap implements vfs.FS.
func (f freezingFS) Unwrap() vfs.FS { return f.FS }

type freezingFile struct {
	vfs.File
	f freezingFS
}

// Write implements vfs.File.
func (f freezingFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.f.check(err)
}

// WriteAt implements vfs.File.
func (f freezingFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, f.f.check(err)
}

// Sync implements vfs.File.
func (f freezingFile) Sync() error { return f.f.check(f.File.Sync()) }

// SyncData implements vfs.File.
func (f freezingFile) SyncData() error { return f.f.check(f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f freezingFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.f.check(err)
}
