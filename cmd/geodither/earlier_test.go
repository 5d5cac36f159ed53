package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/inspect"
	"github.com/geodither/geodither/cmd/internal/towntest"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// TestEarlierService: today's program takes over from a service of commit f2c7525, whose states
// have version 1 and whose store keeps no changelog offsets. It has the town's first 144 fixes
// behind it. testdata/earlier.zip holds its topics and groups, its model and its state folder, made
// by that program's broker, train, produce and run. With its folder and without it every account
// goes on, every fix has one record, and the earlier records stay.
func TestEarlierService(t *testing.T) {
	t.Setenv(files.KeyVariable, "")
	for _, mechanism := range []string{"mechanism: lattice, delta: .01", "mechanism: codebook"} {
		name := strings.Fields(strings.ReplaceAll(mechanism, ",", ""))[1]
		t.Run(name, func(t *testing.T) {
			with := takenOver(t, mechanism, `wiped="an earlier version wrote the store"`, false)
			without := takenOver(t, mechanism, "fresh=true", true)
			if !maps.EqualFunc(with, without, slices.Equal[[]schemas.Sanitized]) {
				t.Error("the records depend on whether the state folder was there")
			}
		})
	}
}

// takenOver runs a service on a copy of the earlier one's world, and returns the records of each
// user. Its log must say how both partitions were restored.
func takenOver(
	t *testing.T, mechanism, restored string, remove bool,
) map[string][]schemas.Sanitized {
	t.Helper()
	dir := t.TempDir()
	world, err := zip.OpenReader(filepath.Join("testdata", "earlier.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer world.Close()
	if err := os.CopyFS(dir, world); err != nil {
		t.Fatal(err)
	}
	if remove {
		if err := os.RemoveAll(filepath.Join(dir, "state")); err != nil {
			t.Fatal(err)
		}
	}
	broker, err := devbroker.Start(devbroker.Options{Dir: filepath.Join(dir, "broker")})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	write(t, dir, "noise.key", noise.KeyFromSeed(1<<40).Reveal())
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`brokers: [%q]
group: earlier
topics: {raw: raw, sanitized: out}
model: model.avro
key_file: noise.key
state_dir: state
release: {epsilon: 2, %s, budget: none}
`, broker.Addr(), mechanism))
	read := func() []schemas.Sanitized {
		args := []string{"consume", "-c", config, "--topic", "out", "--format", "json"}
		return decoded(t, succeed(t, args...).out)
	}
	fixes := towntest.Fixes()
	half := len(fixes) / 2
	before := read()
	if len(before) != half {
		t.Fatalf("the earlier service left %d records, want %d", len(before), half)
	}
	service := start(t, nil, "run", "-c", config)
	succeed(t, "produce", "--brokers", broker.Addr(), "--topic", "raw",
		write(t, dir, "later.csv", towntest.CSV(fixes[half:])))
	eventually(t, "a record of every fix", func() bool { return len(read()) >= len(fixes) })
	if code := service.stop(t); code != cli.ExitDone {
		t.Errorf("it ends with %d", code)
	}
	if log := service.log.String(); strings.Count(log, restored) != 2 {
		t.Errorf("not both partitions say %q:\n%s", restored, log)
	}
	users := byUser(read())
	requireOneRecordEach(t, users, byUser(before), fixes)
	requireAccounts(t, config, users)
	return users
}

// requireOneRecordEach requires the earlier records, and then one for each further fix.
func requireOneRecordEach(
	t *testing.T, now, earlier map[string][]schemas.Sanitized, fixes []schemas.Raw,
) {
	t.Helper()
	due := map[string][]int64{}
	for _, f := range fixes {
		due[f.UserID] = append(due[f.UserID], f.Timestamp)
	}
	for user, times := range due {
		records, first := now[user], earlier[user]
		if len(records) < len(first) || !slices.Equal(records[:len(first)], first) {
			t.Errorf("user %s: the earlier service's records have changed", user)
		}
		var got []int64
		for _, r := range records {
			got = append(got, r.Timestamp)
		}
		if !slices.Equal(got, times) {
			t.Errorf("user %s has records of %v, want %v", user, got, times)
		}
	}
}

// requireAccounts requires that each user's account is the ε of all records.
func requireAccounts(t *testing.T, config string, users map[string][]schemas.Sanitized) {
	t.Helper()
	for user, records := range users {
		var want float64
		for _, r := range records {
			want += r.Epsilon
		}
		var state inspect.State
		text := succeed(t, "state", "inspect", "-c", config, "--user", user, "--json").out
		if err := json.Unmarshal([]byte(text), &state); err != nil {
			t.Fatal(err)
		}
		if state.EpsilonSpent != want || want <= 40 {
			t.Errorf("user %s has spent %v, the records have %v, and the earlier ones 40", user,
				state.EpsilonSpent, want)
		}
	}
}
