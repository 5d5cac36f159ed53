package tuning

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/noise"
)

// Claim makes a folder for its owner only, or takes an empty one as it is. It refuses another one:
// the model that a service runs with, or a key, must not be replaced. The returned function removes
// the folder if nothing was written into it.
func Claim(folder string, log io.Writer) (leave func(), err error) {
	entries, err := os.ReadDir(folder)
	switch {
	case err == nil && len(entries) > 0:
		return nil, cli.Usagef("the folder %s is not empty: name a new one with --out", folder)
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(folder, 0o700)
	case err == nil:
		files.WarnOpenFolder(folder, log)
	}
	if err != nil {
		return nil, files.Unwritten(folder, err)
	}
	// Figures of people's traces and the key stay out of any repository around the folder.
	if err := files.Hide(folder, log); err != nil {
		_ = os.Remove(folder) // it is empty
		return nil, err
	}
	return func() {
		if entries, err := os.ReadDir(folder); err == nil && len(entries) == 1 {
			_ = os.Remove(filepath.Join(folder, entries[0].Name()))
			_ = os.Remove(folder)
		}
	}, nil
}

// Files of a tuned folder, besides its report.
const (
	ConfigFile = "geodither.yml"
	ModelFile  = "model.avro"
	KeyFile    = "noise.key"
)

// errNoChoice ends a search for a target that no plan reaches. The report is written all the same.
var errNoChoice = errors.New(
	"no plan meets the target; the folder has the report and no config")

// deliver prints what was found and writes the folder. The config is written last: where it is, all
// else is.
func deliver(ctx context.Context, r *tune.Result, folder string, std cli.Streams) error {
	printResult(std.Out, r)
	if err := r.Report().Write(folder, func() error { return ctx.Err() }); err != nil {
		return files.Unwritten(folder, err)
	}
	in := func(name string) string { return filepath.Join(folder, name) }
	fmt.Fprintf(std.Out, "\nwrote %s\n", in("report.html"))
	switch {
	case r.Promise == nil && r.Options.TargetKM == 0 && r.Options.TargetEpsilonDay == 0:
		return nil
	case r.Promise == nil:
		return errNoChoice
	}
	model, err := files.Prepare(ctx, in(ModelFile), r.Model)
	if err != nil {
		return err
	}
	defer model.Discard()
	if err := files.WriteKey(in(KeyFile), noise.NewKey()); err != nil {
		return files.Unwritten(in(KeyFile), err)
	}
	if err := model.Commit(); err != nil {
		return err
	}
	if err := files.WriteWhole(in(ConfigFile), []byte(yamlOf(r))); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, `wrote %s
wrote %s
wrote %s: keep it as secret as the traces
next: put your brokers, group and topics into the config. Stop what runs in that
group under other settings first: both would release the same fixes. Then
  geodither doctor -c %s
  geodither run -c %s
`, in(ConfigFile), in(ModelFile), in(KeyFile), in(ConfigFile), in(ConfigFile))
	return nil
}
