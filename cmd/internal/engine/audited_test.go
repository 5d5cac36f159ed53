package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// sameNoise is noise without a look at the transcript.
type sameNoise struct{ seed uint64 }

func (s sameNoise) On(noise.Day, []byte) (noise.Source, error) {
	return rand.NewPCG(s.seed, 1), nil
}

// TestAudited: without streams an audit has the service's bytes; with them nothing but the
// release and what follows from it is another one. Book counts each record once.
func TestAudited(t *testing.T) {
	o := testSettings(t, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4))
	rec := servicetest.Record(t, 0, servicetest.Sentinel())
	want := servicetest.Process(t, newTestProcessor(t, o, 0), rec, nil)
	var streams noise.Streams
	for _, seed := range []uint64{0, 1, 2} {
		if seed > 0 {
			streams = sameNoise{seed}
		}
		p, err := NewAudited(o, streams)
		if err != nil {
			t.Fatal(err)
		}
		got := servicetest.Process(t, p, rec, nil)
		if again := servicetest.Process(t, p, rec, nil); !bytes.Equal(again.State, got.State) {
			t.Error("the same noise gives another state")
		}
		if seed == 0 {
			servicetest.RequireEqual(t, "a processor without streams", want, got)
		} else if a, b := want.Sanitized(t, schemas.Avro), got.Sanitized(
			t, schemas.Avro); a.Latitude == b.Latitude || a.Step != b.Step ||
			a.Epsilon != b.Epsilon {
			t.Errorf("with streams: %+v, without: %+v", b, a)
		}
		if s, next := p.Take(); s.RecordsIn != 2 || s.Releases != 2 || next == 0 {
			t.Errorf("%+v", s)
		}
		if s, _ := p.Take(); s != (Tally{}) {
			t.Errorf("what was taken is there again: %+v", s)
		}
	}
}
