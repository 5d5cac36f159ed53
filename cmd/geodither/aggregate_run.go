package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/records"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/schemas"
)

// aggregateRun is one pass over records.
type aggregateRun struct {
	ctx       context.Context //nolint:containedctx // the collector's callback has no other place for it
	settings  observerSettings
	collect   aggregate.CollectOptions
	estimate  aggregate.EstimateOptions
	out       *aggregateOutput
	bar       *cli.Progress
	split     *splitUsers
	collector *aggregate.Collector // nil until the settings are complete
	waiting   []records.Located
	records   int64
	seeded    int64 // records that say that their noise came from a seed
	wanted    wantedCounts
	report    aggregateReport
}

// add takes one record.
func (r *aggregateRun) add(record schemas.Sanitized, where string) error {
	r.records++
	if schemas.HasNote(record.Mechanism, schemas.Seeded) {
		r.seeded++
	}
	const often = 256
	if r.records%often == 0 {
		r.bar.Show(r.records)
	}
	if _, after := r.outside(record.Step); after {
		r.wanted.after++
		return nil
	}
	if r.collector != nil {
		return r.one(record)
	}
	// Until a release has told ε, what was predicted waits.
	if !r.settings.complete(record) {
		r.waiting = append(r.waiting, records.Located{Record: record, Where: where})
		return nil
	}
	if err := r.begin(); err != nil {
		return err
	}
	return r.one(record)
}

// begin makes the collector and hands it what waited.
func (r *aggregateRun) begin() error {
	if !r.settings.epsilon {
		r.settings.options.Epsilon, r.settings.epsilon = 1, true // there is no release
	}
	if err := r.settings.options.Validate(); err != nil {
		return cli.Usage(err)
	}
	var err error
	r.collector, err = aggregate.NewCollector(r.settings.models.public, r.settings.options, r.collect, r.window)
	if err != nil {
		return cli.Usage(err)
	}
	for _, w := range r.waiting {
		if err := r.one(w.Record); err != nil {
			return fmt.Errorf("%s: %w", w.Where, err)
		}
	}
	r.waiting = nil
	return nil
}

func (r *aggregateRun) one(record schemas.Sanitized) error {
	kind, ok := kindsOf[record.Kind]
	if !ok {
		return errors.New("the record is of a kind that this program does not know: run a newer one")
	}
	if err := r.settings.check(record); err != nil {
		return err
	}
	r.split.released(record)
	seen := aggregate.Record{User: record.UserID, Model: record.ModelID, Step: record.Step, Kind: kind, Number: uint64(record.Release)}
	if r.collector.Grid(record.ModelID) == nil {
		own, over, err := r.settings.models.ownOf(record)
		if err != nil {
			return err
		}
		if own != nil {
			seen.Model, seen.Personal = over, own
		}
	}
	if g := r.collector.Grid(seen.Model); g != nil {
		seen.Release = r.collector.Snap(seen.Model, g.ToMap(record.Latitude, record.Longitude))
		seen.Estimate = g.ToMap(record.EstimateLatitude, record.EstimateLongitude)
	}
	before, _ := r.outside(record.Step)
	r.wanted.turn(!before, r.collector)
	return r.split.explain(remedied(r.collector.Add(seen)))
}

// remedied adds to the collector's errors what to do with the command.
func remedied(err error) error {
	switch {
	case errors.Is(err, aggregate.ErrModel):
		return fmt.Errorf("%w. Give all models of the time, with several --model, the service's list with --models, or its config with -c, "+
			"or leave the time of the others out with --from or --to", err)
	case errors.Is(err, aggregate.ErrMaps):
		return fmt.Errorf("%w. Zones are parts of one map: aggregate the time of each map by itself, with --to that time for the one "+
			"and --from it for the other, or a window later if the change lies inside of that window", err)
	}
	return err
}

// window estimates and writes one window.
func (r *aggregateRun) window(w *aggregate.Window) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if w.Vehicles() == 0 {
		r.report.empty++
		return nil
	}
	d := w.Estimate(r.estimate)
	r.report.add(w, d)
	r.out.zones = r.collector.Zones()
	return r.out.window(w, d, r.estimate.Level)
}

func (r *aggregateRun) finish() error {
	if r.records == 0 {
		return errors.New("there is no record in the input: nothing to aggregate")
	}
	if r.wanted.after == r.records {
		return errors.New("every record is of a window that ends after --to: nothing to aggregate")
	}
	if r.collector == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	r.wanted.turn(false, r.collector)
	return r.split.explain(remedied(r.collector.Finish()))
}
