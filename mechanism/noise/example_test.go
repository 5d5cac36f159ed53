package noise_test

import (
	"errors"
	"fmt"

	"github.com/geodither/geodither/mechanism/noise"
)

// The same transcript has the same noise, and another one has other noise. A key never shows.
func ExampleKeyed() {
	key := noise.KeyFromSeed(1) // an experiment; a service uses NewKey or ParseKey
	streams := noise.NewKeyed(key)
	draw := func(transcript string) float64 {
		return noise.Uniform(streams.Stream([]byte(transcript)))
	}
	fmt.Println(draw("user 7, step 12") == draw("user 7, step 12"))
	fmt.Println(draw("user 7, step 12") == draw("user 7, step 13"))
	fmt.Printf("%v %+v\n", key, noise.NewKey())
	// Output:
	// true
	// false
	// [redacted] [redacted]
}

// A key without its days before one: nobody can draw their noise again, nor take it off.
func ExampleKey_From() {
	key := noise.NewKey()
	from, err := noise.ParseDay("2026-11-01")
	if err != nil {
		panic(err)
	}
	advanced, err := key.From(from) // write it to a file, and destroy the older one
	if err != nil {
		panic(err)
	}
	_, err = noise.NewKeyed(advanced).On(from-1, []byte("a release"))
	fmt.Println(advanced.FirstDay(), errors.Is(err, noise.ErrDestroyed))
	// Output: 2026-11-01 true
}
