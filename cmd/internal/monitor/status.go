package monitor

import (
	"encoding/hex"
	"maps"
	"strconv"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
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
}

// sample is what one answer is made of.
type sample struct {
	Source
	view
	tally engine.Tally
}

// sample takes the numbers of now.
func (s Source) sample() sample { return sample{s, s.Board.look(), s.Counters.Snapshot()} }

// skipped are the fixes that rules of the input skipped. Rules of one name are taken together.
func (s *sample) skipped() map[string]int64 {
	by := map[string]int64{}
	for i, rule := range s.Settings.rules {
		if rule != "" {
			by[rule] += s.tally.SkippedByRule[i]
		}
	}
	return by
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
	Raw        string `json:"raw_topic"`
	Sanitized  string `json:"sanitized_topic"`
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
	// rules are the names of the rules that skip fixes, by their numbers; an empty one is no rule.
	rules []string
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
		rules:               s.Input.Rules(),
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
	// Partitions are those that are assigned, by their number.
	Partitions map[string]Progress `json:"partitions,omitempty"`
}

// Progress is how far a partition is.
type Progress struct {
	Phase Phase `json:"phase"`
	// Records and Of are how far a restoration is, and how long it is, in offsets of the changelog.
	Records int64 `json:"records,omitempty"`
	Of      int64 `json:"of,omitempty"`
}

// readiness is what /ready answers.
func (v view) readiness() Readiness {
	r := Readiness{
		Ready: v.ready, Phase: v.phase, KafkaAwaySeconds: v.away.Seconds(),
		Partitions: map[string]Progress{},
	}
	for _, p := range v.partitions {
		r.Partitions[strconv.Itoa(int(p.number))] = p.progress()
	}
	return r
}

func (p partitionView) progress() Progress { return Progress{p.phase, p.restored, p.total} }

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
	// Standbys are the copies that the instance keeps of partitions of others, by their number;
	// missing: none.
	Standbys map[string]StandbyStatus `json:"standbys,omitempty"`
}

// StandbyStatus is how a copy is.
type StandbyStatus struct {
	// LagRecords is how far the copy is behind the changelog's end, in offsets; missing: not known
	// yet.
	LagRecords *int64 `json:"lag_records,omitempty"`
	// Waits says that the copy is left as it is; the log says why.
	Waits bool `json:"waits,omitempty"`
}

// PartitionStatus is how an assigned partition is.
type PartitionStatus struct {
	Progress
	// NextOffset is where reading goes on, StableOffset where the committed records of the raw
	// topic end, and LagRecords the difference. Missing unless the partition runs.
	NextOffset   *int64 `json:"next_offset,omitempty"`
	StableOffset *int64 `json:"stable_offset,omitempty"`
	LagRecords   *int64 `json:"lag_records,omitempty"`
	// LagSeconds is the age of the last processed record, by its Kafka timestamp, if there is a
	// lag.
	LagSeconds float64 `json:"lag_seconds,omitempty"`
	// LagTime is LagSeconds as a person reads it, in days, hours and so on.
	LagTime string `json:"lag_time,omitempty"`
}

// Status is what /status answers now.
func (s Source) Status() Status {
	now := s.sample()
	v, t := now.view, now.tally
	st := Status{
		Time: s.Board.now().UTC(), Readiness: v.readiness(), Build: s.Build, Service: s.Service,
		Settings: s.Settings, StartedAt: s.Board.began.UTC(), Generation: v.generation,
		Rebalances: v.rebalances, Fenced: v.lost, LastCommit: v.committed.UTC(),
		Counters: maps.Collect(t.All()), DeadLetters: map[string]int64{}, EpsilonSpent: t.Epsilon,
		Skipped: now.skipped(),
		Models:  v.models, Partitions: map[string]PartitionStatus{},
		State: v.store,
	}
	if v.committed.IsZero() {
		st.LastCommit = time.Time{}
	}
	for reason, n := range t.Refusals.All() {
		if n > 0 {
			st.DeadLetters[string(reason)] = n
		}
	}
	for _, p := range v.partitions {
		one := PartitionStatus{Progress: p.progress(), LagSeconds: p.lagSeconds}
		if p.lagSeconds > 0 {
			one.LagTime = cli.Duration(time.Duration(p.lagSeconds * float64(time.Second)))
		}
		if p.read {
			one.NextOffset, one.StableOffset, one.LagRecords = &p.next, &p.stable, &p.lag
		}
		st.Partitions[strconv.Itoa(int(p.number))] = one
	}
	for _, c := range v.standbys {
		if st.Standbys == nil {
			st.Standbys = map[string]StandbyStatus{}
		}
		one := StandbyStatus{Waits: c.waits}
		if c.read && !c.waits {
			one.LagRecords = &c.lag
		}
		st.Standbys[strconv.Itoa(int(c.number))] = one
	}
	return st
}

// Liveness is what /live answers.
type Liveness struct {
	Live bool `json:"live"`
	// Stalled says for how many seconds a part of the instance has made no step, if that is longer
	// than it may be.
	Stalled map[string]float64 `json:"stalled_seconds,omitempty"`
}
