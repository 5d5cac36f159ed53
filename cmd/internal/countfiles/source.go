package countfiles

import (
	"context"
	"runtime"
	"sync"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/schemas"
)

// Source gives fixes: those of Files, or of a raw topic (gather.Fixes).
type Source interface {
	// Workers is how many call take at a time at most.
	Workers() int
	// Each gives each fix to take. All of a worker's come one after the other.
	Each(
		ctx context.Context, bar *cli.Progress, take func(worker int, fix schemas.Raw) error,
	) error
	// Skips returns what was left out, once Each has returned.
	Skips() *traces.Skips
}

// Files are a Source.
type Files struct{ *traces.Reader }

// Workers is one for each file, up to the number of cores.
func (f Files) Workers() int { return max(1, min(runtime.GOMAXPROCS(0), f.Files())) }

// Each implements Source.
func (f Files) Each(
	_ context.Context, bar *cli.Progress, take func(worker int, fix schemas.Raw) error,
) error {
	bar.Phase("", f.Progress)
	var showing sync.Mutex // one worker shows the progress at a time
	read := make([]int64, f.Workers())
	return f.Parallel(len(read), func(worker int, fix schemas.Raw) error {
		if read[worker]++; read[worker]%4096 == 0 && showing.TryLock() {
			bar.Show(read[worker])
			showing.Unlock()
		}
		return take(worker, fix)
	})
}
