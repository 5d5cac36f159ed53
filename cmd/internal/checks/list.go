// Package checks has the list of what a service needs before it works: its settings, its folder,
// the brokers, its rights there, the four topics, the group, the account of ε, and a sample of the
// raw records. "run" makes those that are its own at its start and stops at the first failure,
// "doctor" makes all and prints what each has found, and "config lint" makes those that need no
// broker. No check changes anything. Each finding names a level and what to do.
package checks

import (
	"context"
	"slices"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/wire"
)

// List returns all checks, in their order.
func List() []Check {
	return slices.Concat(textChecks(), folderChecks(), brokerChecks(), rightsChecks(),
		accountChecks(), topicChecks(), groupChecks(), recordChecks())
}

// ByText makes the checks that need no broker.
func ByText(s Start) []Finding {
	d := newExamination(s, nil, nil)
	for _, c := range List() {
		if c.need == needsText && c.of&sanitizes != 0 {
			d.make(context.Background(), c)
		}
	}
	return d.found
}

// All makes all checks. A broker that is asked for the coordinator of transactions for the first
// time makes its own topic for them. What cannot be seen are limits that brokers keep to
// themselves. A tell that is not nil hears each finding as soon as it is known.
func All(ctx context.Context, s Start, tell func(Finding)) []Finding {
	d := newExamination(s, s.Client(), tell)
	d.patience = checkPatience
	for _, c := range List() {
		if c.of&d.job == 0 {
			continue
		}
		if why := d.lacks(c.need); why == "" {
			d.make(ctx, c)
		} else if d.job == sanitizes { // what counts lacks the same
			d.skip(why, c.Name)
		}
		if s.Invalid != nil {
			break
		}
	}
	return d.found
}

// make makes one check: by its deadline, if others answer it.
func (d *examination) make(ctx context.Context, c Check) {
	if d.check = c.Name; c.need == needsText || d.patience == 0 {
		c.look(d, ctx)
		return
	}
	d.within(ctx, c.Name, func(ctx context.Context) { c.look(d, ctx) })
}

// Starting makes the checks of a start that need brokers, and stops at the first failure, which is
// the error. It returns how many partitions the raw topic has, and what the checks warn of. A call
// to Kafka is tried again as long as call says.
func Starting(ctx context.Context, s Start, client *kafka.Client, call wire.Options) (
	partitions int32, warnings []Finding, err error,
) {
	d := newExamination(s, client, nil)
	d.call, d.answers = call, true
	for _, c := range List() {
		if c.By != AtStart || c.need <= needsFolder || c.of&d.job == 0 {
			continue
		}
		d.make(ctx, c)
		for _, f := range d.found {
			if f.Level == Failure {
				return 0, nil, f.Err
			}
		}
	}
	return d.partitions(), slices.DeleteFunc(d.found, func(f Finding) bool {
		return f.Level != Warning
	}), nil
}
