package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/mobility/train/private"
)

// privateFlags ask for training with differential privacy.
type privateFlags struct{ options private.Options }

func (f *privateFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.Epsilon, "dp-epsilon", "", "train with differential privacy: the `ε` that bounds what the model tells about any one user, such as 1")
	flags.IntVar(&f.options.Contribution, "dp-contribution", 0, "transitions of each user that count, with --dp-epsilon; 50 served best on real traces")
	flags.IntVar(&f.options.Radius, "dp-radius", 0, "cells that a transition that counts may go, with --dp-epsilon; 0: the kernel radius")
}

// on says whether the model is to be private.
func (f *privateFlags) on() bool { return f.options.Epsilon != "" }

// apply reports flags that make no sense, and sets the training options that
// privacy asks for. chosen says that something else would be computed from the
// traces, for the file or for a choice of parameters, personal that users' own models
// are asked for.
func (f *privateFlags) apply(to *train.Options, chosen, personal bool) error {
	if !f.on() {
		if f.options != (private.Options{}) {
			return cli.Usagef("--dp-contribution and --dp-radius are for private training: add --dp-epsilon")
		}
		return nil
	}
	if f.options.Contribution == 0 {
		return cli.Usagef("--dp-epsilon needs --dp-contribution: how many transitions of each user count, such as 50; choose it without a look at the traces")
	}
	if err := f.options.Validate(); err != nil {
		return cli.Usage(err)
	}
	if chosen {
		return cli.Usagef("--dp-epsilon covers the model alone: parameters chosen or a fit measured on the same traces would tell about their users besides; use traces that are public, or measure afterwards and keep the result")
	}
	if personal {
		return cli.Usagef("--dp-epsilon and --personal exclude each other: a user's own model is learned without privacy, and no ε covers it")
	}
	if to.UserCap != 0 {
		return cli.Usagef("--dp-epsilon and --user-cap exclude each other: of a private model --dp-contribution says how many transitions of each user count")
	}
	to.KeepShared = true
	return nil
}

// train makes the private model, and says on the trusted side what it is worth.
func (f *privateFlags) train(trainer *train.Trainer, report func(done, total int64) error, err io.Writer) (*mobility.Model, mobility.Report, error) {
	model, seen, failed := private.Train(trainer, f.options, systemRandom{}, report)
	if failed != nil {
		return nil, seen, failed
	}
	fmt.Fprintf(err, "private: ε = %s for each user id and this model. Every other model of the same users adds its own ε, published or not: no program can know of them.\n", f.options.Epsilon)
	return model, seen, nil
}

// systemRandom is the operating system's generator.
type systemRandom struct{}

// Uint64 never fails: crypto/rand ends the program instead.
func (systemRandom) Uint64() uint64 {
	var word [8]byte
	_, _ = rand.Read(word[:])
	return binary.LittleEndian.Uint64(word[:])
}
