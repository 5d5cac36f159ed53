package main

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestTopicsCreate: the command makes what is missing, once, and only as large as it is told.
func TestTopicsCreate(t *testing.T) {
	address := startBroker(t)
	config := func(more string) string {
		return write(t, t.TempDir(), "geodither.yml", "brokers: ["+address+"]\ngroup: fleet\n"+
			"topics: {raw: fleet.raw, sanitized: fleet.sanitized"+more+"}\n")
	}
	requireMessage(t, call(t, "topics", "create", "-c", config("")), cli.ExitFailed,
		"fleet.raw", "(topics-missing)")
	for range 2 {
		out := succeed(t, "topics", "create", "-c", config(", partitions: 3")).out
		if want := "fleet.raw: 3 partitions\nfleet.sanitized: 3 partitions\n" +
			"fleet-changelog: 3 partitions\nfleet-dead-letters: 3 partitions\n"; out != want {
			t.Errorf("it prints %q", out)
		}
	}
	requireMessage(t, call(t, "topics", "create", "-c", config(", partitions: 4")), cli.ExitFailed,
		"fleet.raw has 3, not 4")
}

// TestTopicsACLs: the formats, and wrong uses with what to do.
func TestTopicsACLs(t *testing.T) {
	config := write(t, t.TempDir(), "geodither.yml",
		"brokers: [one:9092]\ngroup: fleet\ntopics: {raw: in, sanitized: out}\n")
	acls := func(more ...string) result {
		return call(t, append([]string{"topics", "acls", "-c", config}, more...)...)
	}
	r := acls("--principal", "User:x")
	if lines := strings.Count(r.out, "kafka-acls.sh --bootstrap-server one:9092 --add "+
		"--allow-principal User:x --operation "); r.code != cli.ExitDone || lines != 6 {
		t.Errorf("%d lines: %s %s", lines, r.out, r.err)
	}
	if r := acls("--principal", "User:x", "--strimzi", "f"); !strings.Contains(r.out,
		"name: x\n  labels: {strimzi.io/cluster: f}\n") {
		t.Errorf("%s %s", r.out, r.err)
	}
	requireMessage(t, acls("--principal", "x"), cli.ExitUsage, "write User:")
	requireMessage(t, call(t, "topics", "acls", "--principal", "User:x", "-c",
		write(t, t.TempDir(), "geodither.yml", "brokers: [one:9092]\n")), cli.ExitUsage,
		"group", "topics.raw")
}
