package cli

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/traces"
)

// InputFlags name files of raw fixes, and how to read them.
type InputFlags struct {
	Paths   []string
	Format  string            // of [traces.Format]; empty: seen from the content
	columns map[string]string // name in the file by name of the column
	Strict  bool              // the first bad line is an error

	flag string // the flag that names the paths
}

// Register registers the flags, with --in for the paths.
func (f *InputFlags) Register(flags *pflag.FlagSet) {
	f.RegisterAs(flags, "in")
	flags.StringVar(&f.Format, "format", "",
		"csv, ndjson, geolife or gowalla; default: seen from the content")
	flags.BoolVar(&f.Strict, "strict", false, "stop at the first bad line instead of counting it")
}

// RegisterAs registers only the flags of the paths, under a name, and of the columns. The format is
// seen from the content, and bad lines are counted.
func (f *InputFlags) RegisterAs(flags *pflag.FlagSet, paths string) {
	f.flag = paths
	// An array, not a slice: a path may hold a comma.
	flags.StringArrayVar(&f.Paths, paths, nil,
		"file or folder of traces, `PATH`, repeatable; - is standard input")
	flags.StringToStringVar(&f.columns, "columns", nil,
		"columns of other names, `COLUMN=NAME,...`, as in user_id=vehicle,timestamp=ts")
}

// Open opens the paths of the flags and those behind the flags. The end of the context ends the
// reading.
func (f *InputFlags) Open(
	ctx context.Context, more []string, stdin io.Reader,
) (*traces.Reader, error) {
	options := traces.Options{Format: traces.Format(f.Format), Strict: f.Strict, Columns: f.columns}
	if err := options.Validate(); err != nil {
		return nil, Usage(err)
	}
	paths := slices.Concat(f.Paths, more)
	if len(paths) == 0 {
		return nil, Usagef("name the traces to read with --%s; - is standard input",
			cmp.Or(f.flag, "in"))
	}
	return traces.Open(ctx, paths, stdin, options)
}
