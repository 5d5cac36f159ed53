package private_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility/train"
	"github.com/geodither/geodither/mechanism/mobility/train/private"
)

// Example learns from a hundred users who go to and fro between two cells. The model says what it
// has spent, and nothing that was counted.
func Example() {
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.05, East: 20.05}, 500)
	if err != nil {
		fmt.Println(err)
		return
	}
	trainer, err := train.New(g, time.Minute, train.Options{KernelRadius: 2, KeepShared: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for user := range 100 {
		for minute := range int64(60) {
			lon := 20.021 + .005*float64(minute%2)
			fix := train.Fix{User: fmt.Sprint(user), TimeMS: minute * 60_000, Lat: 10.021, Lon: lon}
			trainer.Add(fix)
		}
	}
	random := rand.NewChaCha8([32]byte{}) // use a secret seed from crypto/rand
	options := private.Options{Epsilon: "2", Contribution: 50}
	model, _, err := private.Train(trainer, options, random, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p := model.Provenance
	fmt.Println("ε", p.Privacy.Epsilon, "for", p.Privacy.Contribution, "transitions of each user")
	fmt.Println("transitions in the report:", p.Report.Transitions)
	// Output:
	// ε 2 for 50 transitions of each user
	// transitions in the report: 0
}
