// Package tuning searches settings on traces and writes a folder that a service can run with.
//
//	tuning.go  what is asked for, and the order of things
//	usual.go   cells and steps where nobody has chosen them
//	read.go    the traces
//	folder.go  the folder, with config, model, key and report
//	text.go    what is printed, and the config
package tuning

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/law"
)

// Options say what is searched, and where the result goes.
type Options struct {
	tune.Options
	// Quick measures each setting on few steps: a first look.
	Quick bool
	// Folder gets the config, the model, the key and the report. It must be new or empty.
	Folder string
}

// Complete fills in what was left open and does not depend on the traces. It returns an error for
// what cannot be searched, as far as that is known before the traces are read.
func (o *Options) Complete() error {
	exact := []string{law.Codebook, law.Lattice} // which a service takes for people
	if len(o.Mechanisms) == 0 {
		o.Mechanisms = exact[:1] // which has the least error
	}
	for _, name := range o.Mechanisms {
		if !slices.Contains(exact, name) {
			return fmt.Errorf("mechanism %q: tune chooses between %s, whose guarantee is proved",
				name, strings.Join(exact, " and "))
		}
	}
	// Steps with a fix, taken evenly from users: for a first look at each setting, and for those
	// that are worth it. The promise and the check are measured on four times as many.
	o.ScoutBins, o.Bins = 1000, 8000
	if o.Quick {
		o.ScoutBins, o.Bins = 200, 600
	}
	o.Workers = runtime.GOMAXPROCS(0)
	if len(o.CellsM) == 0 {
		o.CellsM = usualCells(o.Box, o.TargetKM)
	}
	if len(o.Steps) == 0 {
		return nil // the traces decide
	}
	fill(&o.Options, nil)
	return o.Validate()
}

// Run reads the traces, searches, and writes the folder.
func Run(ctx context.Context, reader *traces.Reader, o Options, std cli.Streams) error {
	leave, err := Claim(o.Folder, std.Err)
	if err != nil {
		return err
	}
	defer leave()
	bar := cli.NewProgress(std.Err, nil)
	defer bar.Done()
	fixes, err := read(reader, o.Options, bar, std.Err)
	if err != nil {
		return err
	}
	fill(&o.Options, fixes)
	if err := o.Validate(); err != nil {
		return cli.Usage(err)
	}
	phase := ""
	o.Progress = func(name string, done, total int64) error {
		if name != phase {
			phase = name
			bar.Phase(name, nil)
		}
		bar.Count(done, total, "")
		return ctx.Err()
	}
	var result *tune.Result
	err = cli.Interruptibly(ctx, func() (err error) {
		result, err = tune.Search(fixes, o.Options)
		return err
	})
	bar.Done()
	if err != nil {
		return err
	}
	return deliver(ctx, result, o.Folder, std)
}
