package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/geodither/geodither/mechanism/noise"
)

// warnSeeded says at the start of a command that publishes under a seed's key what that means.
func warnSeeded(out io.Writer, what string) {
	fmt.Fprintf(out, `WARNING: NOT PRIVATE. The noise comes from a seed, and anybody can try all seeds: whoever has the
model and finds the seed takes the noise off %s, exactly. The records are marked
as "seeded, not private". For places of people use --key-file, or neither.
`, what)
}

// seededRecords says what the mark in records means to a reader of them.
func seededRecords(n int64) string {
	return fmt.Sprintf("%s marked \"seeded, not private\": whoever guesses the seed takes the noise off; no ε holds for them", quantity(n, "record"))
}

// triedSeeds is how many seeds are tried on a service's key: more than anybody writes by hand.
const triedSeeds = 1<<16 + 1

// refuseSeeded refuses a key for a service that was made of a small seed.
func refuseSeeded(key noise.Key) error {
	if _, found := key.SeedBelow(triedSeeds); found {
		return errors.New("the noise key was made of a small seed, as experiments do: anybody can find it and take the noise off every release. " +
			"Make a secret one with \"geodither key new FILE\", and start with a new group and new topics if anything was published under this one")
	}
	return nil
}
