package pipeline

import (
	"encoding/binary"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// The town of the tests, and the time at which they begin: the start of a step.
var town = grid.Box{South: 53.30, West: -3.10, North: 53.50, East: -2.80}

const startMS int64 = 1_700_000_040_000

var (
	testKey     = unmarked(noise.KeyFromSeed(1))
	testRelease = mechanism.Options{Epsilon: 1, Delta: .01}
)

// unmarked is a seed's key as a key file has it: records under it are not marked as seeded.
func unmarked(key noise.Key) noise.Key {
	same, err := noise.ParseKey(key.Reveal())
	if err != nil {
		panic(err)
	}
	return same
}

// neighbourModel stays with weight stay and else moves to one of the four cells
// beside; users start anywhere in the middle ninth.
func neighbourModel(tb testing.TB, box grid.Box, cellM, stay float64) *mobility.Model {
	tb.Helper()
	g, err := grid.New(box, cellM)
	if err != nil {
		tb.Fatal(err)
	}
	return localModel(tb, g, 1, func(dx, dy int) float64 {
		switch {
		case dx == 0 && dy == 0:
			return stay
		case dx == 0 || dy == 0:
			return 1
		}
		return 0
	})
}

// localModel moves by (dx, dy), both within reach, with the given weight.
func localModel(tb testing.TB, g *grid.Grid, reach int, weight func(dx, dy int) float64) *mobility.Model {
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
	model := &mobility.Model{Grid: g, Step: time.Minute, Matrices: []*mobility.Matrix{m}, Initial: initial}
	if err := model.Validate(); err != nil {
		tb.Fatal(err)
	}
	return model
}

// third reports whether a number lies in the middle third.
func third(i, n int) bool { return 3*i >= n-2 && 3*i < 2*n }

// testOptions are complete, with a store in a folder of the test's.
func testOptions(tb testing.TB, model *mobility.Model) Options {
	tb.Helper()
	return Options{
		Cluster:  topics.Cluster{Brokers: []string{"127.0.0.1:1"}, Group: "g", Topics: topics.Set{Raw: "raw", Sanitized: "sanitized"}},
		Settings: Settings{Model: model, Key: testKey, Release: testRelease},
		StateDir: tb.TempDir(),
		Logger:   slog.New(slog.DiscardHandler),
	}
}

// anywhere makes options accept a record in any partition.
func anywhere(o Options) Options {
	o.Partitioner = AnyPartitioner
	return o
}

// newTestProcessor is of a topic that may hold any key in any partition, unless the
// options name a partitioner: most tests of a processor have users of their own choice.
func newTestProcessor(tb testing.TB, o Options, partition int32) *Processor {
	tb.Helper()
	fallback(&o.Partitioner, AnyPartitioner)
	p, err := NewProcessor(o.Settings, Partition{o.Topics.Raw, partition, max(partitions, int(partition)+1)})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func newTestCodec(tb testing.TB, encoding schemas.Encoding) *schemas.Codec {
	tb.Helper()
	codec, err := schemas.NewCodec(encoding)
	if err != nil {
		tb.Fatal(err)
	}
	return codec
}

// sentinel is a fix whose coordinates, accuracy and user are found wherever they
// turn up. It lies in the town.
func sentinel() schemas.Raw {
	accuracy := 17.31415926
	return schemas.Raw{
		UserID: "user-canary-7731", Timestamp: startMS + 1234,
		Latitude: 53.40718281828459, Longitude: -2.98314159265358, AccuracyM: &accuracy,
	}
}

func encode(tb testing.TB, encoding schemas.Encoding, fix schemas.Raw) []byte {
	tb.Helper()
	value, err := newTestCodec(tb, encoding).AppendRaw(nil, fix)
	if err != nil {
		tb.Fatal(err)
	}
	return value
}

// record is a Kafka record of a fix, written when the fix was taken.
func record(tb testing.TB, offset int64, fix schemas.Raw) task.Record {
	tb.Helper()
	return task.Record{Offset: offset, Timestamp: fix.Timestamp, Key: []byte(fix.UserID), Value: encode(tb, schemas.Avro, fix)}
}

// forge encodes a fix in Avro without looking at what it says.
func forge(tb testing.TB, fix schemas.Raw) []byte {
	tb.Helper()
	const header = 10 // the marker and the schema's fingerprint
	b := slices.Clone(encode(tb, schemas.Avro, sentinel())[:header])
	b = binary.AppendVarint(b, int64(len(fix.UserID)))
	b = append(b, fix.UserID...)
	b = binary.AppendVarint(b, fix.Timestamp)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(fix.Latitude))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(fix.Longitude))
	if fix.AccuracyM == nil {
		return binary.AppendVarint(b, 0)
	}
	b = binary.AppendVarint(b, 1)
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(*fix.AccuracyM))
}

// effects are what one record did, in memory of their own.
type effects struct {
	output, dead []task.Message
	state        []byte
}

// process runs one record on a state and copies what came of it.
func process(tb testing.TB, p *Processor, rec task.Record, state []byte) effects {
	tb.Helper()
	var fx task.Effects
	if err := p.Process(rec, state, &fx); err != nil {
		tb.Fatal(err)
	}
	if fx.Forget {
		tb.Error("a state is forgotten")
	}
	return effects{cloned(fx.Output), cloned(fx.DeadLetters), slices.Clone(fx.State)}
}

func cloned(messages []task.Message) []task.Message {
	out := make([]task.Message, 0, len(messages))
	for _, m := range messages {
		out = append(out, task.Message{Key: slices.Clone(m.Key), Value: slices.Clone(m.Value), Timestamp: m.Timestamp})
	}
	return out
}

// sanitized is the one record that was published.
func (e effects) sanitized(tb testing.TB, encoding schemas.Encoding) schemas.Sanitized {
	tb.Helper()
	if len(e.output) != 1 || len(e.dead) != 0 {
		tb.Fatalf("%d records and %d dead letters, want one record", len(e.output), len(e.dead))
	}
	s, err := newTestCodec(tb, encoding).DecodeSanitized(e.output[0].Value)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// letter is the one dead letter that was written.
func (e effects) letter(tb testing.TB, encoding schemas.Encoding) schemas.DeadLetter {
	tb.Helper()
	if len(e.output) != 0 || len(e.dead) != 1 || len(e.state) != 0 {
		tb.Fatalf("%d records, %d dead letters, a state of %d bytes; want one dead letter", len(e.output), len(e.dead), len(e.state))
	}
	d, err := newTestCodec(tb, encoding).DecodeDeadLetter(e.dead[0].Value)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
