package records

import (
	"context"
	"fmt"

	"github.com/geodither/geodither/schemas"
)

// Located is a record with its place in the input: a file and line, or a partition and offset.
type Located struct {
	Record schemas.Sanitized
	Where  string
}

// Merge reads several sources at the same time and calls each with their records in the order of
// their steps. Records of one source keep their order, whatever their steps. The same sources give
// the same order, however fast each of them is.
func Merge(
	ctx context.Context, sources []Source, each func(schemas.Sanitized, string) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	channels, failures := make([]chan Located, len(sources)), make([]error, len(sources))
	for i, source := range sources {
		const ahead = 256
		channels[i] = make(chan Located, ahead)
		go func() {
			defer close(channels[i])
			failures[i] = source(ctx, func(r schemas.Sanitized, where string) error {
				select {
				case channels[i] <- Located{r, where}:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}()
	}
	heads := make([]*Located, len(sources))
	next := func(i int) error {
		select {
		case head, ok := <-channels[i]:
			heads[i] = &head
			if !ok {
				heads[i] = nil
				return failures[i]
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i := range sources {
		if err := next(i); err != nil {
			return err
		}
	}
	for {
		first := -1
		for i, head := range heads {
			if head != nil && (first < 0 || head.Record.Step < heads[first].Record.Step) {
				first = i
			}
		}
		if first < 0 {
			return nil
		}
		if err := each(heads[first].Record, heads[first].Where); err != nil {
			return fmt.Errorf("%s: %w", heads[first].Where, err)
		}
		if err := next(first); err != nil {
			return err
		}
	}
}
