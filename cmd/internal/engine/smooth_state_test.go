package engine

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/schemas"
)

// waitingExamples are records of a block: a release, repeats, predictions, and what is unusual.
func waitingExamples() []waiting {
	at := func(ms int64, kind string, change func(r *schemas.Sanitized)) waiting {
		r := schemas.Sanitized{
			Timestamp: servicetest.StartMS + ms, Kind: kind, Mechanism: law.Codebook,
			ModelID: "0123456789abcdef", Step: (servicetest.StartMS + ms) / 60_000, Release: 7,
			Latitude: 53.25, Longitude: -3.25, RadiusM: 5_888,
			SigmaMajorM: schemas.Some(2_500), SigmaMinorM: schemas.Some(640),
			AzimuthDeg: schemas.Some(0),
		}
		if change != nil {
			change(&r)
		}
		return waiting{r, r.Timestamp + 350 + ms%7}
	}
	placed := func(r *schemas.Sanitized) {
		r.ReleaseLatitude, r.ReleaseLongitude = schemas.Some(53.4), schemas.Some(-3)
	}
	moved := func(r *schemas.Sanitized) { r.Longitude, r.RadiusM = -3.5, 6_144 }
	return []waiting{
		at(0, schemas.KindReleased, func(r *schemas.Sanitized) { placed(r); r.Epsilon = 2 }),
		at(5_000, schemas.KindRepeated, placed),
		at(60_000, schemas.KindPredicted, moved),
		at(65_000, schemas.KindPredicted, moved),
		at(180_000, schemas.KindReleased, func(r *schemas.Sanitized) {
			placed(r)
			r.ReleaseLatitude, r.Epsilon, r.Release = schemas.Some(53.45), 2, 8
		}),
		at(185_000, schemas.KindReleased, func(r *schemas.Sanitized) {
			r.Epsilon, r.Release, r.Delta, r.Mechanism = 1, 3, .5, "lattice (second release)"
			r.SigmaMajorM, r.SigmaMinorM = schemas.Nullable{}, schemas.Nullable{}
			r.AzimuthDeg = schemas.Nullable{}
		}),
		at(90_000, schemas.KindPredicted, func(r *schemas.Sanitized) { r.Step, r.Epsilon = -4, 9 }),
	}
}

// goldenSmoothState is the encoding of waitingExamples behind a track and a state.
const goldenSmoothState = "" +
	"010104016d027374066265666f72657c8091b0fef962bc05103031323334353637383961626364656608636f64" +
	"65626f6f6b0000000000000000404ab33333333333c00800000000000040000000000000000c5fc0b8eafb03bf" +
	"a4ff1e809807d08603806409904e044002b0db060246bf96b102802802904e044018f0840e05404ab999999999" +
	"9ac00800000000000046c096b102ff2764904e041030313233343536373839616263646566186c617474696365" +
	"20287365636f6e642072656c65617365293fe00000000000003ff00000000000000b18cf8603ff63e6afcc0b05" +
	"103031323334353637383961626364656608636f6465626f6f6b0000000000000000402200000000000008b5d4" +
	"821b58d086038064"

// TestSmoothState: states are read back as they were, in the same bytes by every program. A record
// with the estimate of the one before takes few of them.
func TestSmoothState(t *testing.T) {
	t.Parallel()
	var s, again smoothState
	s.before = []byte("before")
	_, err := s.track.DecodeBinary(append([]byte{1, 4, 1, 'm', 2}, "st"...))
	servicetest.OK(t, err)
	for i, w := range waitingExamples() {
		size := len(s.stored)
		s.add(w, 60_000)
		if size = len(s.stored) - size; (i == 1 || i == 3) && size > 9 {
			t.Errorf("record %d takes %d bytes", i, size)
		}
	}
	data := s.AppendBinary(nil)
	servicetest.OK(t, again.DecodeBinary(data, 60_000))
	if !slices.Equal(again.open, s.open) || !bytes.Equal(again.AppendBinary(nil), data) {
		t.Errorf("read back: %+v, want %+v", again.open, s.open)
	}
	if got := hex.EncodeToString(data); got != goldenSmoothState {
		t.Errorf("other bytes than those of version %d:\n%s", smoothVersion, got)
	}
	again.drop(3, []byte("later"), 60_000)
	var dropped smoothState
	servicetest.OK(t, dropped.DecodeBinary(again.AppendBinary(nil), 60_000))
	if !slices.Equal(dropped.open, s.open[3:]) || string(dropped.before) != "later" {
		t.Errorf("after three records are dropped: %+v", dropped.open)
	}
}

// TestSmoothStateBound: MaxWait records that are all releases stay below 1 MiB.
func TestSmoothStateBound(t *testing.T) {
	t.Parallel()
	var s smoothState
	for i := range mechanism.MaxWait {
		w := waitingExamples()[0]
		w.record.Release, w.record.Timestamp = int64(i), w.record.Timestamp+int64(i)*60_000
		w.record.ReleaseLatitude.Number += float64(i)
		w.record.Step += int64(i)
		w.record.Latitude, w.record.Longitude = float64(i), float64(-i)
		w.record.RadiusM, w.record.SigmaMajorM = float64(i), schemas.Some(float64(i))
		w.record.SigmaMinorM, w.record.AzimuthDeg = w.record.SigmaMajorM, w.record.SigmaMajorM
		s.add(w, 60_000)
	}
	if len(s.stored) > maxOpenBytes || maxOpenBytes+100_000 > 1<<20 {
		t.Errorf("%d bytes, at most %d", len(s.stored), maxOpenBytes)
	}
}

// FuzzSmoothState: any bytes are read or refused, and what was read is written in bytes that are
// read as the same.
func FuzzSmoothState(f *testing.F) {
	var s smoothState
	for _, w := range waitingExamples() {
		s.add(w, 60_000)
	}
	seed := append([]byte{smoothVersion, 1, 4, 1, 'm', 2, 's', 't', 1, 'b'}, s.stored...)
	f.Add(seed)
	f.Add(seed[:len(seed)-3])
	f.Add([]byte{smoothVersion, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var s, again smoothState
		if s.DecodeBinary(data, 60_000) != nil {
			return
		}
		s.drop(0, s.before, 60_000)
		if err := again.DecodeBinary(s.AppendBinary(nil), 60_000); err != nil ||
			!slices.Equal(again.open, s.open) || !bytes.Equal(again.before, s.before) {
			t.Errorf("%v: %+v, want %+v", err, again.open, s.open)
		}
	})
}
