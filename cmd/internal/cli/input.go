package cli

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/schemas/mapping"
)

// InputFlags name files of raw fixes, and how to read them.
type InputFlags struct {
	Paths []string
	// MaxAhead is how far fixes may lie ahead of the clock at Open; 0: schemas.DefaultMaxAhead.
	MaxAhead time.Duration

	Columns map[string]string // name in the file by name of the column
	// Mapping is the section input of a config, by which JSON is read; nil: there is none.
	Mapping *mapping.Mapping
}

// Register registers --in. The files' formats are seen from their content, and bad lines are
// counted.
func (f *InputFlags) Register(flags *pflag.FlagSet) {
	// An array, not a slice: a path may hold a comma.
	flags.StringArrayVar(&f.Paths, "in", nil,
		"file or folder of traces, `PATH`; repeatable; - is standard input; times without a "+
			"zone are UTC")
}

// RegisterColumns registers --columns.
func (f *InputFlags) RegisterColumns(flags *pflag.FlagSet) {
	flags.StringToStringVar(&f.Columns, "columns", nil,
		"the file's own names of columns, `COLUMN=NAME,...`, such as timestamp=ts")
	flags.Lookup("columns").DefValue = "" // the help would show []
}

// Open opens the paths of the flags and those behind the flags. The end of the context ends the
// reading.
func (f *InputFlags) Open(
	ctx context.Context, more []string, stdin io.Reader,
) (*traces.Reader, error) {
	options := traces.Options{
		Columns: f.Columns, Mapping: f.Mapping, MaxAhead: f.MaxAhead,
	}
	if err := options.Validate(); err != nil {
		return nil, Usage(err)
	}
	paths := slices.Concat(f.Paths, more)
	if len(paths) == 0 {
		return nil, Usagef("name the traces to read with --in; - is standard input")
	}
	return traces.Open(ctx, paths, stdin, options)
}
