package mechanism

import (
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
)

// usualWords is the number of words of a block of the lattice mechanism under usual parameters.
const usualWords = 288

// TestStepTakesWholeBlocks: whatever the kind of cell, a member of the set or one that is released
// as its surrogate, near or far, a step's words are a block and whole units.
func TestStepTakesWholeBlocks(t *testing.T) {
	t.Parallel()
	streams := &countedStreams{keyed: noise.NewKeyed(noise.KeyFromSeed(89))}
	model := denseModel(t, 24, 24)
	s := sanitizerWith(t, model, streams, Options{Epsilon: 4, Delta: .3})
	var state State
	for step, cell := range walk(model, 1, 30) {
		if _, err := s.Step(&state, Input{
			User: "u", Step: int64(step), Cell: cell,
			Release: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	kinds, surrogates := map[bool]map[int]int{true: {}, false: {}}, 0
	for cell := range grid.Cell(model.Grid.Cells()) {
		for user := range 8 {
			state := copyState(&state)
			out, err := s.Step(&state, Input{
				User: string(rune('a' + user)), Step: 31, Cell: cell,
				Release: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if out.SetSize < 3 || streams.words%32 != 0 || streams.words < usualWords {
				t.Fatalf("cell %d of %d in the set: %d words", cell, out.SetSize, streams.words)
			}
			kinds[out.Drift][streams.words]++
			if out.Drift {
				surrogates++
			}
		}
	}
	if surrogates < 500 || kinds[true][usualWords] < 100 || kinds[false][usualWords] == 0 {
		t.Errorf("the words of cells outside and inside the set: %v", kinds)
	}
}

// countedStreams counts the words of the last stream.
type countedStreams struct {
	noise.Source
	words int
	keyed *noise.Keyed
}

func (c *countedStreams) On(day noise.Day, transcript []byte) (noise.Source, error) {
	src, err := c.keyed.On(day, transcript)
	c.Source, c.words = src, 0
	return c, err
}

// Uint64 implements noise.Source.
func (c *countedStreams) Uint64() uint64 {
	c.words++
	return c.Source.Uint64()
}
