package files

import (
	"context"

	"github.com/geodither/geodither/schemas"
)

// Located is a record with its place in the input: a file and line, or a partition and offset.
type Located struct {
	Record schemas.Sanitized
	Where  string
}

// Merge reads several sources at the same time and calls each with their records in the order of
// their steps. Records of one source keep their order, whatever their steps. The same sources give
// the same order, however fast each of them is. An error of each ends the reading.
func Merge(
	ctx context.Context, sources []Source, each func(schemas.Sanitized, string) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inputs := make([]*input, len(sources))
	for i, source := range sources {
		inputs[i] = readAhead(ctx, source)
	}
	for _, in := range inputs {
		if err := in.next(ctx); err != nil {
			return err
		}
	}
	for {
		first := earliest(inputs)
		if first == nil {
			return nil
		}
		if err := each(first.head.Record, first.head.Where); err != nil {
			return err
		}
		if err := first.next(ctx); err != nil {
			return err
		}
	}
}

// input is a source that is read ahead of what is merged of it.
type input struct {
	records chan Located
	failure error    // what the source ended with, once records is closed
	head    *Located // the next record, nil at the end
}

func readAhead(ctx context.Context, source Source) *input {
	const ahead = 256
	in := &input{records: make(chan Located, ahead)}
	go func() {
		defer close(in.records)
		in.failure = source(ctx, func(r schemas.Sanitized, where string) error {
			select {
			case in.records <- Located{r, where}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return in
}

// next waits for the next record, or for the end.
func (in *input) next(ctx context.Context) error {
	select {
	case head, ok := <-in.records:
		if !ok {
			in.head = nil
			return in.failure
		}
		in.head = &head
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// earliest returns the first input whose next record is of the earliest step, nil at the end of
// all.
func earliest(inputs []*input) (first *input) {
	for _, in := range inputs {
		if in.head != nil && (first == nil || in.head.Record.Step < first.head.Record.Step) {
			first = in
		}
	}
	return first
}
