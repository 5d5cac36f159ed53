package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas"
)

// scoreboard compares what the demo reads back from Kafka with what it fed in.
type scoreboard struct {
	mu        sync.Mutex
	codec     *schemas.Codec
	grid      *grid.Grid
	blind     *engine.Blind            // nil: distances are not measured
	truth     map[string][]schemas.Raw // by user, in the order fed; what was answered is removed
	users     map[string]struct{}      // that have a sanitized record
	out       int64
	skipped   int64 // fixes passed over: they must be late, or without a record by the settings
	late      int64 // dead letters that say so
	dead      map[deadLetter]struct{}
	releases  int64
	repeats   int64
	predicted int64
	scores    map[int32]*score // by partition, so that no result depends on which is read first
	latest    string
}

// score is what one partition's records add up to.
type score struct {
	metrics trial.Score
	digest  digest
}

type deadLetter struct {
	partition int32
	offset    int64
}

// newScoreboard takes the fixes in the order in which they are fed. Without a blind baseline it
// counts records and measures no distances.
func newScoreboard(
	model *mobility.Model, blind *engine.Blind, fixes []schemas.Raw,
) (*scoreboard, error) {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return nil, err
	}
	s := &scoreboard{
		codec: codec, grid: model.Grid, blind: blind,
		truth: map[string][]schemas.Raw{}, users: map[string]struct{}{},
		dead: map[deadLetter]struct{}{}, scores: map[int32]*score{},
	}
	for _, f := range fixes {
		s.truth[f.UserID] = append(s.truth[f.UserID], f)
	}
	return s, nil
}

// sanitized counts one record of the sanitized topic. A record that answers no fix, or one that was
// answered before, is an error.
func (s *scoreboard) sanitized(partition int32, r consumer.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, err := s.codec.DecodeSanitized(r.Value)
	if err != nil {
		return err
	}
	fix, err := s.answered(record)
	if err != nil {
		return err
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
	s.scores[partition].digest.add(r)
	if s.blind == nil {
		return nil
	}
	return s.measure(&s.scores[partition].metrics, fix, record)
}

// answered finds the fix that a record answers. Earlier fixes of the same user have no record.
func (s *scoreboard) answered(record schemas.Sanitized) (schemas.Raw, error) {
	queue := s.truth[record.UserID]
	for i, fix := range queue {
		if fix.Timestamp == record.Timestamp {
			s.truth[record.UserID] = queue[i+1:]
			s.skipped += int64(i)
			return fix, nil
		}
	}
	return schemas.Raw{}, fmt.Errorf("the sanitized topic has a record too many: user %s at %s",
		record.UserID, time.UnixMilli(record.Timestamp).UTC().Format(time.RFC3339))
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
	what := record.Kind
	if lat, lon := record.ReleaseLatitude, record.ReleaseLongitude; lat.Known {
		release := s.grid.ToMap(lat.Number, lon.Number).Distance(truth)
		metrics.Release.Add(release)
		what = "release " + cli.Metres(1000*release) + " off"
	}
	metrics.Estimate.Add(estimate)
	metrics.Blind.Add(blind.Distances(truth))
	s.latest = fmt.Sprintf("%s at %s: %s, estimate %s (± %s)", record.UserID,
		time.UnixMilli(record.Timestamp).UTC().Format("15:04:05"), what, cli.Metres(1000*estimate),
		cli.Metres(record.RadiusM))
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
	at := deadLetter{letter.Partition, letter.Offset}
	if _, ok := s.dead[at]; ok {
		return fmt.Errorf("two dead letters for %s/%d at offset %d",
			letter.Topic, letter.Partition, letter.Offset)
	}
	s.dead[at] = struct{}{}
	if letter.Reason == schemas.ReasonLate {
		s.late++
	}
	return nil
}

// verify returns an error unless every record that was fed was answered exactly once: by a
// sanitized record, by a dead letter, or in silence, which the service counts.
func (s *scoreboard) verify(fed, silent int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.out + int64(len(s.dead)) + silent; got != fed {
		return fmt.Errorf("%d records were fed in, but %d were answered", fed, got)
	}
	skipped := s.skipped
	for _, rest := range s.truth {
		skipped += int64(len(rest))
	}
	if skipped != s.late+silent {
		return fmt.Errorf("%d fixes have no sanitized record, but %d dead letters say late and "+
			"%d were to have none", skipped, s.late, silent)
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
	RMSEReleaseM    float64 `json:"rmse_release_m"`
	RMSEEstimateM   float64 `json:"rmse_estimate_m"`
	RMSEBlindM      float64 `json:"rmse_blind_m"`
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

	cells int
}

// count writes the scoreboard's counts into a report.
func (s *scoreboard) count(r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.RecordsOut, r.DeadLetters = s.out, int64(len(s.dead))
	r.Users, r.Releases, r.Repeats, r.Predictions, r.Late = len(s.users), s.releases,
		s.repeats, s.predicted, s.late
	all := sha256.New()
	for _, p := range s.partitions() {
		all.Write(s.scores[p].digest.hash.Sum(nil))
	}
	r.SanitizedSHA256 = hex.EncodeToString(all.Sum(nil))
}

// distances writes the distances to the truth into a report.
func (s *scoreboard) distances(r *Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all trial.Score
	for _, p := range s.partitions() {
		all.Merge(&s.scores[p].metrics)
	}
	r.RMSEReleaseM, r.RMSEEstimateM, r.RMSEBlindM = all.Release.RMS(), all.Estimate.RMS(),
		all.Blind.RMS()
}

// partitions are those with a record, in order.
func (s *scoreboard) partitions() []int32 { return slices.Sorted(maps.Keys(s.scores)) }

// digest is a running hash of one partition's records.
type digest struct {
	hash hash.Hash
	buf  []byte
}

func (d *digest) add(r consumer.Record) {
	d.buf = d.buf[:0]
	for _, part := range [][]byte{r.Key, r.Value} {
		d.buf = binary.BigEndian.AppendUint32(d.buf, uint32(len(part)))
		d.buf = append(d.buf, part...)
	}
	d.buf = binary.BigEndian.AppendUint64(d.buf, uint64(r.Timestamp))
	d.hash.Write(d.buf)
}

// cellsLine says between how many cells a release decides: those of the prior under a codebook, or
// those of the location set, which may lack the true one.
func (r Report) cellsLine() string {
	if r.Mechanism == law.Codebook {
		return fmt.Sprintf("  before it   the vehicle may be in %.1f of %d cells",
			r.LocationSetMean, r.cells)
	}
	return fmt.Sprintf("  location    set |ΔX| %.1f of %d cells; true cell outside it: %.1f %%",
		r.LocationSetMean, r.cells, 100*r.DriftRatio)
}
