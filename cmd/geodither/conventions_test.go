package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// runnable returns all commands that do something, by their path without "geodither ".
func runnable() map[string]*cobra.Command {
	found := map[string]*cobra.Command{}
	visit(newRoot(cli.Streams{}), func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "geodither ")
		if cmd.RunE != nil && (!cmd.HasSubCommands() || path == "counts") {
			found[path] = cmd
		}
	})
	return found
}

// enough are the arguments without which a command does not come to its config. Those of a command
// that works without a config make it fail.
var enough = map[string][]string{
	"counts":        {"--from", "2026-12-01", "--to", "2026-12-02", "gone.csv"},
	"demo":          {"--vehicles", "-1"},
	"erase":         {"--user", "bus-7"},
	"explore":       {"--outline", "gone.json"},
	"input test":    {"gone.jsonl"},
	"model inspect": {"gone.avro"},
	"replay":        {"--output-topic", "again"},
	"topics acls":   {"--principal", "User:fleet"},
	"train":         append([]string{"--out", "model.avro"}, townMap...),
	"tune":          {"--out", "tuned", "--box", "1,2,3"},
}

// TestConfigWithoutFlag: where -c is missing, a command whose usage line has -c FILE takes
// GEODITHER_CONFIG, or else ./geodither.yml, and says so. A command with [-c FILE] takes neither,
// because it means something else without a config, and all others refuse -c.
func TestConfigWithoutFlag(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	takes := 0
	for path, cmd := range runnable() {
		try := func() result {
			return call(t, slices.Concat(strings.Fields(path), enough[path])...)
		}
		own, optional := strings.Contains(cmd.Use, "-c FILE"), strings.Contains(cmd.Use, "[-c FILE]")
		if !own {
			args := append(strings.Fields(path), "-c", "geodither.yml")
			if r := call(t, args...); r.code != cli.ExitUsage ||
				!strings.Contains(r.err, "takes no config (-c)") {
				t.Errorf("%s -c: exit %d, %s", path, r.code, r.err)
			}
			continue
		}
		takes++
		if r := try(); r.code == cli.ExitDone || !optional && (r.code != cli.ExitUsage ||
			!strings.Contains(r.err, "-c")) {
			t.Errorf("%s without a config: exit %d, %s", path, r.code, r.err)
		}
		write(t, dir, "geodither.yml", "gruop: here\n")
		write(t, dir, "named.yml", "gruop: named\n")
		for variable, file := range map[string]string{"": "geodither.yml", "named.yml": "named.yml"} {
			t.Setenv(cli.ConfigVariable, variable)
			r, said := try(), "config: "+file+"\n"
			switch {
			case optional && strings.Contains(r.err, file):
				t.Errorf("%s takes a config that nobody named:\n%s", path, r.err)
			case !optional && (r.code != cli.ExitUsage && path != "doctor" || // it has one finding
				!strings.HasPrefix(r.err, said) ||
				!strings.Contains(r.err+r.out, file+": line 1: unknown key")):
				t.Errorf("%s does not take %s: exit %d\n%s", path, file, r.code, r.err)
			}
		}
		t.Setenv(cli.ConfigVariable, "")
		if err := os.Remove("geodither.yml"); err != nil {
			t.Fatal(err)
		}
	}
	if takes < 20 {
		t.Errorf("only %d commands take a config", takes)
	}
}
