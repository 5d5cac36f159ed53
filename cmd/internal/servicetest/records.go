package servicetest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// Town is the box of the tests' maps.
var Town = grid.Box{South: 53.30, West: -3.10, North: 53.50, East: -2.80}

// StartMS is the time at which the tests begin, Unix milliseconds: the start of a step.
const StartMS int64 = 1_700_000_040_000

// Key is the noise key of the tests, as a key file would have it.
var Key = unmarked(noise.KeyFromSeed(1))

// Release are the options of the tests' releases.
var Release = mechanism.Options{Mechanism: law.Lattice, Epsilon: 1, Delta: .01}

// unmarked is a seed's key as a key file has it: records under it are not marked as seeded.
func unmarked(key noise.Key) noise.Key {
	same, err := noise.ParseKey(key.Reveal())
	if err != nil {
		panic(err)
	}
	return same
}

// LocalModel moves by (dx, dy), both within reach, with the given weight.
func LocalModel(
	tb testing.TB, g *grid.Grid, reach int, weight func(dx, dy int) float64,
) *mobility.Model {
	tb.Helper()
	m := &mobility.Matrix{RowStart: []int64{0}}
	for c := range grid.Cell(g.Cells()) {
		first, total := len(m.Values), 0.0
		for dy := -reach; dy <= reach; dy++ {
			for dx := -reach; dx <= reach; dx++ {
				x, y, w := g.Column(c)+dx, g.Row(c)+dy, weight(dx, dy)
				if w <= 0 || x < 0 || y < 0 || x >= g.Width() || y >= g.Height() {
					continue
				}
				m.Columns = append(m.Columns, grid.Cell(y*g.Width()+x))
				m.Values = append(m.Values, w)
				total += w
			}
		}
		for i := first; i < len(m.Values); i++ {
			m.Values[i] /= total
		}
		m.RowStart = append(m.RowStart, int64(len(m.Values)))
	}
	var initial mobility.Distribution
	for c := range grid.Cell(g.Cells()) {
		if third(g.Column(c), g.Width()) && third(g.Row(c), g.Height()) {
			initial.Cells = append(initial.Cells, c)
			initial.P = append(initial.P, 1)
		}
	}
	initial.Normalize()
	model := &mobility.Model{
		Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}, Initial: initial,
	}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// third reports whether a number lies in the middle third.
func third(i, n int) bool { return 3*i >= n-2 && 3*i < 2*n }

// NewCodec returns a codec.
func NewCodec(tb testing.TB, encoding schemas.Encoding) *schemas.Codec {
	tb.Helper()
	codec, err := schemas.NewCodec(encoding)
	if err != nil {
		tb.Fatal(err)
	}
	return codec
}

// Sentinel is a fix whose coordinates, accuracy and user are found wherever they
// turn up. It lies in the town.
func Sentinel() schemas.Raw {
	accuracy := 17.31415926
	return schemas.Raw{
		UserID: "user-canary-7731", Timestamp: StartMS + 1234,
		Latitude: 53.40718281828459, Longitude: -2.98314159265358, AccuracyM: &accuracy,
	}
}

// Encode encodes a raw fix.
func Encode(tb testing.TB, encoding schemas.Encoding, fix schemas.Raw) []byte {
	tb.Helper()
	value, err := NewCodec(tb, encoding).AppendRaw(nil, fix)
	if err != nil {
		tb.Fatal(err)
	}
	return value
}

// Record is a Kafka record of a fix, written when the fix was taken.
func Record(tb testing.TB, offset int64, fix schemas.Raw) task.Record {
	tb.Helper()
	return task.Record{
		Offset: offset, Timestamp: fix.Timestamp, Key: []byte(fix.UserID),
		Value: Encode(tb, schemas.Avro, fix),
	}
}

// Effects are what one record did, in memory of their own.
type Effects struct {
	Output, Dead []task.Message
	State        []byte
	Time         int64
}

// Process runs one record on a state and copies what came of it.
func Process(tb testing.TB, p task.Processor, rec task.Record, state []byte) Effects {
	tb.Helper()
	var fx task.Effects
	if err := p.Process(rec, state, &fx); err != nil {
		tb.Fatal(err)
	}
	if fx.Forget {
		tb.Error("a state is forgotten")
	}
	return Effects{cloned(fx.Output), cloned(fx.DeadLetters), slices.Clone(fx.State), fx.Time}
}

func cloned(messages []task.Message) []task.Message {
	out := make([]task.Message, 0, len(messages))
	for _, m := range messages {
		out = append(out, task.Message{
			Key: slices.Clone(m.Key), Value: slices.Clone(m.Value), Timestamp: m.Timestamp,
		})
	}
	return out
}

// Sanitized is the one record that was published.
func (e Effects) Sanitized(tb testing.TB, encoding schemas.Encoding) schemas.Sanitized {
	tb.Helper()
	if len(e.Output) != 1 || len(e.Dead) != 0 {
		tb.Fatalf("%d records and %d dead letters, want one record", len(e.Output), len(e.Dead))
	}
	s, err := NewCodec(tb, encoding).DecodeSanitized(e.Output[0].Value)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Letter is the one dead letter that was written.
func (e Effects) Letter(tb testing.TB, encoding schemas.Encoding) schemas.DeadLetter {
	tb.Helper()
	if len(e.Output) != 0 || len(e.Dead) != 1 || len(e.State) != 0 {
		tb.Fatalf("%d records, %d dead letters, a state of %d bytes; want one dead letter",
			len(e.Output), len(e.Dead), len(e.State))
	}
	d, err := NewCodec(tb, encoding).DecodeDeadLetter(e.Dead[0].Value)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// RequireEqual requires the same records, dead letters and state.
func RequireEqual(tb testing.TB, what string, want, got Effects) {
	tb.Helper()
	same := func(a, b task.Message) bool {
		return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) &&
			a.Timestamp == b.Timestamp
	}
	if !slices.EqualFunc(want.Output, got.Output, same) ||
		!slices.EqualFunc(want.Dead, got.Dead, same) || !bytes.Equal(want.State, got.State) {
		tb.Errorf("%s differs", what)
	}
}
