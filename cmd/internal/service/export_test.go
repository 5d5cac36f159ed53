package service

import (
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/schemas/registry"
	"github.com/geodither/geodither/state"
)

// CrashesEnv asks for more seeds of TestCrashes and TestLoopCrashes.
const CrashesEnv = "GEODITHER_SERVICE_SEEDS"

// What follows lets tests from outside set how a service works before it begins.

// SetPatience sets how long one look at the topics may take.
func (s *Service) SetPatience(d time.Duration) { s.patience = d }

// SetGrace sets what a transaction in hand gets to end.
func (s *Service) SetGrace(d time.Duration) { s.grace = d }

// SetClient replaces the client of the brokers.
func (s *Service) SetClient(c *kafka.Client) { s.client = c }

// SetOpenStore replaces state.Open.
func (s *Service) SetOpenStore(open func(dir string, o state.Options) (*state.Store, error)) {
	s.openStore = open
}

// SetChangelogEvery sets how often the changelog is looked at.
func (s *Service) SetChangelogEvery(d time.Duration) { s.changelogEvery = d }

// Registry is the schema registry as the service asks it.
func (s *Service) Registry() *registry.Client { return s.options.Registry }

// TrustProducers takes the times of a raw topic's producers for those of its brokers: tests choose
// both.
func (c *Counting) TrustProducers() { c.producersTimes = true }

// StartsAt sets the time by which the first day is chosen.
func (c *Counting) StartsAt(now time.Time) { c.now = func() time.Time { return now } }

// SetHoldQuiet sets how long records are held for others to come.
func (s *Service) SetHoldQuiet(d time.Duration) { s.holdQuiet = d }
