package modelfit

import (
	"errors"
	"fmt"
	"iter"
	"runtime"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// options returns the model's training options. It refuses a private model: what is measured or
// chosen on its own users would tell about them what no ε covers.
func (m *measurement) options() (train.Options, error) {
	if m.model.Provenance.Privacy != nil {
		return train.Options{},
			errors.New("the model was trained with differential privacy, and its users' traces " +
				"must not decide or tell anything else: measure it on traces of other people, " +
				"without --held-out and --select")
	}
	o, err := train.OptionsOf(m.model)
	if err != nil {
		return o, fmt.Errorf("%w: train it again, or measure it on traces of other people, "+
			"without --held-out and --select", err)
	}
	return o, nil
}

// heldOut measures a second model, which was not trained on the users held out, on these users.
func (m *measurement) heldOut(from gather.Source) (Result, error) {
	options, err := m.options()
	if err != nil {
		return Result{}, err
	}
	trainer, skips, err := m.read(from, options)
	if err != nil {
		return Result{}, err
	}
	if err := m.requireTraces(trainer); err != nil {
		return Result{}, err
	}
	h, err := holding(m.HeldOut, trainer)
	if err != nil {
		return Result{}, err
	}
	tracks := trainer.Tracks(h.held)
	o := m.fitOptions(options.EveryFix, tracks)
	if m.Write {
		others := trainer.Tracks(func(user string) bool { return !h.held(user) })
		if err := disclosable(fit.Weigh(tracks, o), movers(others), o); err != nil {
			return Result{}, err
		}
	}
	m.bar.Phase("holding out", nil)
	second, _, err := trainer.Without(h.held).FinishWithProgress(m.bar.Reporter(m.ctx, ""))
	if err != nil {
		return Result{}, fmt.Errorf("a model without the users held out: %w", err)
	}
	measured, err := m.measure(second, tracks, o)
	if err != nil {
		return Result{}, err
	}
	measured.Held = h.words
	if m.Write {
		err = m.store(measured)
	}
	return Result{Fit: measured, Skips: skips}, err
}

// requireTraces returns an error unless training on all that was read gives the model.
func (m *measurement) requireTraces(trainer *train.Trainer) error {
	m.bar.Phase("training", nil)
	again, _, err := trainer.FinishWithProgress(m.bar.Reporter(m.ctx, ""))
	if err != nil {
		return err
	}
	if again.ID() != m.model.ID() {
		return fmt.Errorf("training on these traces gives model %s and not %s, so they are not "+
			"those that it was trained on: "+
			"give these, all of them and no others, or measure it on traces of other people, "+
			"without --held-out",
			again.ID(), m.model.ID())
	}
	return nil
}

// disclosable says whether the fit may be stored, and if not, what to do.
func disclosable(w fit.Weight, others int64, o fit.Options) error {
	err := fit.Disclosable(w, others)
	instead := "; or leave --write out: then the fit tells only you"
	switch {
	case errors.Is(err, fit.ErrFewHeld):
		return fmt.Errorf("%w: hold out more users, or allow stretches of fewer than %d steps "+
			"with --min-segment%s%s",
			err, o.MinSegment, orMoreSteps(o), instead)
	case errors.Is(err, fit.ErrFewOthers):
		return fmt.Errorf("%w: hold out fewer%s", err, instead)
	case errors.Is(err, fit.ErrDominated):
		return fmt.Errorf("%w: hold out more users, or measure fewer steps, which are taken "+
			"evenly from users, with --steps %d%s",
			err, w.FairSteps(o.MinSegment), instead)
	}
	return err
}

// orMoreSteps names the flag that has bounded the number of users, if it has.
func orMoreSteps(o fit.Options) string {
	if o.MaxSteps == 0 {
		return ""
	}
	return ", or more steps with --steps"
}

// movers counts the users with a transition. Tracks come by user.
func movers(tracks iter.Seq[mobility.Track]) (number int64) {
	last := ""
	for t := range tracks {
		if len(t.Cells) > 1 && (number == 0 || t.User != last) {
			number, last = number+1, t.User
		}
	}
	return number
}

// store puts the fit into the model's file. The model stays the same: a fit is no part of its id.
func (m *measurement) store(measured *mobility.Fit) error {
	m.model.Provenance.Fit = measured
	file, err := files.Prepare(m.ctx, m.path, m.model)
	if err != nil {
		return err
	}
	defer file.Discard()
	return file.Commit()
}

// choose tries smoothings, from that of the model on.
func (m *measurement) choose(from gather.Source) (Result, error) {
	start, err := m.options()
	if err != nil {
		return Result{}, err
	}
	trainer, skips, err := m.read(from, start)
	if err != nil {
		return Result{}, err
	}
	m.bar.Phase("choosing", nil)
	selection, err := fit.Select(trainer, start, fit.SelectOptions{
		Release: m.Release, MinSegment: m.shortest(trainer.Tracks(nil)), MaxSteps: m.Steps,
		Seed: seed, Runs: m.Runs,
		Workers: runtime.GOMAXPROCS(0), EveryFix: start.EveryFix,
		Progress: m.bar.Reporter(m.ctx, "candidates"),
	})
	return Result{Selection: &selection, Skips: skips}, err
}
