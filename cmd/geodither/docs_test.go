package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/mechanism/law"
)

// root is the repository's folder.
var root = filepath.Join("..", "..")

// TestDocumentedCommands parses every command line of the documents and of each
// command's own help, without running it: the command, its flags and their values
// exist, and what is required is there. What the example configs name exists.
func TestDocumentedCommands(t *testing.T) {
	texts := map[string]string{}
	for _, name := range []string{
		"README.md", "deploy/SETUP.md", "deploy/OPERATING.md", "deploy/ONCALL.md",
		"deploy/PRIVACY.md", "mechanism/GUARANTEES.md",
		"mechanism/evaluation/RESULTS.md", "schemas/CONSUMERS.md", "schemas/REASONS.md",
		"schemas/RECORDS.md",
	} {
		texts[name] = fenced(read(t, filepath.Join(root, name)))
	}
	visit(newRoot(cli.Streams{}), func(cmd *cobra.Command) {
		texts[cmd.CommandPath()+" --help"] = cmd.Example
	})
	for _, pattern := range []string{"deploy/*.yml", "deploy/*/*.yml", "docker-compose.yml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, file := range files {
			texts[file] = quoted(read(t, file))
		}
	}
	texts["commands.sh"] = read(t, filepath.Join(root, "mechanism", "evaluation", "results",
		"commands.sh"))
	found := map[string]int{}
	for name, text := range texts {
		for _, line := range commandLines(text) {
			found[name]++
			err := parses(line)
			if strings.HasSuffix(name, ".yml") {
				err = exists(line)
			}
			if err != nil {
				t.Errorf("%s: geodither %s: %v", name, strings.Join(line, " "), err)
			}
		}
	}
	if found["README.md"] < 6 || found[filepath.Join(root, "deploy", "geodither.yml")] < 6 ||
		found["commands.sh"] < 12 || found["geodither train --help"] < 3 ||
		found["geodither sanitize --help"] != 3 {
		t.Errorf("the texts are read wrongly: %v", found)
	}
}

// TestReadme: a newcomer reads the README to its end, and finds how to run and how to test.
func TestReadme(t *testing.T) {
	const most = 1100
	text := read(t, filepath.Join(root, "README.md"))
	if words := len(strings.Fields(text)); words > most {
		t.Errorf("the README has %d words, at most %d: move some to the folder they govern",
			words, most)
	}
	for _, command := range []string{"\nmake run ", "\nmake test "} {
		if !strings.Contains(text, command) {
			t.Errorf("the README does not name %q", strings.TrimSpace(command))
		}
	}
}

// TestReadmeGo: the README's program is part of an example, which is compiled and run.
func TestReadmeGo(t *testing.T) {
	_, program, _ := strings.Cut(read(t, filepath.Join(root, "README.md")), "```go\n")
	program, _, found := strings.Cut(program, "```\n")
	example := read(t, filepath.Join(root, "mechanism", "example_test.go"))
	want := "\t" + strings.ReplaceAll(strings.TrimSpace(program), "\n", "\n\t")
	if !found || !strings.Contains(example, want) {
		t.Errorf("mechanism/example_test.go does not have\n%s", want)
	}
}

// TestPlantedCommands: the parser refuses what does not exist and takes what a
// shell would.
func TestPlantedCommands(t *testing.T) {
	for text, want := range map[string]bool{
		"geodither demo --once --json":                              true,
		"geodither demo --twice":                                    false,
		"geodither demoo":                                           false,
		"geodither demo now":                                        false,
		"geodither model":                                           false,
		"geodither model inspect":                                   false,
		"geodither train --in t.csv --out m.avro":                   false,
		"geodither consume --topic x --format csv > out.csv":        true,
		"geodither produce --topic x --in t.csv --rate fast":        false,
		"zcat a.gz | geodither produce --topic x --in -  # comment": true,
		`geodither produce --topic x --in "a b.csv"`:                true,
		"GEODITHER_KEY=$(cat noise.key) geodither run -c c.yml":     true,
		"GEODITHER_KEY=$(cat noise.key) geodither run c.yml":        false,
		"geodither sanitize --epsilon 1 t.csv":                      true,
		"geodither sanitize --epsilon 1 --delta .1 t.csv":           false,
		"geodither sanitize -c c.yml --epsilon 1 --delta .1 t.csv":  true,
		"geodither sanitize --mechanism lattice --epsilon 1 t.csv":  false,
		"geodither sanitize --mechanism latice --epsilon 1 t.csv":   false,
	} {
		lines := commandLines(text)
		if len(lines) != 1 {
			t.Errorf("%q: found %d command lines", text, len(lines))
			continue
		}
		if err := parses(lines[0]); (err == nil) != want {
			t.Errorf("%q: %v, want it to parse: %v", text, err, want)
		}
	}
	for text, want := range map[string]bool{
		"geodither train": true, "geodither trian": false, "geodither train --boxes": false,
	} {
		if err := exists(commandLines(text)[0]); (err == nil) != want {
			t.Errorf("%q: %v, want it to exist: %v", text, err, want)
		}
	}
}

var fence = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```")

// fenced returns the code blocks of a Markdown text.
func fenced(text string) string {
	var all strings.Builder
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		all.WriteString(block[1])
	}
	// Commands within a sentence, in backquotes, if they have arguments.
	for _, span := range regexp.MustCompile(
		"`(geodither [a-z][^`\n]*)`").FindAllStringSubmatch(text, -1) {
		all.WriteString(span[1] + "\n")
	}
	return all.String()
}

// quoted returns the commands that a YAML file names in quotes.
func quoted(text string) string {
	var all strings.Builder
	for _, span := range regexp.MustCompile(
		`"(geodither [a-z][^"\n]*)"`).FindAllStringSubmatch(text, -1) {
		all.WriteString(span[1] + "\n")
	}
	return all.String()
}

var (
	invocation = regexp.MustCompile(
		`(?m)(?:^|[|;&)]\s*|\s)(?:\./|bin/)?geodither +([a-z-][^|;&\n]*)`)
	word = regexp.MustCompile(`"[^"]*"|\S+`)
)

// commandLines returns the arguments of each call of geodither in a shell text.
func commandLines(text string) (lines [][]string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, call := range invocation.FindAllStringSubmatch(text, -1) {
		var args []string
		for _, arg := range word.FindAllString(call[1], -1) {
			if strings.HasPrefix(arg, "#") || strings.HasPrefix(arg, ">") ||
				strings.HasPrefix(arg, "<") {
				break
			}
			args = append(args, strings.Trim(arg, `"`))
		}
		lines = append(lines, args)
	}
	return lines
}

// exists says whether there is a command with the flags that are named.
func exists(args []string) error {
	cmd, rest, err := newRoot(cli.Streams{In: os.Stdin}).Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil || !cmd.HasSubCommands() {
		return err
	}
	return cli.NoArgs(cmd, cmd.Flags().Args())
}

// parses says whether a command line is one, as cobra does before it runs it.
func parses(args []string) error {
	cmd, rest, err := newRoot(cli.Streams{In: os.Stdin}).Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() && cmd.ValidateArgs([]string{"nothing"}) != nil {
		return cli.NoArgs(cmd, append(cmd.Flags().Args(), "nothing"))
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	return errors.Join(cmd.ValidateRequiredFlags(), releases(cmd.Flags()))
}

// releases says whether the mechanism takes the ε and the δ of a command line: a codebook has no
// δ, and every other mechanism needs one. What a config says beside them is not known here.
func releases(flags *pflag.FlagSet) error {
	c := config.Release{Mechanism: law.Codebook}
	numbers := map[string]**float64{"epsilon": &c.Epsilon, "delta": &c.Delta}
	name := flags.Lookup("mechanism")
	if name == nil || name.Value.Type() != "string" {
		return nil // it takes none, or tries several
	}
	if flags.Changed("mechanism") {
		c.Mechanism = name.Value.String()
	} else if flags.Changed("config") {
		return nil
	}
	for name, number := range numbers {
		if flags.Changed(name) {
			x, err := flags.GetFloat64(name)
			if err != nil {
				return err
			}
			*number = &x
		}
	}
	if c.Epsilon == nil || c.Delta == nil && flags.Changed("config") {
		return nil // the config's, or a command without releases
	}
	o, err := c.Options(time.Minute)
	return errors.Join(err, o.Validate())
}

// TestReadmeOnKafka runs the README's commands for the sample, in their order, on brokers that
// only the config names: a newcomer gets the announced number of lines, most of them releases, and
// one warning.
func TestReadmeOnKafka(t *testing.T) {
	text := read(t, filepath.Join(root, "README.md"))
	_, text, _ = strings.Cut(text, "### With the sample\n")
	text, after, _ := strings.Cut(text, "\n## ")
	if after == "" {
		t.Fatal("the README has no such section")
	}
	broker := startBroker(t)
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Symlink(filepath.Join(top, "cmd"), "cmd"); err != nil {
		t.Fatal(err)
	}
	var lines string
	var service *background
	for _, args := range commandLines(fenced(text)) {
		switch args[0] {
		case "broker": // one is there
		case "config":
			write(t, ".", "geodither.yml",
				strings.Replace(succeed(t, args...).out, "localhost:9092", broker, 1))
		case "doctor":
			if out := succeed(t, args...).out; strings.Count(out, "\nwarning ") != 2 ||
				!strings.Contains(out, "-changelog is missing; run will make it") {
				t.Errorf("not two warnings, or no word on the changelog:\n%s", out)
			}
		case "run":
			service = start(t, nil, args...)
		case "consume":
			eventually(t, "all lines", func() bool {
				if call(t, args...).code != cli.ExitDone {
					return false // the topic is not there yet
				}
				lines = read(t, "fleet.geojson")
				return strings.Count(lines, "\n") == 1535
			})
		default:
			succeed(t, args...)
		}
	}
	if released := strings.Count(lines, `"released"`); released < 1000 ||
		strings.Contains(lines, `"predicted"`) || !strings.Contains(text, "1,535 lines") {
		t.Errorf("%d releases in what the README promises:\n%s", released, text)
	}
	if code := service.stop(t); code != cli.ExitDone {
		t.Errorf("exit %d: %s", code, service.log)
	}
}

// TestReadmeOnOwnCSV runs the README's commands for one's own CSV in their order, on a simulated
// fleet with the README's columns: each file that they name is there, and the typical day has the
// slot that the README asks for.
func TestReadmeOnOwnCSV(t *testing.T) {
	_, text, _ := strings.Cut(read(t, filepath.Join(root, "README.md")), "\n## Your CSV\n")
	text, rest, _ := strings.Cut(text, "\n## ")
	t.Chdir(t.TempDir())
	var traces strings.Builder
	traces.WriteString("user_id,timestamp,latitude,longitude\n")
	start := time.Date(2026, 6, 2, 6, 0, 0, 0, time.UTC)
	for i := range 2 * 60 { // two days of ten hours, each vehicle goes round its own circle
		at := start.Add(time.Duration(i/60)*24*time.Hour + time.Duration(i%60)*10*time.Minute)
		for v := range 6 {
			angle := float64(i)/10 + float64(v)
			fmt.Fprintf(&traces, "van-%d,%s,%.5f,%.5f\n", v, at.Format(time.RFC3339),
				48.2+.004*float64(v+1)*math.Sin(angle), 16.37+.006*float64(v+1)*math.Cos(angle))
		}
	}
	write(t, ".", "traces.csv", traces.String())
	ran := map[string]int{}
	for _, args := range commandLines(fenced(text)) {
		succeed(t, args...)
		ran[args[0]]++
	}
	if ran["tune"] != 1 || ran["sanitize"] != 1 || ran["counts"] != 1 {
		t.Fatalf("ran %v", ran)
	}
	if n := strings.Count(read(t, "own.csv"), "\nvan-"); n != 6*120 {
		t.Errorf("own.csv has %d records", n)
	}
	slot := regexp.MustCompile(`FROM 'typical.csv' WHERE slot = '([^']*)' AND zone <> '([^']*)'`).
		FindStringSubmatch(rest)
	if slot == nil {
		t.Fatal("the README asks the typical day nothing")
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, "typical.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at, zone := slices.Index(rows[0], "slot"), slices.Index(rows[0], "zone")
	for _, column := range []string{"latitude", "longitude", "estimate", "low", "high"} {
		if !slices.Contains(rows[0], column) {
			t.Errorf("typical.csv has no column %s", column)
		}
	}
	found := map[bool]int{}
	for _, row := range rows[1:] {
		if row[at] == slot[1] {
			found[row[zone] == slot[2]]++
		}
	}
	if found[false] < 20 || found[true] != 1 {
		t.Errorf("typical.csv has %v zones at %s", found, slot[1])
	}
}
