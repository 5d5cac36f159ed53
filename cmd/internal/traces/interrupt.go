package traces

import (
	"context"
	"io"
	"os"
)

// interruptible is a reader whose Read returns when the context ends, also where
// the reader below it goes on waiting, as for a terminal or a quiet pipe.
type interruptible struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no other place for it
	from io.Reader
	buf  []byte
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.buf) < len(p) {
		r.buf = make([]byte, len(p))
	}
	type result struct {
		n   int
		err error
	}
	// The goroutine has its own memory: p is the caller's once Read returns, and
	// after an interruption r.buf is left to it.
	buf, done := r.buf[:len(p)], make(chan result, 1)
	go func() {
		n, err := r.from.Read(buf)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(p, buf[:got.n]), got.err
	case <-r.ctx.Done():
		r.buf = nil
		return 0, r.ctx.Err()
	}
}

// openPipe opens what may wait for somebody to write to it, as a named pipe does.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		file, err := os.Open(path)
		opened <- result{file, err}
	}()
	select {
	case got := <-opened:
		return got.file, got.err
	case <-ctx.Done():
		go func() {
			if late := <-opened; late.err == nil {
				_ = late.file.Close() // nothing was read from it
			}
		}()
		return nil, ctx.Err()
	}
}
