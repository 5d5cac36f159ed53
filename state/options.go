package state

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options have usable zero values. What the store uses of memory is bounded by about
// CacheBytes + BlockCacheBytes + 2 × MemTableBytes, and what the process takes by twice of that,
// unless GOMEMLIMIT says less.
type Options struct {
	// Identity says whose states these are, in any bytes that change when the states no longer
	// fit, such as the names of group and topics. A store of another identity is set aside. Nil is
	// an identity too, but with ReadOnly it accepts any.
	Identity []byte
	// Foreign, if set, may say why a store of another identity is expected here. The log says it
	// when the store is set aside. If it returns "", the log says ErrForeign.
	Foreign func(identity []byte) string
	// CacheBytes bounds the cache of values in front of Pebble, with its overhead. A value of more
	// than 1/256 of it is not kept there. Default 64 MiB; a negative value means no cache.
	CacheBytes int64
	// BlockCacheBytes bounds Pebble's cache of blocks. Default 32 MiB.
	BlockCacheBytes int64
	// MemTableBytes bounds a memtable; up to two exist, and they grow to this size only if that
	// much is written between two flushes. A crash loses what they hold. Of several values of a
	// user in a memtable one gets to the disk, so larger ones save writes and compactions
	// (BenchmarkUpdate), for memory: without cgo they are part of Go's heap, which the garbage
	// collector lets grow to twice of what is used. Default 32 MiB.
	MemTableBytes int64
	// FlushEvery is how often what was applied is written to the disk, if the memtable is not full
	// before. A crash loses about that much at most. Default 30 s; a negative value means never.
	FlushEvery time.Duration
	// ReadOnly opens an existing store to look at it. Nothing is made, set aside or written.
	ReadOnly bool
	// Logger hears of stores that are set aside and of trouble in the background. Default
	// slog.Default().
	Logger *slog.Logger
	// FS is the file system. Default is the disk.
	FS vfs.FS
}

// Validate returns an error about an option that is out of range.
func (o Options) Validate() error {
	if o.BlockCacheBytes < 0 || o.MemTableBytes < 0 || o.MemTableBytes > 1<<30 {
		return errors.New("state: BlockCacheBytes is negative, or MemTableBytes not 0 to 1 GiB")
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.CacheBytes = cmp.Or(o.CacheBytes, 64<<20)
	o.BlockCacheBytes = cmp.Or(o.BlockCacheBytes, 32<<20)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, 32<<20)
	o.FlushEvery = cmp.Or(o.FlushEvery, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}
