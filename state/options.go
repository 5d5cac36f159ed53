package state

import (
	"errors"
	"log/slog"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options have usable zero values. The store's memory is bounded by about
// CacheBytes + BlockCacheBytes + 3 × MemTableBytes.
type Options struct {
	// Identity says whose states these are, in any bytes that change when the
	// states would no longer fit: group, topics. A folder of another identity
	// is moved aside. Nil is an identity too, except with ReadOnly, where it
	// accepts any.
	Identity []byte
	// Foreign, if set, may say why a folder of this other identity is to be expected. It is
	// logged when the folder is moved aside; "" leaves the words to ErrForeign.
	Foreign func(identity []byte) string
	// CacheBytes bounds the cache of values in front of Pebble, its own
	// overhead included. Default 64 MiB; negative: no cache.
	CacheBytes int64
	// BlockCacheBytes bounds Pebble's cache of blocks. Default 32 MiB.
	BlockCacheBytes int64
	// MemTableBytes is the size of a memtable, of which up to three exist.
	// Larger ones save compactions: an update costs about a third less CPU at
	// 64 MiB than at 16 MiB. Default 32 MiB.
	MemTableBytes int64
	// ReadOnly opens an existing store to look at it. Nothing is made, moved
	// aside or written.
	ReadOnly bool
	// Logger hears of folders moved aside and of trouble in the background.
	// Default slog.Default().
	Logger *slog.Logger
	// FS is the file system. Default the disk.
	FS vfs.FS
}

// Validate says which option is out of range.
func (o Options) Validate() error {
	if o.BlockCacheBytes < 0 || o.MemTableBytes < 0 || o.MemTableBytes > 1<<30 {
		return errors.New("state: BlockCacheBytes must not be negative, MemTableBytes must be between 0 and 1 GiB")
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.BlockCacheBytes == 0 {
		o.BlockCacheBytes = 32 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 32 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}
