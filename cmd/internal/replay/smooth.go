package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/recompute"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism/noise"
)

// needsAll is why an output is not smoothed that begins in the middle: without a user's first
// records nobody can follow the others.
const needsAll = "smoothing needs a replay from the beginning, without --from"

// errSmoothed says that the smoothed topic is another one's.
var errSmoothed = errors.New("was smoothed already, up to another end or under other settings")

// smoothing returns the service that smooths what a replay publishes. Its names follow from those
// of the replay, and it has no key.
func smoothing(replayed service.Options) service.Options {
	replayed.Cluster = replayed.WithDefaults().Smoothing("", "")
	replayed.StateDir += "-smooth"
	replayed.Key, replayed.Windows = noise.Key{}, nil
	return replayed
}

// whole returns the settings that smooth the output of a replay that is done, up to its end. The
// error is errSmoothed if it was begun with others: it would go on behind blocks that they closed.
func (p *Plan) whole(ctx context.Context, o service.Options, r Options) (
	settings engine.SmoothSettings, err error,
) {
	settings = *r.Smooth
	readers := make([]*topics.Reader, len(p.Partitions))
	total := make([]int64, len(p.Partitions))
	for n := range p.Partitions {
		readers[n], err = topics.OpenDecided(ctx, o.Client(), o.Topics.Raw, int32(n), o.Patience())
		if err != nil {
			return settings, fmt.Errorf("partition %d of %s: %w", n, o.Topics.Raw, err)
		}
		total[n] = readers[n].End - readers[n].First
	}
	progress := recompute.NewProgress(r.Ending, total)
	for n, reader := range readers {
		end, err := endOf(ctx, reader, func(at int64) {
			progress.Set(n, at-reader.First, total[n])
		})
		if err != nil {
			return settings, fmt.Errorf("partition %d of %s: %w", n, o.Topics.Raw, err)
		}
		settings.Ends = append(settings.Ends, end)
	}
	own := settings.Fingerprint()
	for n := range p.Partitions {
		mark, begun, err := topics.LastMark(ctx, o.Client(), o.Topics.Changelog, int32(n))
		if err != nil {
			return settings, err
		}
		if begun && !bytes.Equal(mark.Settings, own) {
			return settings, fmt.Errorf("%s %w (different: %s): name a new --output-topic",
				o.Topics.Raw, errSmoothed, settings.Differences(mark.Settings))
		}
	}
	return settings, nil
}

// endOf goes through a partition, up to its end.
func endOf(ctx context.Context, r *topics.Reader, progress func(at int64)) (
	end engine.End, err error,
) {
	last, read := map[string]int64{}, 0
	err = r.Scan(ctx, r.First, r.End, func(record consumer.Record) error {
		last[string(record.Key)], end.Next = record.Offset, record.Offset+1
		if read++; read%countEvery == 0 {
			progress(end.Next)
		}
		return nil
	})
	progress(r.End)
	end.Last = make(map[int64]bool, len(last))
	for _, offset := range last {
		end.Last[offset] = true
	}
	return end, err
}
