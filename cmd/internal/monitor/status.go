package monitor

import (
	"encoding/hex"
	"runtime"
	"runtime/debug"
	"strconv"
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
}

// Build is which program this is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the repository, empty if it is not known
	Go       string `json:"go"`
}

// NewBuild returns the build of a version, with what the go command recorded of it.
func NewBuild(version string) Build {
	b := Build{Version: version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
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
	EncodingRaw         string  `json:"encoding_raw"`
	EncodingSanitized   string  `json:"encoding_sanitized"`
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
		EncodingRaw:         string(s.RawEncoding), EncodingSanitized: string(s.SanitizedEncoding),
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
		r.Partitions[strconv.Itoa(int(p.number))] = Progress{p.phase, p.restored, p.total}
	}
	return r
}

// Liveness is what /live answers.
type Liveness struct {
	Live bool `json:"live"`
	// Stalled says for how many seconds a part of the instance has made no step, if that is longer
	// than it may be.
	Stalled map[string]float64 `json:"stalled_seconds,omitempty"`
}
