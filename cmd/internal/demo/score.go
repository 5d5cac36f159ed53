package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// scoreboard counts what the demo reads back from Kafka, and measures how far it is from what was
// fed. Whether each record is answered once is for a fleet.Ledger to say.
type scoreboard struct {
	mu        sync.Mutex
	codec     *schemas.Codec
	grid      *grid.Grid
	blind     *engine.Blind // nil: distances are not measured
	truth     map[uint64]schemas.Raw
	users     map[string]struct{} // that have a sanitized record
	out, dead int64
	late      int64 // dead letters with that reason
	releases  int64
	repeats   int64
	predicted int64
	scores    map[int32]*score // by partition, so that no result depends on which is read first
	latest    string           // record, and the latest release
	drawn     string
}

// score is what one partition's records add up to.
type score struct {
	metrics trial.Score
	digest  digest
}

// newScoreboard takes the fixes that are fed. Without a blind baseline it measures no distances.
func newScoreboard(
	model *mobility.Model, blind *engine.Blind, fixes []schemas.Raw,
) (*scoreboard, error) {
	codec, err := schemas.NewCodec(schemas.Avro)
	s := &scoreboard{
		codec: codec, grid: model.Grid, blind: blind, truth: map[uint64]schemas.Raw{},
		users: map[string]struct{}{}, scores: map[int32]*score{},
	}
	for _, f := range fixes {
		s.truth[fleet.FixID(f.UserID, f.Timestamp)] = f
	}
	return s, err
}

// sanitized counts one record of the sanitized topic. A record that answers no fix is an error.
func (s *scoreboard) sanitized(partition int32, r consumer.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, err := s.codec.DecodeSanitized(r.Value)
	if err != nil {
		return err
	}
	fix, known := s.truth[fleet.FixID(record.UserID, record.Timestamp)]
	if !known {
		return fmt.Errorf("the sanitized topic has a record too many: user %s at %s",
			record.UserID, time.UnixMilli(record.Timestamp).UTC().Format(time.RFC3339))
	}
	s.out++
	s.users[record.UserID] = struct{}{}
	switch record.Kind {
	case schemas.KindReleased:
		s.releases++
	case schemas.KindRepeated:
		s.repeats++
	default:
		s.predicted++
	}
	if s.scores[partition] == nil {
		s.scores[partition] = &score{digest: digest{hash: sha256.New()}}
	}
	s.scores[partition].digest.addRecord(r)
	if s.blind == nil {
		return nil
	}
	return s.measure(&s.scores[partition].metrics, fix, record)
}

// measure adds the distances of one record to the truth.
func (s *scoreboard) measure(
	metrics *trial.Score, fix schemas.Raw, record schemas.Sanitized,
) error {
	blind, err := s.blind.Estimate(fix)
	if err != nil {
		return err
	}
	truth := s.grid.ToMap(fix.Latitude, fix.Longitude)
	estimate := s.grid.ToMap(record.Latitude, record.Longitude).Distance(truth)
	at := record.UserID + " at " + time.UnixMilli(record.Timestamp).UTC().Format("15:04:05") + ": "
	if lat, lon := record.ReleaseLatitude, record.ReleaseLongitude; lat.Known {
		release := s.grid.ToMap(lat.Number, lon.Number).Distance(truth)
		metrics.Release.Add(release)
		if record.Kind == schemas.KindReleased {
			s.drawn = at + cli.Metres(1000*release) + " off"
		}
	}
	metrics.Estimate.Add(estimate)
	metrics.Blind.Add(blind.Distances(truth))
	s.latest = fmt.Sprintf("%s%s, %s off (95 %% within %s)", at, record.Kind,
		cli.Metres(1000*estimate), cli.Metres(record.RadiusM))
	return nil
}

// deadLetter counts one record of the dead-letter topic.
func (s *scoreboard) deadLetter(_ int32, r consumer.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	letter, err := s.codec.DecodeDeadLetter(r.Value)
	if err != nil {
		return err
	}
	s.dead++
	if letter.Reason == schemas.ReasonLate {
		s.late++
	}
	return nil
}

// Report is the object that --json prints.
type Report struct {
	RecordsIn   int64 `json:"records_in"`
	RecordsOut  int64 `json:"records_out"`
	DeadLetters int64 `json:"dead_letters"`
	Users       int   `json:"users"`
	Releases    int64 `json:"releases"`
	Repeats     int64 `json:"repeats"`
	Predictions int64 `json:"predictions"`
	// fixes without a record, as the settings have it
	Silent          int64   `json:"silent"`
	EpsilonSpent    float64 `json:"epsilon_spent"` // over all users
	Late            int64   `json:"late"`
	LocationSetMean float64 `json:"location_set_mean"`
	DriftRatio      float64 `json:"drift_ratio"`
	MedianReleaseM  float64 `json:"median_release_m"`
	MedianEstimateM float64 `json:"median_estimate_m"`
	MedianBlindM    float64 `json:"median_blind_m"`
	// EventsPerSecond are records as they were fed: with a speed it is the feed's pace, and not a
	// limit of the pipeline's. Speed is times the pace at which it happened; 0 is as fast as it
	// goes.
	EventsPerSecond float64 `json:"events_per_second"`
	Speed           float64 `json:"speed"`
	// BusyMicros is what decoding, mechanism and encoding take of a record, without Kafka.
	BusyMicros float64 `json:"busy_microseconds_per_record"`
	Epsilon    float64 `json:"epsilon"`
	Delta      float64 `json:"delta"`
	Mechanism  string  `json:"mechanism"`
	ModelID    string  `json:"model_id"`
	Seed       uint64  `json:"seed"`
	// of every sanitized record, in order within each partition
	SanitizedSHA256 string `json:"sanitized_sha256"`

	limits string // of a vehicle's Σε; empty: there is none
}

// spent is the mean Σε of a vehicle.
func (r *Report) spent() float64 { return r.EpsilonSpent / float64(max(r.Users, 1)) }

// partitions are those with a record, in order.
func (s *scoreboard) partitions() []int32 { return slices.Sorted(maps.Keys(s.scores)) }

// digest is a running hash of one partition's records.
type digest struct {
	hash hash.Hash
	buf  []byte
}

func (d *digest) addRecord(r consumer.Record) {
	d.buf = d.buf[:0]
	for _, part := range [][]byte{r.Key, r.Value} {
		d.buf = binary.BigEndian.AppendUint32(d.buf, uint32(len(part)))
		d.buf = append(d.buf, part...)
	}
	d.buf = binary.BigEndian.AppendUint64(d.buf, uint64(r.Timestamp))
	d.hash.Write(d.buf)
}
