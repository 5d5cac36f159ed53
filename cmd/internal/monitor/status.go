package monitor

import (
	"encoding/hex"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
)

// Source is where the answers come from.
type Source struct {
	Build    Build
	Settings Settings
	Service  Service
	Board    *Board
	Counters *engine.Counters
	// Certificates are the ends of the TLS certificates in use, by whose they are.
	Certificates func() map[string]time.Time
	// Stage is the name of one of two services of a process, and Next the other one, which works on
	// what this one writes. Empty and nil where there is one service.
	Stage string
	Next  *Source
}

// stages are the source and what follows it.
func (s Source) stages() (all []Source) {
	for next := &s; next != nil; next = next.Next {
		all = append(all, *next)
	}
	return all
}

// Build is which program this is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the repository, empty if it is not known
	Go       string `json:"go"`
}

// Service says which service an instance is of.
type Service struct {
	Group      string `json:"group"`
	InstanceID string `json:"instance_id,omitempty"` // of a static member
	Input      string `json:"input_topic"`
	Output     string `json:"output_topic"`
}

// Settings are those that determine the published bytes, as far as they are told.
type Settings struct {
	// Fingerprint is a hash over all of them, as in the group's messages, in hexadecimal.
	Fingerprint         string  `json:"fingerprint"`
	Mechanism           string  `json:"mechanism"`
	Epsilon             float64 `json:"epsilon"` // of one release
	Delta               float64 `json:"delta,omitempty"`
	BudgetEpsilon       float64 `json:"budget_epsilon"`        // in a window; 0: no limit
	BudgetWindowSeconds float64 `json:"budget_window_seconds"` // 0: no limit
	BudgetLifetime      float64 `json:"budget_lifetime"`       // for all time; 0: no limit
	ModelID             string  `json:"model_id"`              // of the first version
	EncodingRaw         string  `json:"encoding_raw"`          // under input its preset or format
	EncodingSanitized   string  `json:"encoding_sanitized"`
	// Rules are the names of the rules that skip fixes, by their numbers; an empty one is no rule.
	Rules []string `json:"-"`
}

// fingerprintBytes is the part of a fingerprint that is its hash; digests follow it.
const fingerprintBytes = 16

// NewSettings returns what is told of valid settings.
func NewSettings(s engine.Settings) Settings {
	s = s.WithDefaults()
	r := s.Release
	full := s.Fingerprint()
	return Settings{
		Fingerprint: hex.EncodeToString(full[:min(fingerprintBytes, len(full))]),
		Mechanism:   r.Mechanism, Epsilon: r.Epsilon, Delta: r.Delta,
		BudgetEpsilon: r.Budget.Epsilon, BudgetLifetime: r.Budget.Lifetime,
		BudgetWindowSeconds: float64(r.Budget.WindowSteps) * s.Model.Step.Seconds(),
		ModelID:             s.Model.ID(),
		EncodingRaw:         s.Input.Encoding(s.RawEncoding),
		EncodingSanitized:   string(s.SanitizedEncoding),
		Rules:               s.Input.Rules(),
	}
}

// NewService returns what is told of a cluster and of an instance in it.
func NewService(c topics.Cluster, instance string) Service {
	return Service{c.Group, instance, c.Topics.Raw, c.Topics.Sanitized}
}

// Readiness is what /ready answers.
type Readiness struct {
	Ready bool `json:"ready"`
	// Phase is starting, joining, fencing, restoring, running, draining or failed. Of several
	// partitions it is the one that is furthest from running.
	Phase Phase `json:"phase"`
	// KafkaAwaySeconds is how long calls to Kafka have failed by now, if they do.
	KafkaAwaySeconds float64 `json:"kafka_away_seconds,omitempty"`
	// Holds says why raw records wait: nearly all so far would be refused. Missing: none waits.
	Holds string `json:"holds,omitempty"`
	// Unwritten are the topics that cannot be written, or "transactions".
	Unwritten map[string]Unwritten `json:"unwritten,omitempty"`
	// Partitions are those that are assigned, by their number.
	Partitions map[string]Progress `json:"partitions,omitempty"`
}

// Unwritten says for how long a topic could not be written, and what the last attempt has met.
type Unwritten struct {
	Seconds float64 `json:"seconds"`
	Cause   string  `json:"cause"`
}

// Progress is how far a partition is.
type Progress struct {
	Phase Phase `json:"phase"`
	// Records and Of are how far a restoration is, and how long it is, in offsets of the changelog.
	Records int64 `json:"records,omitempty"`
	Of      int64 `json:"of,omitempty"`
}

// Store is how the local store of states is.
type Store struct {
	Bytes uint64 `json:"bytes"` // on the disk
	// Users are those with a state in an assigned partition, when they were counted last.
	Users int64 `json:"users"`
	// CountedAt is when Users were counted; zero: not yet. Bytes are those of now.
	CountedAt time.Time `json:"counted_at,omitzero"`
	// CacheHits and CacheMisses are how often a state was found in memory, or not, since the start.
	CacheHits   uint64 `json:"cache_hits"`
	CacheMisses uint64 `json:"cache_misses"`
}

// Model is a version of the model.
type Model struct {
	ID string `json:"id"`
	// From is when it starts, in the time of fixes; missing for the first one.
	From time.Time `json:"from,omitzero"`
}

// Status is what /status answers: Readiness, and what there is to know beside it. Nothing of it is
// of a user. Times are RFC 3339, in UTC.
type Status struct {
	Time time.Time `json:"time"` // of the answer
	Readiness
	Build     Build     `json:"build"`
	Service   Service   `json:"service"`
	Settings  Settings  `json:"settings"`
	StartedAt time.Time `json:"started_at"`
	// Generation is the number of the group's generation that the instance was in last, and
	// Rebalances how many it was in.
	Generation int32 `json:"generation"`
	Rebalances int64 `json:"rebalances"`
	// Fenced is how many partitions were lost while they were worked on.
	Fenced int64 `json:"fenced"`
	// LastCommit is when the last transaction was committed; missing: none since the start.
	LastCommit time.Time `json:"last_commit,omitzero"`
	// Counters are the numbers of committed transactions since the start, by their names in the
	// log.
	Counters map[string]int64 `json:"counters"`
	// DeadLetters are the records that were refused, by the reason, of those that occurred.
	DeadLetters map[string]int64 `json:"dead_letters"`
	// Skipped are the fixes that a rule of the input skipped, by the rule.
	Skipped map[string]int64 `json:"skipped"`
	// EpsilonSpent is the sum of epsilon over the releases of all users.
	EpsilonSpent float64 `json:"epsilon_spent"`
	// Models are the versions of the model, the first one first.
	Models []Model `json:"models"`
	State  Store   `json:"state"`
	// Partitions take the place of Readiness's.
	Partitions map[string]PartitionStatus `json:"partitions"`
	// Next is the status of the process's second service; missing: there is one.
	Next *Status `json:"next,omitempty"`

	tally        engine.Tally // what the counters above are from
	certificates func() map[string]time.Time
	overdue      time.Duration // of the partition whose next window of counts is most
}

// PartitionStatus is how an assigned partition is.
type PartitionStatus struct {
	Progress
	// NextOffset is where reading goes on, StableOffset where the committed records of the raw
	// topic end, and EndOffset where all end. LagRecords is how far that is from what the group has
	// committed, without control and aborted records at the end, which are nothing to commit.
	// Missing unless the partition runs.
	NextOffset   *int64 `json:"next_offset,omitempty"`
	StableOffset *int64 `json:"stable_offset,omitempty"`
	EndOffset    *int64 `json:"end_offset,omitempty"`
	LagRecords   *int64 `json:"lag_records,omitempty"`
	// OpenRecords is the part of LagRecords that waits behind an open transaction of a producer,
	// and OpenSeconds for how long.
	OpenRecords int64   `json:"open_records,omitempty"`
	OpenSeconds float64 `json:"open_seconds,omitempty"`
	// LagSeconds is the age of the last processed record, by its Kafka timestamp, if there is a
	// lag.
	LagSeconds float64 `json:"lag_seconds,omitempty"`
	// LagTime is LagSeconds as a person reads it, in days, hours and so on.
	LagTime string `json:"lag_time,omitempty"`
}

// Status is what /status answers now.
func (s Source) Status() Status {
	now := s.Board.status()
	now.tally, now.certificates = s.Counters.Snapshot(), s.Certificates
	now.Build, now.Service, now.Settings = s.Build, s.Service, s.Settings
	now.EpsilonSpent = now.tally.Epsilon
	now.Counters, now.DeadLetters = map[string]int64{}, map[string]int64{}
	for i, n := range now.tally.Values() {
		now.Counters[engine.Numbers[i].Name] = n
	}
	for reason, n := range now.tally.Refusals.All() {
		if n > 0 {
			now.DeadLetters[string(reason)] = n
		}
	}
	now.Skipped = map[string]int64{}
	for i, rule := range s.Settings.Rules {
		if rule != "" { // rules of one name are taken together
			now.Skipped[rule] += now.tally.SkippedByRule[i]
		}
	}
	if s.Next != nil {
		next := s.Next.Status()
		now.Next = &next
	}
	return now
}

// Liveness is what /live answers.
type Liveness struct {
	Live bool `json:"live"`
	// Stalled says for how many seconds a part of the instance has made no step, if that is longer
	// than it may be.
	Stalled map[string]float64 `json:"stalled_seconds,omitempty"`
}
