package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// TestWrongUsage gives each command what it cannot use: the exit code is 2 and
// the message says what would be right.
func TestWrongUsage(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	out := filepath.Join(dir, "out")
	train := func(change ...string) []string {
		return townTraining(traces, out, change...)
	}
	sanitize := func(change ...string) []string {
		return append([]string{
			"sanitize", "--in", traces, "--out", out, "--model", model, "--epsilon", "1",
			"--delta", ".01", "--mechanism", "lattice",
		},
			change...)
	}
	produce := func(change ...string) []string {
		return append([]string{"produce", "--topic", "t"}, change...)
	}
	demo := func(section string) []string {
		return append([]string{"demo"}, withConfig(t, section)...)
	}
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"rum"}, []string{`"rum" is no command`, "did you mean run?"}},
		{[]string{"model", "inspekt"}, []string{"geodither model", "did you mean inspect?"}},
		{[]string{"key", "make"}, []string{`"make" is no command of geodither key`}},
		{[]string{"rnu", "-c", "f"}, []string{`"rnu" is no command`, "did you mean run?"}},
		{[]string{"--bogus"}, []string{"unknown flag: --bogus"}},
		{[]string{"demo", "--bogus"}, []string{"unknown flag: --bogus", "geodither demo --help"}},
		{[]string{"demo", "extra"}, []string{"geodither demo takes no argument", `"extra"`}},
		{demo("release: {epsilon: 0, budget: none}"), []string{"epsilon"}},
		{demo("release: {epsilon: .nan, budget: none}"), []string{"epsilon"}},
		{demo("release: {mechanism: lattice, delta: 1, budget: none}"), []string{"delta"}},
		{demo("release: {mechanism: gauss, budget: none}"), []string{
			`"gauss"`, "pim, knorm, laplace, laplace-tight",
		}},
		{[]string{"demo", "--vehicles", "-1"}, []string{"--vehicles", "negative"}},
		{[]string{"model", "inspect"}, []string{
			"name one model file", "geodither model inspect model.avro",
		}},
		{[]string{"model", "inspect", "a", "b"}, []string{"name one model file"}},
		{[]string{"key", "new"}, []string{"name one file", "geodither key new noise.key"}},
		{[]string{"version", "x"}, []string{"takes no argument"}},
		{[]string{"version", "-c", "x"}, []string{"takes no config"}},
		{[]string{"broker", "--port", "99999"}, []string{"choose 1 to 65535"}},
		{[]string{"run"}, []string{"-c FILE", "geodither.yml", "GEODITHER_CONFIG"}},
		{[]string{"train"}, []string{
			"add --box SOUTH,WEST,NORTH,EAST --cell LENGTH --out FILE --step DURATION",
		}},
		{train("--box", "1,2,3"), []string{"south,west,north,east"}},
		{train("--box", "a,2,3,4"), []string{`"a" is no number`}},
		{train("--box", "11,20,10,21"), []string{"south"}},
		{train("--box", "10,20,99,21"), nil},
		{train("--box", "NaN,20,10,21"), nil},
		{train("--cell", "340"), []string{"no unit", "340m or 0.34km"}},
		{train("--cell", "-3m"), []string{"not a positive number"}},
		{train("--cell", "NaNkm"), []string{"not a positive number"}},
		{train("--cell", "Infm"), []string{"not a positive number"}},
		{train("--cell", "1e-6m"), nil},
		{train("--step", "0s"), []string{"step"}},
		{train("--step", "60"), []string{"--step"}},
		{train("--step", "-1m"), []string{"step"}},
		{train("--out", "-"), []string{"--out"}},
		{append([]string{"train", "--out", out}, townMap...), []string{"--in"}},
		{[]string{"sanitize", "--model", model}, []string{"epsilon is not set"}},
		{[]string{
			"sanitize", "--epsilon", "1",
			"--delta", "0.1", "--mechanism", "lattice", "--in", traces,
		}, []string{
			"--model", "-c",
		}},
		{[]string{
			"sanitize", "--model", model,
			"--delta", "0.1", "--mechanism", "lattice",
		}, []string{
			"mechanism lattice needs epsilon",
		}},
		{[]string{
			"sanitize", "--model", model, "--epsilon", "1",
			"--delta", "0.1", "--mechanism", "lattice",
		}, []string{
			"--in",
		}},
		{sanitize("--epsilon", "-1"), []string{"epsilon"}},
		{sanitize("--epsilon", "0"), []string{"epsilon is not set or 0"}},
		{sanitize("--epsilon", "-2"), []string{"epsilon -2 must be above 0"}},
		{sanitize("--mechanism", "codebok"), []string{`"codebok" is unknown: for people: cod`}},
		{sanitize("--interval", "30"), []string{"--interval", "with its unit, such as 30s"}},
		{sanitize("--epsilon", "Inf"), []string{"epsilon"}},
		{sanitize("--epsilon", "1e99"), []string{"epsilon"}},
		{sanitize("--epsilon", "one"), []string{"--epsilon"}},
		{sanitize("--delta", "-.1"), []string{"delta"}},
		{sanitize("--delta", "1", "--mechanism", "lattice"), []string{"delta"}},
		{sanitize("--mechanism", "none"), []string{`"none"`, "laplace-tight"}},
		{sanitize(withConfig(t,
			"release: {mechanism: lattice, inference: paper, budget: none}")...), []string{
			`unknown key "inference"`, "settings.yml",
		}},
		{sanitize("--out", out+".xml"), []string{".xml", ".csv, .ndjson", ".geojson"}},
		{sanitize("--seed", "1", "--key-file", "k"), []string{
			"--seed and --key-file exclude each other",
		}},
		{[]string{"produce", "--in", traces}, []string{"--topic", "-c"}},
		{produce(), []string{"--in"}},
		{produce(append(withConfig(t, "encoding: {raw: xml}"), "--in", traces)...), []string{
			"xml",
		}},
		{produce("--in", traces, "--rate", "-1"), []string{"--rate"}},
		{produce("--in", traces, "--rate", "NaN"), []string{"--rate"}},
		{produce("--in", traces, "--create", "-1"), []string{"--create"}},
		{produce("--in", traces, "--simulate", "3", "--model", model), []string{
			"exclude each other",
		}},
		{produce("--simulate", "3"), []string{"--model"}},
		{produce("--simulate", "-3", "--model", model), []string{"negative"}},
		{produce("--in", traces, "--steps", "5"), []string{"--simulate"}},
		{[]string{"consume"}, []string{"--topic", "-c"}},
		{[]string{"consume", "--topic", "t", "--format", "xml"}, []string{
			`"xml"`, "json, csv, geojson or parquet",
		}},
		{append([]string{"consume", "--topic", "t"},
			withConfig(t, "encoding: {sanitized: xml}")...), []string{"xml"}},
		{[]string{"consume", "--topic", "t", "--brokers", ""}, []string{"--brokers"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			requireMessage(t, call(t, c.args...), cli.ExitUsage, c.words...)
		})
	}
	if left := names(t, dir); len(left) != 2 {
		t.Errorf("wrong usage left files behind: %v", left)
	}
}

// TestFailures gives each command a right line that cannot be carried out: the
// exit code is 1 and the message says what to do.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	whole := read(t, model)
	garbage := write(t, dir, "garbage.avro", strings.Repeat("no model ", 100))
	truncated := write(t, dir, "truncated.avro", whole[:len(whole)/2])
	empty := write(t, dir, "empty.avro", "")
	nothing := write(t, dir, "nothing.csv", "user_id,timestamp,latitude,longitude\n")
	unreadable := write(t, dir, "user.csv", "user_id,timestamp,latitude\n0,1,2\n")
	out := filepath.Join(dir, "out")
	train := func(in, out string) []string { return townTraining(in, out) }
	sanitize := func(model, in, out string) []string {
		return []string{
			"sanitize", "--in", in, "--out", out, "--model", model, "--epsilon", "1",
			"--delta", ".01", "--mechanism", "lattice",
		}
	}
	gone := filepath.Join(dir, "gone")
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"model", "inspect", gone}, []string{"gone", "no such file", "train"}},
		{[]string{"model", "inspect", garbage}, []string{"garbage.avro"}},
		{[]string{"model", "inspect", truncated}, []string{"truncated.avro"}},
		{[]string{"model", "inspect", empty}, []string{"empty.avro"}},
		{[]string{"model", "inspect", dir}, []string{dir}},
		{sanitize(gone, traces, out), []string{"no such file"}},
		{sanitize(truncated, traces, out), []string{"truncated.avro"}},
		{sanitize(model, gone, out), []string{"no such file", "check the path"}},
		{sanitize(model, unreadable, out), []string{"user.csv", "longitude"}},
		{sanitize(model, traces, filepath.Join(gone, "out")), []string{
			"no folder",
		}},
		{sanitize(model, traces, dir), []string{"is a folder", "name a file"}},
		{append(sanitize(model, traces, out), "--key-file", gone), []string{"key new"}},
		{append(sanitize(model, traces, out), "--key-file", nothing), []string{
			"nothing.csv", "64 hexadecimal digits",
		}},
		{train(gone, out), []string{"no such file"}},
		{train(nothing, out), nil},
		{train(traces, filepath.Join(gone, "out")), []string{"no folder"}},
		{train(traces, dir), []string{"is a folder"}},
		{train(traces, "/dev/null"), []string{"name a file"}},
		{[]string{"produce", "--topic", "t", "--in", gone}, []string{"no such file"}},
		{[]string{"produce", "--topic", "t", "--simulate", "2", "--model", garbage}, []string{
			"garbage.avro",
		}},
		{[]string{"broker", "--port", "0", "--dir", nothing}, []string{"folder"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			requireMessage(t, call(t, c.args...), cli.ExitFailed, c.words...)
		})
	}
	if left := names(t, dir); len(left) != 7 {
		t.Errorf("failures left files behind: %v", left)
	}
}

// mostHelpWords is how many words of a command's help come before its flags. What else there is to
// say has its home in a document.
const mostHelpWords = 250

// TestHelp looks at every command there is: its help is short, ends well, and has an
// example that is a line of this very command.
func TestHelp(t *testing.T) {
	if help := succeed(t).out; !strings.Contains(help, "geodither demo") ||
		!strings.Contains(help, "Prepare a service:") {
		t.Errorf("geodither alone does not show how to begin:\n%s", help)
	}
	found := 0
	visit(newRoot(cli.Streams{}), func(cmd *cobra.Command) {
		found++
		path := strings.Fields(cmd.CommandPath())[1:]
		r := succeed(t, append(path, "--help")...)
		example := regexp.MustCompile(`Examples:\n(.*\n)*  (\S.* )?` + cmd.CommandPath() + `\b`)
		if !example.MatchString(r.out) {
			t.Errorf("%s --help has no example:\n%s", cmd.CommandPath(), r.out)
		}
		words := len(strings.Fields(cmd.Long + " " + cmd.Use + " " + cmd.Example))
		if words > mostHelpWords {
			t.Errorf("%s --help has %d words before its flags, want at most %d", cmd.CommandPath(),
				words, mostHelpWords)
		}
		for line := range strings.Lines(r.out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		if cmd.Short == "" {
			t.Errorf("%s does not say what it does", cmd.CommandPath())
		}
	})
	if found < 13 {
		t.Errorf("found %d commands only", found)
	}
}

// TestFlags: a command has at most 15 flags, and all have at most flagsAtMost, without --help.
// A new one replaces another, or shows that nothing else can say it: a config, a pipe, a default.
func TestFlags(t *testing.T) {
	const each, flagsAtMost = 15, 150
	all := 0
	visit(newRoot(cli.Streams{}), func(cmd *cobra.Command) {
		cmd.InitDefaultVersionFlag()
		n := 0
		cmd.LocalFlags().VisitAll(func(*pflag.Flag) { n++ })
		if n > each {
			t.Errorf("%s has %d flags, want at most %d", cmd.CommandPath(), n, each)
		}
		all += n
	})
	if all > flagsAtMost {
		t.Errorf("%d flags in all, want at most %d", all, flagsAtMost)
	}
	if all < 100 {
		t.Errorf("only %d flags were counted", all)
	}
}

func visit(cmd *cobra.Command, each func(*cobra.Command)) {
	each(cmd)
	for _, sub := range cmd.Commands() {
		visit(sub, each)
	}
}

func TestVersion(t *testing.T) {
	sub, flag := succeed(t, "version").out, succeed(t, "--version").out
	var (
		version, commit, compiler            string
		mechanism, codebook, states, records int
	)
	_, err := fmt.Sscanf(sub, "geodither %s\ncommit %s %s\n"+
		"mechanism %d, codebook %d, users' states %d, sanitized records %d\n",
		&version, &commit, &compiler, &mechanism, &codebook, &states, &records)
	if err != nil || !strings.Contains(flag, version) || !strings.HasPrefix(compiler, "go1.") ||
		min(mechanism, codebook, states, records) < 1 {
		t.Errorf("version says %q, --version %q: %v", sub, flag, err)
	}
}
