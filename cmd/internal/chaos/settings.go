package main

import "time"

// settings are the command line.
type settings struct {
	Seed       uint64
	Records    int
	Faults     int
	Duration   time.Duration
	Instances  int
	Partitions int
	Vehicles   int
	Static     int
	Standbys   int
	Nodes      int
	// Soak is a steady load without hard faults, in which one instance restarts Every so often.
	Soak  bool
	Every time.Duration
	out   string // folder for the samples of a soak
	keep  bool
	given string // the command line
}

// Timeouts of the service. They are short because a schedule has to outlast them.
const (
	sessionTimeout     = 6 * time.Second
	transactionTimeout = 10 * time.Second
)

// The topics of a run.
const (
	rawTopic       = "chaos.raw"
	sanitizedTopic = "chaos.sanitized"
	changelogTopic = "chaos.changelog"
	deadTopic      = "chaos.dead"
)

// The budget of every user in a run. A vehicle reports more often than its budget allows, so it
// reaches the budget, and from then on predictions that cost no ε answer its fixes.
const (
	fleetStep     = 30 * time.Second // of the model
	budgetEpsilon = 40
	budgetSteps   = 60
	budgetWindow  = budgetSteps * fleetStep
)

// rate is the number of fixes a second with which the feed lasts until the faults end.
func (s settings) rate() float64 { return float64(s.Records) / s.Duration.Seconds() }

// steps is the number of fixes of each vehicle.
func (s settings) steps() int { return (s.Records + s.Vehicles - 1) / s.Vehicles }

// secondUsers is the number of vehicles that the second producer reports too. They are few, so
// that the service does not conclude that the whole topic is misplaced.
func (s settings) secondUsers() int { return min(20, max(1, s.Vehicles/10)) }
