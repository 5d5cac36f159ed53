package service

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/checks"
)

// Examine makes all checks of a service that sanitizes with these options, and changes nothing: it
// makes none of the four topics, joins no group and begins no transaction. c is what the options'
// config says beside them; nil: there is none.
func Examine(
	ctx context.Context, o Options, c *checks.Config, tell func(checks.Finding),
) []checks.Finding {
	start := o.Start()
	start.Config, start.Invalid = c, o.Validate()
	return examine(ctx, start, func() (*Service, error) { return New(o) }, tell)
}

// ExamineCounting is Examine for either of the two services that count.
func ExamineCounting(
	ctx context.Context, o Options, c *Counting, tell func(checks.Finding),
) []checks.Finding {
	start := o.Start()
	start.AnyClock = c.producersTimes
	return examine(ctx, start, func() (*Service, error) { return NewWindows(o, c) }, tell)
}

// examine makes all checks of a start, the first look with a service that is made for it.
func examine(
	ctx context.Context, start checks.Start, create func() (*Service, error),
	tell func(checks.Finding),
) []checks.Finding {
	start.First = func(ctx context.Context, partitions int, begun bool) error {
		s, err := create()
		if err != nil {
			return err
		}
		return s.LookFirst(ctx, partitions, begun)
	}
	return checks.All(ctx, start, tell)
}
