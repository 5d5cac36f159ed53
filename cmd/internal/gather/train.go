package gather

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/mobility/train/private"
)

// Training is the making of a model's file.
type Training struct {
	Plan
	From     string          // names the traces in the model's provenance
	Private  private.Options // without an ε: learned without differential privacy
	Personal string          // file for users' own models; empty: none
	Out      string          // file of the model
	Inputs   []string        // files that Out must not be
}

// Check refuses what cannot be done: now, not after an hour of training. It completes the options
// of a private training.
func (t *Training) Check() error {
	if err := t.checkPrivate(); err != nil {
		return err
	}
	if _, err := t.Into(t.From); err != nil {
		return err
	}
	if t.Personal != "" {
		if err := files.CheckTarget(t.Personal); err != nil {
			return err
		}
	}
	if t.Out == "-" {
		return cli.Usagef("a model is a file, not a stream: name one with --out")
	}
	if err := files.CheckTarget(t.Out); err != nil {
		return err
	}
	if info, err := os.Stat(t.Out); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is a device or a pipe: name a file for the model", t.Out)
	}
	return files.NotAnInput(t.Out, t.Inputs)
}

// private says whether the model is to be learned with differential privacy.
func (t *Training) private() bool { return t.Private.Epsilon != "" }

// contribution is how many transitions of each user count in a private training, unless the cap of
// the smoothing says otherwise. It served best on real traces.
const contribution = 50

func (t *Training) checkPrivate() error {
	if !t.private() {
		return nil
	}
	t.Private.Contribution, t.Train.UserCap = cmp.Or(t.Train.UserCap, contribution), 0
	if err := t.Private.Validate(); err != nil {
		return cli.Usage(err)
	}
	if t.Personal != "" {
		return cli.Usagef("--dp-epsilon and --personal exclude each other: " +
			"a user's own model is learned without privacy, and no ε covers it")
	}
	return nil
}

// Trained is what a training has made.
type Trained struct {
	Model *mobility.Model
	From  string // in words: what was read
	Fixes int64  // that were read
	Users int64  // with a model of their own
}

// Run reads the traces, makes a model of them and writes it. Nothing is written before the model is
// complete. It logs what was left out, and what makes a poor model.
func (t *Training) Run(ctx context.Context, from Source, log io.Writer) (Trained, error) {
	plan := t.Plan
	plan.Train.KeepShared = t.private()
	into, err := plan.Into(t.From)
	if err != nil {
		return Trained{}, err
	}
	bar := cli.NewProgress(log, nil)
	defer bar.Done()
	in, err := from.Read(ctx, into, bar)
	if err != nil {
		return Trained{}, err
	}
	var (
		trainer *train.Trainer
		model   *mobility.Model
		report  mobility.Report
	)
	err = cli.Interruptibly(ctx, func() (err error) {
		trainer = in.Trainer()
		bar.Phase("smoothing", nil)
		model, report, err = t.finish(trainer, bar.Reporter(ctx, ""), log)
		return err
	})
	if err == nil || errors.Is(err, train.ErrNoFixes) {
		err = t.refuse(in.Useless(report, plan.Train), log)
	}
	if err != nil {
		return Trained{}, err
	}
	file, err := files.Prepare(ctx, t.Out, model)
	if err != nil {
		return Trained{}, err
	}
	defer file.Discard()
	bar.Phase("personal models", nil)
	users, err := t.writePersonals(trainer, model)
	if err != nil {
		return Trained{}, err
	}
	if err := file.Commit(); err != nil {
		return Trained{}, err
	}
	bar.Done()
	if in.Skips.Total > 0 {
		fmt.Fprintln(log, &in.Skips)
	}
	for _, warning := range in.Warnings(report, trainer, model) {
		fmt.Fprintln(log, "warning: "+warning)
	}
	fixes, _ := in.Counts()
	return Trained{model, in.From, fixes, users}, nil
}

// finish turns what was read into a model, unless report returns an error.
func (t *Training) finish(
	trainer *train.Trainer, report func(done, total int64) error, log io.Writer,
) (
	*mobility.Model, mobility.Report, error,
) {
	if !t.private() {
		return trainer.FinishWithProgress(report)
	}
	model, seen, err := private.Train(trainer, t.Private, systemRandom{}, report)
	if err != nil {
		return nil, seen, err
	}
	fmt.Fprintf(log,
		"private: ε = %s for each user id and this model. Every other model of the same users "+
			"adds its own ε, published or not: no program can know of them.\n", t.Private.Epsilon)
	return model, seen, nil
}

// refuse is the error of traces that a model learns nothing from. For a private model it is a
// warning: that there is a model must not depend on the traces.
func (t *Training) refuse(useless error, log io.Writer) error {
	if useless == nil || !t.private() {
		return useless
	}
	fmt.Fprintf(log, "warning: the model is made of noise alone: %v\n", useless)
	return nil
}

// writePersonals writes the users' own models, if they are wanted, and returns how many.
func (t *Training) writePersonals(trainer *train.Trainer, popular *mobility.Model) (int64, error) {
	if t.Personal == "" {
		return 0, nil
	}
	users := maps.Collect(trainer.Personals(0)) // 0: the default weight of the popular model
	var data bytes.Buffer
	err := mobility.WritePersonals(&data, popular, users)
	if err == nil {
		err = files.WriteSecret(t.Personal, data.Bytes())
	}
	return int64(len(users)), files.Unwritten(t.Personal, err)
}

// systemRandom is the operating system's generator.
type systemRandom struct{}

// Uint64 never fails: crypto/rand ends the program instead.
func (systemRandom) Uint64() uint64 {
	var word [8]byte
	_, _ = rand.Read(word[:])
	return binary.LittleEndian.Uint64(word[:])
}
