package tuning

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism/evaluation/tune"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/schemas"
)

// read gathers the traces, with all cores. It says on log what it left out.
func read(
	reader *traces.Reader, o tune.Options, bar *cli.Progress, log io.Writer,
) (*tune.Fixes, error) {
	g, err := grid.New(o.Box, o.CellsM[0])
	if err != nil {
		return nil, cli.Usage(err)
	}
	bin := usualSteps[0]
	if len(o.Steps) > 0 {
		bin = slices.Min(o.Steps)
	}
	bar.Phase("reading", reader.Progress)
	workers := min(runtime.GOMAXPROCS(0), reader.Files())
	gatherers := make([]struct {
		*tune.Fixes
		all, inside, swapped int64
	}, max(1, workers))
	for i := range gatherers {
		gatherers[i].Fixes = tune.NewFixes(g, bin)
	}
	var all atomic.Int64
	err = reader.Parallel(workers, func(worker int, raw schemas.Raw) error {
		const many = 4096
		w := &gatherers[worker]
		switch {
		case g.Contains(raw.Latitude, raw.Longitude):
			w.inside++
		case g.Contains(raw.Longitude, raw.Latitude):
			w.swapped++
		}
		w.Add(train.Fix{
			User: raw.UserID, TimeMS: raw.Timestamp, Lat: raw.Latitude, Lon: raw.Longitude,
		})
		if w.all++; w.all%many == 0 {
			bar.Show(all.Add(many))
		}
		return nil
	})
	bar.Done()
	if err != nil {
		return nil, err
	}
	if skips := reader.Skips(); skips.Total > 0 {
		fmt.Fprintln(log, skips)
	}
	first := &gatherers[0]
	for i := range gatherers[1:] {
		other := &gatherers[1+i]
		first.Merge(other.Fixes)
		first.all, first.inside, first.swapped = first.all+other.all, first.inside+other.inside,
			first.swapped+other.swapped
	}
	if err := gather.NoneInside(cli.Quantity(int64(reader.Files()), "file"), first.all,
		first.inside, first.swapped); err != nil {
		return nil, err
	}
	if first.inside < first.all/2 {
		fmt.Fprintf(log, "warning: %d of %d fixes lie outside the box and are left out\n",
			first.all-first.inside, first.all)
	}
	return first.Fixes, nil
}
