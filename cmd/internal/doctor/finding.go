package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Levels of findings.
const (
	OK      = "ok"
	Warning = "warning" // the service would run, perhaps not as it is meant to
	Failure = "failure" // the service would stop, wait until it is mended, or publish nothing
	// Unchecked is what could not be looked at, with the reason. It is no failure.
	Unchecked = "unchecked"
)

// Finding is what one check has found. It names no user and no place.
type Finding struct {
	Check  string `json:"check"`
	Level  string `json:"level"`
	Detail string `json:"detail"`
}

// run is the command of the service that sanitizes.
const run = "run"

// examination gathers findings about options.
type examination struct {
	o      service.Options
	call   wire.Options
	client *kafka.Client
	found  []Finding
	tell   func(Finding)
	begun  bool // users may have states in the changelog
	// patience is how long one check may take, and late reports whether the one at hand has taken
	// longer; nil: none is limited.
	patience time.Duration
	late     func() bool
	// command runs the service: run, or another one, which is then the check of all findings.
	command string
}

func (d *examination) add(check, level, format string, args ...any) {
	if d.command != run {
		check = d.command
	}
	f := Finding{check, level, fmt.Sprintf(format, args...)}
	if level != Unchecked && d.late != nil && d.late() {
		found := f.Detail
		f.Detail = fmt.Sprintf("could not check within %v: the answers come too slowly or not "+
			"at all", d.patience)
		if level == Failure && !strings.Contains(found, context.DeadlineExceeded.Error()) {
			f.Detail += " (" + found + ")"
		}
		f.Level = Failure
		if slices.Contains(d.found, f) {
			return
		}
	}
	d.found = append(d.found, f)
	if d.tell != nil {
		d.tell(f)
	}
}

// skip says of checks that they are not made, and why.
func (d *examination) skip(because string, checks ...string) {
	for _, check := range checks {
		d.add(check, Unchecked, "not checked, because %s", because)
	}
}

// Patience with brokers. A check that takes longer than checkPatience, and partitionPatience more
// for each raw partition up to mostPatient of them, is given up: many look at one partition after
// the other, and one may read a large changelog. The checks after it have laterPatience: the
// brokers are known to be ailing.
const (
	checkPatience     = 20 * time.Second
	partitionPatience = 5 * time.Second
	mostPatient       = 56 // five minutes in all
	laterPatience     = service.CallPatience
)

// wait lets the patience grow with the number of raw partitions, if that can be asked.
func (d *examination) wait(ctx context.Context) {
	d.within(ctx, "topic", func(ctx context.Context) {
		raw := d.o.Topics.Raw
		have, err := admin.Partitions(ctx, d.client, d.call, raw)
		if err == nil && d.patience == checkPatience { // else the brokers are known to be ailing
			d.patience += time.Duration(min(have[raw], mostPatient)) * partitionPatience
		}
	})
}

// errSlow ends a check.
var errSlow = errors.New("the check takes too long")

// within carries out a check by its deadline. What the check finds later becomes a failure, since
// nobody may take it for sound. A check that is not made because of it is no failure.
func (d *examination) within(ctx context.Context, name string, check func(context.Context)) {
	limited, cancel := context.WithTimeoutCause(ctx, d.patience, errSlow)
	defer cancel()
	d.late = func() bool { return errors.Is(context.Cause(limited), errSlow) }
	before := len(d.found)
	check(limited)
	late := d.late()
	said := func(f Finding) bool { return f.Level != Unchecked }
	if late && !slices.ContainsFunc(d.found[before:], said) {
		d.add(name, OK, "") // which becomes a failure
	}
	if d.late = nil; late {
		d.patience = min(d.patience, laterPatience)
	}
}
