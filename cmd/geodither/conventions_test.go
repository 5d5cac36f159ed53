package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
// GEODITHER_CONFIG, or else ./geodither.yml, and names it. A command with [-c FILE] takes neither,
// because it means something else without a config, and tells. All others refuse -c.
func TestConfigWithoutFlag(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	takes := 0
	for path, cmd := range runnable() {
		try := func() result {
			return call(t, slices.Concat(strings.Fields(path), enough[path])...)
		}
		own := strings.Contains(cmd.Use, "-c FILE")
		optional := strings.Contains(cmd.Use, "[-c FILE]")
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
		for _, variable := range []string{"", "named.yml"} {
			file := cmp.Or(variable, "geodither.yml")
			t.Setenv(cli.ConfigVariable, variable)
			r, said := try(), "config: "+file+"\n"
			switch {
			case optional && (strings.Count(r.err, file) != 2 ||
				!strings.HasPrefix(r.err, file+" is not read: add -c "+file+" if you mean it\n")):
				t.Errorf("%s takes a config that nobody named:\n%s", path, r.err)
			case !optional && (r.code != cli.ExitUsage && path != "doctor" || // it has one finding
				!strings.HasPrefix(r.err, said) ||
				!strings.Contains(r.err+r.out, file+": line 1: unknown key")):
				t.Errorf("%s does not take %s: exit %d\n%s", path, file, r.code, r.err)
			}
		}
		t.Setenv(cli.ConfigVariable, "gone.yml")
		if r := try(); strings.Contains(r.err+r.out, "gone.yml") == optional {
			t.Errorf("%s with a variable that names no file: exit %d\n%s", path, r.code, r.err)
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

// TestConfigIsNotForOthers: a config that nobody named gives no logins to brokers that were named,
// and no noise key to traces.
func TestConfigIsNotForOthers(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	townFiles(t, dir)
	in := write(t, dir, "in.csv", "user_id,timestamp,latitude,longitude\n")
	write(t, dir, "geodither.yml", "model: model.avro\nkey_file: gone.key\n"+
		"release: {mechanism: codebook, epsilon: 1, budget: none}\n")
	for _, args := range [][]string{
		{"produce", "--brokers", "127.0.0.1:1", in}, {"consume", "--brokers", "127.0.0.1:1"},
	} {
		if r := call(t, args...); r.code != cli.ExitUsage || strings.Contains(r.err, "config: ") {
			t.Errorf("%v: exit %d, %s", args, r.code, r.err)
		}
	}
	args := []string{"sanitize", "--epsilon", "1", "--in", in}
	if r := call(t, args...); strings.Contains(r.err, "gone.key") ||
		!strings.Contains(r.err, "config: geodither.yml") {
		t.Errorf("sanitize: exit %d, %s", r.code, r.err)
	}
	if r := call(t, append(args, "-c", "geodither.yml")...); r.code != cli.ExitFailed ||
		!strings.Contains(r.err, "gone.key") {
		t.Errorf("sanitize -c: exit %d, %s", r.code, r.err)
	}
}

// TestFlagsMeanOneThing: a name has one type, and one word for its value, in all commands.
func TestFlagsMeanOneThing(t *testing.T) {
	words := map[string][]string{ // those with more than one
		"out": {"FILE", "FOLDER"}, "from": {"DAY", "TIME"}, "to": {"DAY", "TIME"},
		"cell": {"LENGTH", "LENGTHS"}, "box": {"BOX", "SOUTH,WEST,NORTH,EAST"},
		"accept": {"NAME"}, "format": {"NAME"}, "mechanism": {"NAME"},
	}
	// One value, or several: one for each data set, cell or version.
	types := map[string][]string{
		"box": {"string", "stringArray"}, "cell": {"string", "stringArray", "stringSlice"},
		"step": {"duration", "stringArray"}, "model": {"string", "stringArray"},
		"from": {"string", "time"}, "to": {"string", "time"}, // days by the clock of a time zone
	}
	for path, cmd := range runnable() {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			word, _ := pflag.UnquoteUsage(f)
			kind := f.Value.Type()
			for of, is := range map[*map[string][]string]string{&words: word, &types: kind} {
				if (*of)[f.Name] == nil {
					(*of)[f.Name] = []string{is}
				}
				if !slices.Contains((*of)[f.Name], is) {
					t.Errorf("%s --%s is %q, elsewhere %q", path, f.Name, is, (*of)[f.Name])
				}
			}
			if kind == "duration" && word != "DURATION" {
				t.Errorf("%s --%s %s: call it DURATION", path, f.Name, word)
			}
			if word == "string" || word == "strings" || strings.Contains(word, "TIME") &&
				f.Name != "from" && f.Name != "to" {
				t.Errorf("%s --%s %s says not what to write", path, f.Name, word)
			}
		})
	}
}

// TestFlagsOnce: no command takes a flag of one value twice, where the last one would silently win.
func TestFlagsOnce(t *testing.T) {
	values := []string{"1", "true", "1s", "2026-12-01", "week", "radius=1"}
	for path, cmd := range runnable() {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if cli.Repeatable(f) {
				return
			}
			twice := fmt.Sprintf("geodither: --%s is given twice\n", f.Name)
			for _, value := range values {
				word := fmt.Sprintf("--%s=%s", f.Name, value)
				var log bytes.Buffer
				code := run(t.Context(), append(strings.Fields(path), word, word),
					cli.Streams{Out: io.Discard, Err: &log})
				if strings.HasPrefix(log.String(), twice) && code == cli.ExitUsage {
					return
				}
			}
			t.Errorf("%s takes --%s twice", path, f.Name)
		})
	}
}

// TestTimes: --from and --to take a time or a day, and refuse a range that holds nothing.
func TestTimes(t *testing.T) {
	dir := t.TempDir()
	empty := write(t, dir, "geodither.yml", "group: fleet\n")
	for path, cmd := range runnable() {
		flags := cmd.Flags()
		if flags.Lookup("from") == nil || flags.Lookup("to") == nil || path == "counts" {
			continue // counts has tests of its own: its days are those of a time zone
		}
		args := slices.Concat(strings.Fields(path), []string{"-c", empty}, enough[path])
		for _, text := range []string{"2026-11-21", "2026-11-21T08:00:00Z"} {
			if r := call(t, append(args, "--from", text)...); strings.Contains(r.err, "--from \"") {
				t.Errorf("%s does not take --from %s: %s", path, text, r.err)
			}
		}
		requireMessage(t, call(t, append(args, "--to", "noon")...), cli.ExitUsage,
			`--to "noon": write a time such as 2026-11-21T08:00:00Z, or a day such as 2026-11-21`)
	}
}

// silent are the commands that report nothing, by what they do instead.
var silent = map[string]string{
	"aggregate": "writes records", "consume": "writes records", "counts": "writes counts",
	"sanitize": "writes records, and --report", "smooth": "writes records",
	"evaluate": "writes a report as files", "train": "writes a model", "tune": "writes a folder",
	"config example": "prints a config", "config schema": "prints a schema",
	"config show": "prints a config", "topics acls": "prints commands",
	"key new": "writes a key", "key export": "writes a key", "key pseudonym": "prints one word",
	"explain": "prints a document", "erase": "writes --receipt",
	"broker": "runs", "counts serve": "runs", "explore": "runs", "produce": "runs", "run": "runs",
}

// TestJSON: every command that reports something does it with --json too.
func TestJSON(t *testing.T) {
	all := runnable()
	for path, cmd := range all {
		if has := cmd.Flag("json") != nil; has == (silent[path] != "") {
			t.Errorf("%s has --json: %v, and %q", path, has, silent[path])
		}
	}
	for path := range silent {
		if all[path] == nil {
			t.Errorf("there is no command %s", path)
		}
	}
}

// TestExitCodes: 2 where the command line cannot be, 1 where it names what is not there or is in
// use, and 130 after Ctrl-C.
func TestExitCodes(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	gone := "gone.yml"
	for path, cmd := range runnable() {
		words := strings.Fields(path)
		if r := call(t, append(words, "--bogus")...); r.code != cli.ExitUsage {
			t.Errorf("%s --bogus: exit %d", path, r.code)
		}
		if !strings.Contains(cmd.Use, "-c FILE") || strings.Contains(cmd.Use, "[-c FILE]") {
			continue
		}
		r := call(t, slices.Concat(words, []string{"-c", gone}, enough[path])...)
		if r.code != cli.ExitFailed || !strings.Contains(r.err+r.out, "no such file") {
			t.Errorf("%s -c %s: exit %d\n%s", path, gone, r.code, r.err)
		}
	}
	for _, args := range [][]string{
		{"broker", "--port", port}, {"explore", "--listen", "127.0.0.1:" + port},
	} {
		if r := call(t, args...); r.code != cli.ExitFailed || !strings.Contains(r.err, args[1]) {
			t.Errorf("%q, which is in use: exit %d\n%s", args, r.code, r.err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, config := configDir(t, complete)
	var out, log shared
	if code := run(ctx, []string{"doctor", "-c", config}, cli.Streams{
		In: strings.NewReader(""), Out: &out, Err: &log,
	}); code != cli.ExitInterrupted || log.String() != "geodither: interrupted\n" {
		t.Errorf("interrupted: exit %d, %s", code, &log)
	}
}

// TestMissingFlags: what is missing is named as one writes it.
func TestMissingFlags(t *testing.T) {
	for path, cmd := range runnable() {
		required := map[string]bool{}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Annotations[cobra.BashCompOneRequiredFlag] != nil {
				word, _ := pflag.UnquoteUsage(f)
				required[fmt.Sprintf("--%s %s", f.Name, word)] = true
			}
		})
		if len(required) == 0 {
			continue
		}
		r := call(t, strings.Fields(path)...)
		if want := "add " + strings.Join(slices.Sorted(maps.Keys(required)), " "); r.code !=
			cli.ExitUsage || !strings.Contains(r.err, want) || strings.Contains(r.err, "required") {
			t.Errorf("%s: exit %d, want %q: %s", path, r.code, want, r.err)
		}
	}
}

// TestCompletion: the shell offers the values of a flag that has a few, behind any other flag too,
// the names that a command takes, and YAML files for -c.
func TestCompletion(t *testing.T) {
	few := []string{"accept", "also", "experiment", "format", "mechanism"}
	for path, cmd := range runnable() {
		for _, name := range few {
			flag := cmd.Flags().Lookup(name)
			if flag == nil {
				continue
			}
			offers := func(before ...string) []string {
				r := succeed(t, slices.Concat([]string{"__complete"}, strings.Fields(path), before,
					[]string{"--" + name, ""})...)
				return strings.Fields(strings.Split(r.out, ":")[0])
			}
			offered := offers()
			if len(offered) == 0 {
				t.Errorf("%s --%s: the shell offers nothing", path, name)
			}
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				value := map[string]string{
					"bool": "true", "duration": "1h", "float64": "1", "int": "1", "uint64": "1",
					"stringToString": "a=b", "time": "2026-11-21",
				}[f.Value.Type()]
				text := fmt.Sprintf("--%s=%s", f.Name, cmp.Or(value, f.DefValue))
				if f.Name != name && f.Name != "help" && !slices.Equal(offers(text), offered) {
					t.Errorf("%s %s --%s: the shell offers others", path, text, name)
				}
			})
			for _, value := range offered {
				if err := flag.Value.Set(value); err != nil {
					t.Errorf("%s --%s %s: %v", path, name, value, err)
				}
			}
		}
	}
	for text, want := range map[string]string{
		"run -c": "yml\nyaml\n:8", "config example": "msk\n", "explain": "changelog-lost\n",
	} {
		r := succeed(t, append(append([]string{"__complete"}, strings.Fields(text)...), "")...)
		if !strings.Contains(r.out, want) {
			t.Errorf("%s: the shell offers %q", text, r.out)
		}
	}
}

// TestParquetOnTerminal: a terminal gets no Parquet.
func TestParquetOnTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this system has no terminal to try it on")
	}
	defer terminal.Close()
	var log shared
	code := run(t.Context(), []string{"consume", "--topic", "fleet", "--format", "parquet"},
		cli.Streams{In: strings.NewReader(""), Out: terminal, Err: &log})
	if code != cli.ExitUsage || !strings.Contains(log.String(), "--out FILE.parquet") {
		t.Errorf("exit %d: %s", code, &log)
	}
}
