package experiment

import (
	"errors"
	"sync"
	"testing"
)

// TestPieceError: the error of a piece names it, and ends the study.
func TestPieceError(t *testing.T) {
	broken := errors.New("broken")
	_, err := carry(
		[]Piece{{Name: "the piece", Work: 1, Run: func(Tick) (any, error) { return nil, broken }}},
		"", Run{})
	if !errors.Is(err, broken) || err.Error() != "the piece: broken" {
		t.Errorf("error %v", err)
	}
	if err := (Results{}).Get("nothing", new(int)); err == nil {
		t.Error("a result that is not there is found")
	}
}

// TestWorkersMeet: two pieces are measured at the same time. Each waits for the other one.
func TestWorkersMeet(t *testing.T) {
	var begun sync.WaitGroup
	begun.Add(2)
	piece := func(name string) Piece {
		return Piece{Name: name, Work: 1, Run: func(Tick) (any, error) {
			begun.Done()
			begun.Wait()
			return name, nil
		}}
	}
	results, err := carry([]Piece{piece("one"), piece("other")}, "", Run{Workers: 2})
	if err != nil || len(results) != 2 {
		t.Errorf("%v, %v", results, err)
	}
}

func TestOptions(t *testing.T) {
	if (Options{Also: []string{"nonsense"}}).Validate() == nil {
		t.Error("nonsense is drawn beside the paper's mechanisms")
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a study of nothing")
	}
}
