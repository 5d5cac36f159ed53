package doctor

import (
	"fmt"
	"slices"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/consumer/wire"
)

// Levels of findings.
const (
	OK      = "ok"
	Warning = "warning" // the service would run, perhaps not as it is meant to
	Failure = "failure" // the service would stop, wait until it is mended, or publish nothing
	// Unchecked is what brokers do not tell. It is no failure.
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
	// command runs the service: run, or another one, which is then the check of all findings.
	command string
}

func (d *examination) add(check, level, format string, args ...any) {
	if d.command != run {
		check = d.command
	}
	f := Finding{check, level, fmt.Sprintf(format, args...)}
	d.found = append(d.found, f)
	if d.tell != nil {
		d.tell(f)
	}
}

// failed reports whether a check has found something that would stop the service.
func (d *examination) failed(check string) bool {
	return slices.ContainsFunc(d.found,
		func(f Finding) bool { return f.Check == check && f.Level == Failure })
}
