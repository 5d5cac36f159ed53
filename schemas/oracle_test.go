package schemas

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
)

// The oracle is goavro's own codec of a whole record, logical types and all:
// what it reads and writes after the header must be what our fields do.
func TestAgainstWholeRecords(t *testing.T) {
	codec := must(NewCodec(Avro))
	rng := rand.New(rand.NewPCG(1, 1))
	for _, s := range []struct {
		name, schema string
		encode       func() ([]byte, map[string]any)
	}{
		{"raw", rawSchema, func() ([]byte, map[string]any) {
			r := randomRaw(rng)
			native := map[string]any{
				"user_id": r.UserID, "timestamp": time.UnixMilli(r.Timestamp).UTC(),
				"latitude": r.Latitude, "longitude": r.Longitude, "accuracy_m": nil,
			}
			if r.AccuracyM != nil {
				native["accuracy_m"] = map[string]any{"double": *r.AccuracyM}
			}
			return must(codec.AppendRaw(nil, r)), native
		}},
		{"sanitized", sanitizedSchema, func() ([]byte, map[string]any) {
			s := randomSanitized(rng)
			s.Timestamp &= 1<<40 - 1 // goavro goes through nanoseconds in 64 bits
			return must(codec.AppendSanitized(nil, s)), map[string]any{
				"user_id": s.UserID, "timestamp": time.UnixMilli(s.Timestamp).UTC(),
				"latitude": s.Latitude, "longitude": s.Longitude, "radius_m": s.RadiusM,
				"sigma_major_m": union(s.SigmaMajorM), "sigma_minor_m": union(s.SigmaMinorM),
				"azimuth_deg": union(s.AzimuthDeg),
				"kind":        s.Kind, "epsilon": s.Epsilon, "delta": s.Delta,
				"mechanism": s.Mechanism, "model_id": s.ModelID, "step": s.Step,
				"release": s.Release, "release_latitude": union(s.ReleaseLatitude),
				"release_longitude": union(s.ReleaseLongitude),
			}
		}},
		{"dead_letter", deadLetterSchema, func() ([]byte, map[string]any) {
			d := randomDeadLetter(rng)
			d.Timestamp &= 1<<40 - 1
			return must(codec.AppendDeadLetter(nil, d)), map[string]any{
				"topic": d.Topic, "partition": d.Partition, "offset": d.Offset,
				"reason": string(d.Reason), "timestamp": time.UnixMilli(d.Timestamp).UTC(),
			}
		}},
		{"counts", countsSchema, func() ([]byte, map[string]any) {
			n := randomCounts(rng)
			n.WindowStart &= 1<<40 - 1
			n.WindowEnd &= 1<<40 - 1
			return must(codec.AppendCounts(nil, n)), map[string]any{
				"window_start": time.UnixMilli(n.WindowStart).UTC(),
				"window_end":   time.UnixMilli(n.WindowEnd).UTC(), "day": n.Day, "zone": n.Zone,
				"latitude": union(n.Latitude), "longitude": union(n.Longitude),
				"vehicles": n.Vehicles, "low": n.Low, "high": n.High, "estimate": n.Estimate,
				"epsilon": n.Epsilon, "per_day": n.PerDay, "edition": n.Edition,
			}
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			whole := must(goavro.NewCodec(s.schema))
			for range 500 {
				ours, native := s.encode()
				theirs := must(whole.BinaryFromNative(nil, native))
				if !bytes.Equal(ours[headerBytes:], theirs) {
					t.Fatalf("encoded\n%x, goavro\n%x", ours[headerBytes:], theirs)
				}
				got, rest, err := whole.NativeFromBinary(ours[headerBytes:])
				if err != nil || len(rest) > 0 || !reflect.DeepEqual(got, native) {
					t.Fatalf("goavro read %v (%v), want %v", got, err, native)
				}
			}
		})
	}
}

// union is goavro's form of a union of null and double.
func union(n Nullable) any {
	if !n.Known {
		return nil
	}
	return map[string]any{"double": n.Number}
}
