// Package attack runs the two audits of "geodither audit", one of the mechanism and one of the
// service around it, and prints what they have found.
package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	serviceaudit "github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/evaluation/audit"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// Options say how much is drawn, and from what.
type Options struct {
	Draws int64 // releases that the attack on the mechanism draws
	Seed  uint64
	// Traces are followed for location sets; nil: vehicles are simulated that move by the model.
	Traces *traces.Reader
}

// Validate reports a number of draws that tells nothing.
func (o Options) Validate() error {
	if o.Draws == 0 { // the library would take its default
		return errors.New("--draws must not be 0: leave it out for the default")
	}
	return o.mechanism().Validate()
}

// mechanism returns the options of the audit of the mechanism. The two audits share the rate of
// false alarms.
func (o Options) mechanism() audit.Options {
	return audit.Options{
		Draws: o.Draws, Seed: o.Seed, Confidence: confidence, Ratio: true,
		Workers: runtime.GOMAXPROCS(0),
	}
}

// confidence is that of one of two audits, which raise a false alarm in one of a thousand runs
// together.
const confidence = (1 + audit.DefaultConfidence) / 2

// Run attacks the mechanism of the settings and then the service around it. It shows on log how far
// it has come. An error means that an audit could not run; what was found is in the report.
func Run(ctx context.Context, s serviceaudit.Settings, o Options, log io.Writer) (Report, error) {
	began := time.Now()
	model, release := s.Model, serviceaudit.PlainRules(s.Release)
	scout, err := audit.NewScout(model, release, o.Seed)
	if err != nil {
		return Report{}, err
	}
	r := Report{Simulated: o.Traces == nil}
	if o.Traces != nil {
		r.Visits, err = follow(ctx, o.Traces, scout, model, log)
	} else {
		r.Visits, err = simulate(ctx, o.Seed, scout, model)
	}
	if err != nil {
		return Report{}, err
	}
	r.Met = scout.Met()
	situations := scout.Situations()
	if len(situations) == 0 {
		return Report{}, errors.New("no location set of more than one place, and no codebook of " +
			"more than one point, was met: give longer traces with --in, a larger --epsilon, or " +
			"a smaller --delta")
	}
	bar := cli.NewProgress(log, nil)
	defer bar.Done()
	options := o.mechanism()
	options.Progress = bar.Reporter(ctx, "draws")
	r.Report, err = audit.Run(audit.Sanitizers{}, model, release, situations, options)
	if err != nil {
		return Report{}, err
	}
	bar.Phase("", nil)
	r.Service, err = serviceaudit.Run(serviceaudit.Engine, s, serviceaudit.Options{
		Sizes: serviceaudit.SizesFor(o.Draws), Seed: o.Seed, Confidence: confidence,
		Workers: runtime.GOMAXPROCS(0), Progress: bar.Reporter(ctx, "records"),
	})
	if err != nil {
		return Report{}, err
	}
	r.Findings = append(r.Findings, serviceFindings(r.Service)...)
	r.Passed = r.Passed && r.Service.Passed
	r.Seconds = time.Since(began).Seconds()
	ended := time.Now().UTC().Truncate(time.Second)
	r.Program, r.Time = cli.Tool(), &ended
	return r, nil
}

// How many steps of the traces are followed: sets repeat themselves, and no user is to have them
// all.
const (
	mostVisits  = 2000
	mostOfAUser = 200
)

// follow sends the fixes of traces past the scout.
func follow(
	ctx context.Context, reader *traces.Reader, scout *audit.Scout, model *mobility.Model,
	log io.Writer,
) (visits int, err error) {
	bar := cli.NewProgress(log, nil)
	defer bar.Done()
	seen := map[string]int{}
	for fix, err := range reader.Fixes() {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return visits, err
		}
		if seen[fix.UserID] == mostOfAUser {
			continue
		}
		cell := model.Grid.Locate(fix.Latitude, fix.Longitude)
		fresh, err := scout.Visit(fix.UserID, model.StepAt(fix.Timestamp), cell)
		if err != nil {
			return visits, err
		}
		if !fresh {
			continue
		}
		seen[fix.UserID]++
		visits++
		bar.Show(int64(visits))
		if visits == mostVisits {
			break
		}
	}
	return visits, nil
}

// simulate sends vehicles past the scout that move by the model.
func simulate(
	ctx context.Context, seed uint64, scout *audit.Scout, model *mobility.Model,
) (visits int, err error) {
	const vehicles, steps = 20, mostVisits / 20
	rng := rand.New(rand.NewPCG(seed, 0x6175646974)) // any second word: it names the stream
	for v := range vehicles {
		walker := trial.NewWalker(model, rng)
		for step := range steps {
			if err := ctx.Err(); err != nil {
				return visits, err
			}
			user := fmt.Sprintf("sim-%06d", v)
			if _, err := scout.Visit(user, int64(step), walker.Cell); err != nil {
				return visits, err
			}
			visits++
			walker.Move(int64(step))
		}
	}
	return visits, nil
}
