// Package aggregate does the work of "geodither aggregate". It hands sanitized records to
// mechanism/aggregate, writes the zones, the flows and a map, and says in words what was found and
// how far to trust it.
package aggregate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/schemas"
)

// Options say what to estimate and where to write it.
type Options struct {
	Read   aggregate.ReadOptions
	Output Output
}

// run is one pass over records.
type run struct {
	options Options
	input   *Input
	reader  *aggregate.Reader
	out     *output
	bar     *cli.Progress
	records int64
	later   []numbered // releases whose records may have an error still
	seeded  int64      // records that say that their noise came from a seed
}

// numbered is a fresh release with the number of its record.
type numbered struct {
	record int64
	user   string
	of     releaseNumber
}

// Run reads the input, writes the estimates and then a summary to std.Err. Files appear when they
// are complete, and only their owner may read them where a window has few vehicles.
func Run(ctx context.Context, in *Input, o Options, std cli.Streams) error {
	o.Read.Collect.Flows = o.Output.Flows != ""
	out, err := newOutput(o.Output, std.Out)
	if err != nil {
		return err
	}
	r := &run{options: o, input: in, out: out, bar: cli.NewProgress(std.Err, in.progress)}
	summary, err := r.read(ctx)
	r.bar.Done()
	if err == nil && summary.Smallest < enough {
		err = out.restrict()
	}
	if err != nil {
		return errors.Join(err, out.discard())
	}
	if err := out.close(summary); err != nil {
		return err
	}
	_, err = io.WriteString(std.Err, r.words(summary))
	return err
}

// read estimates and writes every window.
func (r *run) read(ctx context.Context) (aggregate.Summary, error) {
	write := func(w *aggregate.Window, d aggregate.Density) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return r.out.window(r.reader.Zones(), w, d, r.options.Read.Estimate.Level)
	}
	var err error
	if r.reader, err = aggregate.NewReader(r.options.Read, write); err != nil {
		return aggregate.Summary{}, cli.Usage(err)
	}
	defer r.reader.Close()
	if err := files.Merge(ctx, r.input.sources, r.add); err != nil {
		if ctx.Err() == nil { // else nobody waits for what an earlier record would have said
			if earlier := r.reader.Flush(); earlier != nil {
				return aggregate.Summary{}, r.located(earlier, "")
			}
		}
		return aggregate.Summary{}, err
	}
	summary, err := r.reader.Finish()
	if err != nil {
		return summary, r.located(err, "")
	}
	r.released(r.records)
	return summary, nil
}

// add takes one record.
func (r *run) add(record schemas.Sanitized, where string) error {
	r.records++
	if schemas.HasNote(record.Mechanism, schemas.Seeded) {
		r.seeded++
	}
	const often = 256
	if r.records%often == 0 {
		r.bar.Show(r.records)
	}
	if !r.reader.After(record.Step) && record.Kind == schemas.KindReleased {
		r.later = append(r.later, numbered{r.records, record.UserID, releaseNumber{
			record.Release, record.Step, record.ReleaseLatitude.Number,
			record.ReleaseLongitude.Number,
		}})
	}
	err := r.reader.Add(aggregate.Published{
		User: record.UserID, Model: record.ModelID,
		Mechanism: schemas.MechanismName(record.Mechanism),
		Step:      record.Step, Kind: kinds[record.Kind],
		Latitude: record.Latitude, Longitude: record.Longitude,
		HasRelease:       record.ReleaseLatitude.Known,
		ReleaseLatitude:  record.ReleaseLatitude.Number,
		ReleaseLongitude: record.ReleaseLongitude.Number,
		Epsilon:          record.Epsilon, Delta: record.Delta, Number: record.Release, Where: where,
	})
	if err != nil {
		return r.located(err, where)
	}
	r.released(r.reader.Taken())
	return nil
}

// released notes the releases up to a record.
func (r *run) released(record int64) {
	n := 0
	for n < len(r.later) && r.later[n].record <= record {
		r.input.split.released(r.later[n].user, r.later[n].of)
		n++
	}
	r.later = r.later[n:]
}

// located explains an error and names the place of its record: where, unless it is another one's.
// Releases behind that record have no part in the explanation.
func (r *run) located(err error, where string) error {
	record := r.records
	if placed, ok := errors.AsType[*aggregate.PlaceError](err); ok {
		where, record = placed.Place.Where, placed.Place.Number
	}
	r.released(record)
	if err = r.explain(err); where == "" {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// kinds are the kinds of records.
var kinds = map[string]mechanism.Kind{
	schemas.KindReleased:  mechanism.Released,
	schemas.KindRepeated:  mechanism.Repeated,
	schemas.KindPredicted: mechanism.Predicted,
}

// explain adds to an error what to do with the command.
func (r *run) explain(err error) error {
	if options, ok := errors.AsType[*aggregate.OptionsError](err); ok {
		return cli.Usage(options)
	}
	if setting, ok := errors.AsType[*aggregate.SettingError](err); ok {
		return fmt.Errorf("%w: leave release.%s out of the config, or aggregate the records "+
			"of one setting by themselves", err, setting.Name)
	}
	switch {
	case errors.Is(err, aggregate.ErrNoRelease):
		return fmt.Errorf("%w: the service leaves releases out (publish.release: false). Set "+
			"publish.release: true for records from now on. \"geodither replay\" with that "+
			"setting writes the earlier ones again, to another topic, and says first what it "+
			"costs", err)
	case errors.Is(err, aggregate.ErrAfter):
		return errors.New("every record is of a window that ends after --to: nothing to aggregate")
	case errors.Is(err, aggregate.ErrModel):
		return fmt.Errorf("%w. Give all models of the time, with several --model or the service's "+
			"config with -c, or leave the time of the others out with --from or --to", err)
	case errors.Is(err, aggregate.ErrMaps):
		return fmt.Errorf("%w. Zones are parts of one map: aggregate the time of each map by "+
			"itself, with --to that time for the one and --from it for the other, or a window "+
			"later if the change lies inside of that window", err)
	case errors.Is(err, aggregate.ErrOrder), errors.Is(err, aggregate.ErrSettings):
		if cause := r.input.split.cause(); cause != "" {
			return fmt.Errorf("%w. A likely cause: %s", err, cause)
		}
	}
	return err
}
