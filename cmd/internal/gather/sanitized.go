package gather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/schemas"
)

// Input is the sanitized records of files or of a topic, for one reading.
type Input struct {
	// Records counts those that were read, and Seeded those of them that say that their noise came
	// from a seed. FirstMS and LastMS are their earliest and latest time.
	Records, Seeded int64
	FirstMS, LastMS int64

	sources []files.Source
	read    atomic.Int64 // bytes
	total   int64        // bytes; 0 if that is not known
}

// SanitizedFiles is an input of files of "sanitize" or "consume"; "-" is standard input.
func SanitizedFiles(paths []string, stdin io.Reader) (*Input, error) {
	if i := slices.Index(paths, "-"); i >= 0 && slices.Contains(paths[i+1:], "-") {
		return nil, cli.Usagef("standard input is named twice: name - once")
	}
	total, err := files.Sizes(paths)
	if err != nil {
		return nil, err
	}
	in := &Input{total: total}
	for _, path := range paths {
		count := func(n int) { in.read.Add(int64(n)) }
		in.sources = append(in.sources, files.Records(path, stdin, count))
	}
	return in, nil
}

// Input is an input of the topic, from its first offset to the end that it has now.
func (s Records) Input(ctx context.Context) (*Input, error) {
	held, err := s.Held(ctx)
	return &Input{sources: held}, err
}

// Progress says how many bytes of how many are read.
func (in *Input) Progress() (done, total int64) { return in.read.Load(), in.total }

// errSmoothed refuses records that later ones have changed already.
var errSmoothed = errors.New("the record is smoothed already: " +
	"name the sanitized records that it was made from")

// Each calls each with all records: see files.Merge. It refuses those that are smoothed.
func (in *Input) Each(
	ctx context.Context, bar *cli.Progress, each func(schemas.Sanitized, string) error,
) error {
	return files.Merge(ctx, in.sources, func(record schemas.Sanitized, where string) error {
		if schemas.IsSmoothed(record.Mechanism) {
			return fmt.Errorf("%s: %w", where, errSmoothed)
		}
		if schemas.HasNote(record.Mechanism, schemas.Seeded) {
			in.Seeded++
		}
		if in.Records++; in.Records == 1 {
			in.FirstMS, in.LastMS = record.Timestamp, record.Timestamp
		}
		in.FirstMS = min(in.FirstMS, record.Timestamp)
		in.LastMS = max(in.LastMS, record.Timestamp)
		const often = 256
		if in.Records%often == 0 {
			bar.Show(in.Records)
		}
		return each(record, where)
	})
}

// Explain adds to the error of a reader what to do, given what became of the records.
func Explain(err error, c follow.Counts) error {
	if options, ok := errors.AsType[*follow.OptionsError](err); ok {
		return cli.Usage(options)
	}
	if setting, ok := errors.AsType[*follow.SettingError](err); ok {
		return fmt.Errorf("%w: leave release.%s out of the config, or read the records of one "+
			"setting by themselves", err, setting.Name)
	}
	switch {
	case errors.Is(err, follow.ErrModel):
		return fmt.Errorf("%w: add its file with --model", err)
	case errors.Is(err, follow.ErrNoRelease):
		return fmt.Errorf("%w: set publish.release: true, and write earlier records again "+
			"with \"geodither replay\"", err)
	case errors.Is(err, follow.ErrOrder), errors.Is(err, follow.ErrSettings):
		if split := Split(c); split != "" {
			return fmt.Errorf("%w. A likely cause: %s", err, split)
		}
	}
	return err
}

// Split says how many users have records of two states, or nothing.
func Split(c follow.Counts) string {
	if c.Split == 0 {
		return ""
	}
	return cli.Quantity(int64(c.Split), "user") + " with releases whose numbers go back. Such " +
		"releases come from two states of a user, each with a budget: the raw topic's producers " +
		"may not agree on a partitioner (\"geodither doctor\" says which ones they use), or the " +
		"records are of two services or groups"
}
