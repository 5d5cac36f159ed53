package gather

import (
	"context"
	"runtime"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/schemas"
)

// Files is a source of files.
type Files struct {
	Reader *traces.Reader
	Name   string // of a set of them, which the progress line shows; may be empty
}

// Read implements [Source]. It uses all cores.
func (f Files) Read(_ context.Context, into Into, bar *cli.Progress) (*Gathered, error) {
	phase := "reading"
	if f.Name != "" {
		phase += " " + f.Name
	}
	bar.Phase(phase, f.Reader.Progress)
	workers := min(runtime.GOMAXPROCS(0), f.Reader.Files())
	in := newGathered(into, workers)
	in.From = cli.Quantity(int64(f.Reader.Files()), "file")
	err := f.Reader.Parallel(workers, func(worker int, fix schemas.Raw) error {
		if read := in.addFix(worker, fix); read > 0 {
			bar.Show(read)
		}
		return nil
	})
	in.Skips = *f.Reader.Skips()
	return in, err
}
