package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/schemas"
)

// smoothing is one pass over records.
type smoothing struct {
	input   *aggregateInput
	out     *files.Output
	bar     *cli.Progress
	counts  aggregate.SmoothCounts
	seeded  int64 // records that say that their noise came from a seed
	records int64
	// before and after are the radii of the records that were smoothed, metres.
	before, after []float32
}

// all smooths and writes all records, to the end of the input or the first error.
func (s *smoothing) all(ctx context.Context, o aggregate.SmoothOptions) error {
	run, err := aggregate.NewSmoothing(o, s.write)
	if err != nil {
		return cli.Usage(err)
	}
	defer run.Close()
	err = files.Merge(ctx, s.input.sources, func(record schemas.Sanitized, where string) error {
		if schemas.IsSmoothed(record.Mechanism) {
			return fmt.Errorf("%s: %w", where, errSmoothed)
		}
		if schemas.HasNote(record.Mechanism, schemas.Seeded) {
			s.seeded++
		}
		const often = 256
		if s.records++; s.records%often == 0 {
			s.bar.Show(s.records)
		}
		return located(run.Add(engine.Published(record, where), record), where)
	})
	if err != nil {
		return err
	}
	if s.records == 0 {
		return errors.New("there is no record in the input: nothing to smooth")
	}
	s.counts, err = run.Finish()
	return located(err, "")
}

// located explains an error and names the place of its record: where, unless it is another one's.
func located(err error, where string) error {
	if err == nil {
		return nil
	}
	if placed, ok := errors.AsType[*aggregate.PlaceError](err); ok {
		where = placed.Place.Where
	}
	if options, ok := errors.AsType[*aggregate.OptionsError](err); ok {
		return cli.Usage(options)
	}
	if setting, ok := errors.AsType[*aggregate.SettingError](err); ok {
		err = fmt.Errorf("%w: leave release.%s out of the config, or smooth the records of one "+
			"setting by themselves", err, setting.Name)
	}
	if errors.Is(err, aggregate.ErrModel) {
		err = fmt.Errorf("%w: add its file with --model", err)
	}
	if where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// write writes a record with what the records up to a later one tell; nil: with what it has.
func (s *smoothing) write(record schemas.Sanitized, past *aggregate.Past) error {
	before := record.RadiusM
	engine.SetPast(&record, past)
	if past != nil {
		s.before = append(s.before, float32(before))
		s.after = append(s.after, float32(record.RadiusM))
	}
	return s.out.Write(record)
}

// littleGained is the share of the median radius below which smoothing is hardly worth the wait.
const littleGained = .05

// gained says what later records have told, or nothing of no records.
func (s *smoothing) gained() string {
	if len(s.before) == 0 {
		return ""
	}
	slices.Sort(s.before)
	slices.Sort(s.after)
	before, after := float64(s.before[len(s.before)/2]), float64(s.after[len(s.after)/2])
	text := fmt.Sprintf("median radius: %s before, %s smoothed\n", cli.Metres(before),
		cli.Metres(after))
	if after > before*(1-littleGained) {
		text += "WARNING: this gains little: few releases lie within the lag, and where the " +
			"model is wrong the estimates can be worse than before\n"
	}
	return text
}

// print says what was smoothed, and what was not.
func (s *smoothing) print(log io.Writer, o aggregate.SmoothOptions) {
	lag, passed := "all", int64(0)
	if o.LagSteps != mechanism.SmoothAll {
		lag = (time.Duration(o.LagSteps) * o.Read.Models[0].Step).String()
	}
	for _, n := range s.counts.Unsmoothed {
		passed += n
	}
	fmt.Fprintf(log, "%s of %s: %d smoothed (lag %s)\n", cli.Quantity(s.counts.Records, "record"),
		cli.Quantity(int64(s.counts.Users), "user"), s.counts.Records-passed, lag)
	fmt.Fprint(log, s.gained())
	for _, reason := range aggregate.UnsmoothedReasons() {
		n, which := s.counts.Unsmoothed[reason], ""
		if reason == aggregate.NoModel {
			which = fmt.Sprintf(" (%.16s); add its file with --model", s.counts.Foreign)
		}
		if n > 0 {
			fmt.Fprintf(log, "%d unsmoothed: %s%s\n", n, reason, which)
		}
	}
	if s.seeded > 0 {
		fmt.Fprintln(log, files.SeededWords(s.seeded))
	}
}
