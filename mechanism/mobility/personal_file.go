package mobility

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/linkedin/goavro/v2"

	"github.com/geodither/geodither/mechanism/grid"
)

// PersonalSchema is the Avro schema of a personal model.
//
//go:embed personal.avsc
var PersonalSchema string

var personalCodec = sync.OnceValues(func() (*goavro.Codec, error) {
	return goavro.NewCodec(PersonalSchema)
})

// ErrPersonal says that bytes are not a personal model of the popular one.
var ErrPersonal = errors.New("mobility: the personal model is damaged; " +
	"copy it again or train again")

// ErrForeignPersonal says that a personal model belongs to another popular model than the one it
// was read with.
var ErrForeignPersonal = errors.New("mobility: the personal model was learned over another " +
	"popular model; use that one, or train again")

// MarshalBinary returns p in Avro's single-object encoding: 10 bytes that name the schema, then the
// record. A transition or visit takes about 5 bytes.
func (p *Personal) MarshalBinary() ([]byte, error) {
	codec, err := personalCodec()
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	c := p.Counts()
	var transitions, visits []byte
	before := grid.Cell(0)
	for _, t := range c.Transitions {
		transitions = binary.AppendUvarint(transitions, uint64(t.From-before))
		transitions = binary.AppendVarint(transitions, int64(t.To)-int64(t.From))
		transitions = appendCount(transitions, t.N)
		before = t.From
	}
	before = 0
	for _, v := range c.Visits {
		visits = appendCount(binary.AppendUvarint(visits, uint64(v.From-before)), v.N)
		before = v.From
	}
	data, err := codec.SingleFromNative(nil, fields{
		"popular": p.popular.ID(), "id": p.ID(), "weight": c.Weight, "transitions": transitions,
		"visits": visits,
	})
	if err != nil {
		return nil, fmt.Errorf("mobility: a personal model cannot be encoded: %w", err)
	}
	return data, nil
}

func appendCount(dst []byte, n float64) []byte {
	return binary.AppendUvarint(dst, bits.ReverseBytes64(math.Float64bits(n)))
}

// DecodePersonal reads what [Personal.MarshalBinary] returned. data may be any bytes: it returns
// [ErrPersonal] if they are not a personal model, and [ErrForeignPersonal] if they belong to
// another popular model. Cost and memory: linear in data.
func DecodePersonal(popular *Model, data []byte) (*Personal, error) {
	codec, err := personalCodec()
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	value, rest, err := codec.NativeFromSingle(data)
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("%w: it is not one record of the schema geodither.personal.Personal",
			ErrPersonal)
	}
	record := value.(fields)
	if of := record["popular"].(string); of != popular.ID() {
		return nil, fmt.Errorf("%w: it is %.16q, not %q", ErrForeignPersonal, of, popular.ID())
	}
	c := PersonalCounts{Weight: record["weight"].(float64)}
	if c.Transitions, err = decodeCounts(record["transitions"].([]byte), true); err != nil {
		return nil, err
	}
	if c.Visits, err = decodeCounts(record["visits"].([]byte), false); err != nil {
		return nil, err
	}
	if !(c.Weight > 0) { // 0 would become the default, and so another model
		return nil, fmt.Errorf("%w: its weight is not positive", ErrPersonal)
	}
	p, err := NewPersonal(popular, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPersonal, err)
	}
	if id := record["id"].(string); p.ID() != id {
		return nil, fmt.Errorf("%w: its content does not match its id %.16q", ErrPersonal, id)
	}
	return p, nil
}

func decodeCounts(data []byte, pairs bool) ([]Count, error) {
	var counts []Count
	from := uint64(0)
	for len(data) > 0 {
		gap, read := binary.Uvarint(data)
		if read <= 0 || gap > math.MaxInt32 {
			return nil, fmt.Errorf("%w: a cell cannot be read", ErrPersonal)
		}
		data = data[read:]
		from += gap
		to := int64(from)
		if pairs {
			difference, read := binary.Varint(data)
			if read <= 0 || difference > math.MaxInt32 || difference < math.MinInt32 {
				return nil, fmt.Errorf("%w: a cell cannot be read", ErrPersonal)
			}
			data = data[read:]
			to += difference
		}
		n, read := binary.Uvarint(data)
		if read <= 0 || from >= grid.MaxCells || to < 0 || to >= grid.MaxCells {
			return nil, fmt.Errorf("%w: a count cannot be read", ErrPersonal)
		}
		data = data[read:]
		counts = append(counts, Count{
			From: grid.Cell(from), To: grid.Cell(to),
			N: math.Float64frombits(bits.ReverseBytes64(n)),
		})
	}
	return counts, nil
}
