package main

import (
	"fmt"
	"io"
)

// warnSeeded says at the start of a command that publishes under a seed's key what that means.
func warnSeeded(out io.Writer, what string) {
	fmt.Fprintf(out, `WARNING: NOT PRIVATE. The noise comes from a seed, and anybody can try all seeds: whoever has the
model and finds the seed takes the noise off %s, exactly. The records are marked
as "seeded, not private". For places of people use --key-file, or neither.
`, what)
}
