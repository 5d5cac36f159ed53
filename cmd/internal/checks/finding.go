package checks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/topics"
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
	Err    error  `json:"-"` // Detail, with what it wraps
}

// examination gathers what is found of a start.
type examination struct {
	o      Start
	job    job
	call   wire.Options
	client *kafka.Client
	found  []Finding
	tell   func(Finding)
	check  string // the one at hand

	answers bool                         // a broker does
	counts  map[string]int               // partitions of the topics that are there
	configs map[string]map[string]string // settings of those that were looked at
	begun   bool                         // users may have states in the changelog
	sample  *Sample                      // of the last raw records; nil: they were not read
	read    int                          // how many these are
	// patience is how long one check may take, and late reports whether the one at hand has taken
	// longer; nil: none is limited.
	patience time.Duration
	late     func() bool
	command  string // runs the service
}

func newExamination(s Start, client *kafka.Client, tell func(Finding)) *examination {
	d := &examination{
		tell: tell, o: s, job: s.job(), client: client, counts: map[string]int{},
		configs: map[string]map[string]string{}, command: "run",
		call: wire.Options{RetryTimeout: topics.CallPatience},
	}
	if d.job&counts != 0 {
		d.command = "counts"
	}
	return d
}

// starts reports whether the service begins to work, and does not only ask whether it could.
func (d *examination) starts() bool { return d.o.Make != nil }

// partitions is how many the raw topic has.
func (d *examination) partitions() int32 { return int32(d.counts[d.o.Topics.Raw]) }

// add adds a finding of the check at hand. All that is found of a service that counts has the name
// counts.
func (d *examination) add(level, format string, args ...any) {
	check := d.check
	if d.job&counts != 0 {
		check = d.command
	}
	err := fmt.Errorf(format, args...)
	f := Finding{check, level, err.Error(), err}
	if level != Unchecked && d.late != nil && d.late() {
		found := f.Detail
		f.Detail = fmt.Sprintf("could not check within %v: the answers come too slowly or not "+
			"at all", d.patience)
		if level == Failure && !strings.Contains(found, context.DeadlineExceeded.Error()) {
			f.Detail += " (" + found + ")"
		}
		f.Level = Failure
		if slices.ContainsFunc(d.found, func(other Finding) bool {
			return other.Check == f.Check && other.Detail == f.Detail
		}) {
			return
		}
	}
	d.found = append(d.found, f)
	if d.tell != nil {
		d.tell(f)
	}
}

// skip says of a check that it is not made, and why.
func (d *examination) skip(because, check string) {
	d.check = check
	d.add(Unchecked, "not checked, because %s", because)
}

// Patience with brokers. A check that takes longer than checkPatience, and partitionPatience more
// for each raw partition up to mostPatient of them, is given up: many look at one partition after
// the other, and one may read a large changelog. The checks after it have laterPatience: the
// brokers are known to be ailing.
const (
	checkPatience     = 20 * time.Second
	partitionPatience = 5 * time.Second
	mostPatient       = 56 // five minutes in all
	laterPatience     = topics.CallPatience
)

// wait lets the patience grow with the number of raw partitions, if that can be asked.
func (d *examination) wait(ctx context.Context) {
	raw := d.o.Topics.Raw
	have, err := admin.Partitions(ctx, d.client, d.call, raw)
	if err == nil && d.patience == checkPatience { // else the brokers are known to be ailing
		d.patience += time.Duration(min(have[raw], mostPatient)) * partitionPatience
	}
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
	d.check = name
	check(limited)
	d.check = name
	late := d.late()
	said := func(f Finding) bool { return f.Level != Unchecked }
	if late && !slices.ContainsFunc(d.found[before:], said) {
		d.add(OK, "") // which becomes a failure
	}
	if d.late = nil; late {
		d.patience = min(d.patience, laterPatience)
	}
}
