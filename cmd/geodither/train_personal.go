package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// personalFlags say where each user's own model goes.
type personalFlags struct {
	dir    string
	weight float64
}

func (f *personalFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "personal", "", "new `FOLDER` for a model of each user's own over the popular one: as secret as the traces")
	flags.Float64Var(&f.weight, "personal-weight", 0, "weight of the popular model in a row of a personal one, in transitions; 0: 20")
}

// check refuses what cannot be written, before anything is read.
func (f *personalFlags) check() error {
	if f.dir == "" {
		if f.weight != 0 {
			return cli.Usagef("--personal-weight is for personal models: name a folder for them with --personal")
		}
		return nil
	}
	if f.weight < 0 {
		return cli.Usagef("--personal-weight must be positive; leave it out for 20")
	}
	entries, err := os.ReadDir(f.dir)
	switch {
	case os.IsNotExist(err):
		return files.CheckTarget(f.dir)
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("the folder %s is not empty: name a new one for the personal models", f.dir)
	}
	return nil
}

// write writes the users' own models, if they are wanted, and returns how many.
func (f *personalFlags) write(trainer *train.Trainer, popular *mobility.Model, report func(done, total int64) error) (int64, error) {
	if f.dir == "" {
		return 0, nil
	}
	users := int64(0)
	var ended error
	err := mobility.WritePersonals(f.dir, popular, func(yield func(string, mobility.PersonalCounts) bool) {
		for user, counts := range trainer.Personals(f.weight) {
			if ended = report(users, popular.Provenance.Report.Users); ended != nil {
				counts.Weight = -1 // is refused, and so no folder left
			}
			if !yield(user, counts) || ended != nil {
				return
			}
			users++
		}
	})
	if ended != nil {
		return 0, ended
	}
	return users, files.Unwritten(f.dir, err)
}
