package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
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
	return fmt.Sprintf("%s marked \"seeded, not private\": whoever guesses the seed takes the noise off; no ε holds for them", cli.Quantity(n, "record"))
}

// How many seeds are tried on the key of a file: more than anybody writes by hand, and as many as
// take some tenths of a second. One seed costs five times as much on a key without past days.
const (
	triedSeeds     = 1<<19 + 1
	triedSeedsPart = 1<<17 + 1
)

// refuseSeeded refuses a key that was made of a small seed, where it has to protect something.
func refuseSeeded(key noise.Key) error {
	tried := uint64(triedSeeds)
	if !key.Whole() {
		tried = triedSeedsPart
	}
	if _, found := key.SeedBelow(tried); found {
		return errors.New("the noise key was made of a small seed, as experiments do: anybody can find it and take the noise off every release. " +
			"Make a secret one with \"geodither key new FILE\", and start with a new group and new topics if anything was published under this one")
	}
	return nil
}

// refuseFuture refuses a key whose noise begins after today, in UTC: a service would refuse
// every fix until then. Only the start of a command looks at the clock; what is released
// never depends on it.
func refuseFuture(key noise.Key) error {
	today := noise.DayAt(time.Now().UnixMilli())
	if first := key.FirstDay(); first > today {
		return fmt.Errorf("the noise key begins at %v, and today is %v in UTC: every fix until then would be refused (key_destroyed). "+
			"Use an older copy of the key file, or one exported --until a day that has begun", first, today)
	}
	return nil
}
