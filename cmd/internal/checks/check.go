package checks

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
)

// Start is what is known of an instance before it works.
type Start struct {
	engine.Settings
	topics.Cluster
	StateDir      string
	MaxBatchBytes int
	MaxInterval   time.Duration
	Logger        *slog.Logger

	AcceptLost     bool // of the account: see account.Check
	AcceptSettings bool // an open partition may go on under other settings
	Replays        bool // the service goes through windows only, after another one

	Config  *Config // nil: the settings are not those of a file
	Invalid error   // what the settings' own Validate says

	AnyClock bool // for tests of services that count, whose records are not of now

	// Make makes the topics that are missing, if it may. Nil: this is no start, and nothing is
	// made.
	Make func(context.Context) error
	// First looks at the raw records with which a start begins, in so many partitions. begun says
	// that users may have states.
	First func(ctx context.Context, partitions int, begun bool) error
}

// Config is what a config says beside the options of a service.
type Config struct {
	KeyFile     string
	KeyCheckOff bool
	Counts      bool // it speaks of the services that count
	PlainLogin  bool // kafka.sasl.allow_plaintext
}

// job is one kind of service, or several of them.
type job uint8

const (
	sanitizes job = 1 << iota
	windows       // counts by raw partition
	totals        // adds these counts up
	replays
)

const (
	counts = windows | totals
	each   = sanitizes | counts | replays
)

// job returns what the instance does.
func (s *Start) job() job {
	switch {
	case s.Replays:
		return replays
	case s.Topics.Follows:
		return totals
	case s.Topics.Routed:
		return windows
	}
	return sanitizes
}

// need is what has to be there for a check. Each need has those before it.
type need uint8

const (
	needsText      need = iota // the settings and the files that they name
	needsFolder                // this machine, and what is not Kafka
	needsBrokers               // one broker that answers
	needsRaw                   // the raw topic
	needsRecords               // a sample of its last records
	needsChangelog             // a changelog with as many partitions; no sample
)

// Check is one thing that a service needs. Its findings have its name.
type Check struct {
	Name string
	// By is what keeps a service from working where the check finds a failure: AtStart, or what
	// refuses the service later. It is empty if the check finds no failure.
	By   string
	of   job
	need need
	look func(*examination, context.Context)
}

// AtStart says of a check that "run" makes it before it works, and stops at a failure.
const AtStart = "start"

// lacks says why a check cannot be made; "" if it can.
func (d *examination) lacks(n need) string {
	t := d.o.Topics
	raw, changelog := d.counts[t.Raw], d.counts[t.Changelog]
	switch {
	case n <= needsFolder:
		return ""
	case !d.answers:
		return "no broker answers"
	case n >= needsRaw && raw == 0:
		return t.Raw + " could not be looked at"
	case n == needsRecords && d.sample == nil:
		return "the raw records cannot be read"
	case n == needsChangelog && changelog == 0:
		return t.Changelog + " is not there yet"
	case n == needsChangelog && changelog != raw:
		return fmt.Sprintf("%s has %d partitions, and %s has %d", t.Changelog, changelog, t.Raw,
			raw)
	}
	return ""
}
