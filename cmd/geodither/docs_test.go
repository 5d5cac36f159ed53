package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// root is the repository's folder.
var root = filepath.Join("..", "..")

// TestDocumentedCommands parses every command line of the documents and of each
// command's own help, without running it: the command, its flags and their values
// exist, and what is required is there. What the example configs name exists.
func TestDocumentedCommands(t *testing.T) {
	texts := map[string]string{}
	for _, name := range []string{
		"README.md", "cmd/geodither/COMMANDS.md", "deploy/OPERATING.md", "mechanism/GUARANTEES.md",
		"mechanism/evaluation/RESULTS.md", "schemas/CONSUMERS.md", "schemas/REASONS.md", "schemas/RECORDS.md",
	} {
		texts[name] = fenced(read(t, filepath.Join(root, name)))
	}
	visit(newRoot(cli.Streams{}), func(cmd *cobra.Command) { texts[cmd.CommandPath()+" --help"] = cmd.Example })
	for _, pattern := range []string{"deploy/*.yml", "deploy/*/*.yml", "docker-compose.yml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, file := range files {
			texts[file] = quoted(read(t, file))
		}
	}
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
	if found["README.md"] < 6 || found[filepath.Join(root, "deploy", "geodither.yml")] != 6 || found["geodither train --help"] < 3 || found["geodither sanitize --help"] != 3 {
		t.Errorf("the texts are read wrongly: %v", found)
	}
}

// documents returns the paths of all Markdown files from the root.
func documents(t *testing.T) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "bin" ||
			strings.HasPrefix(name, ".") && name != "." && name != ".github"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			names = append(names, path)
		}
		return nil
	})
	if err != nil || len(names) < 10 {
		t.Fatalf("%d documents: %v", len(names), err)
	}
	return names
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the anchors that the headings of a Markdown text have on GitHub.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(h[1]), "")
		found[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return found
}

// brokenLink returns what is wrong with a link of a document, or nil.
func brokenLink(document, target string) error {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return nil
	}
	file, anchor, _ := strings.Cut(target, "#")
	path := document
	if file != "" {
		path = filepath.Join(filepath.Dir(document), file)
	}
	info, err := os.Stat(filepath.Join(root, path))
	if err != nil || anchor == "" || info.IsDir() {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return err
	}
	if !anchors(string(text))[anchor] {
		return fmt.Errorf("%s has no heading #%s", path, anchor)
	}
	return nil
}

// TestLinks follows every relative link of the documents to its file and heading.
func TestLinks(t *testing.T) {
	followed := 0
	for _, name := range documents(t) {
		for _, l := range link.FindAllStringSubmatch(read(t, filepath.Join(root, name)), -1) {
			followed++
			if err := brokenLink(name, l[1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if followed < 50 {
		t.Errorf("followed only %d links", followed)
	}
	for _, planted := range []string{"nothing.md", "README.md#no-such-heading", "#nor-this"} {
		if brokenLink("README.md", planted) == nil {
			t.Errorf("the broken link %s is not found", planted)
		}
	}
}

// TestReadmeLength: a newcomer reads the README to its end.
func TestReadmeLength(t *testing.T) {
	const most = 1300
	if words := len(strings.Fields(read(t, filepath.Join(root, "README.md")))); words > most {
		t.Errorf("the README has %d words, at most %d: move some to the folder they govern", words, most)
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
		"geodither consume --format csv":                            false,
		"geodither consume --topic x --format csv > out.csv":        true,
		"geodither produce --topic x --in t.csv --rate fast":        false,
		"zcat a.gz | geodither produce --topic x --in -  # comment": true,
		`geodither produce --topic x --in "a b.csv"`:                true,
		"GEODITHER_KEY=$(cat noise.key) geodither run -c c.yml":     true,
		"GEODITHER_KEY=$(cat noise.key) geodither run c.yml":        false,
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
	for text, want := range map[string]bool{"geodither train": true, "geodither trian": false, "geodither train --boxes": false} {
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
	for _, span := range regexp.MustCompile("`(geodither [a-z][^`\n]*)`").FindAllStringSubmatch(text, -1) {
		all.WriteString(span[1] + "\n")
	}
	return all.String()
}

// quoted returns the commands that a YAML file names in quotes.
func quoted(text string) string {
	var all strings.Builder
	for _, span := range regexp.MustCompile(`"(geodither [a-z][^"\n]*)"`).FindAllStringSubmatch(text, -1) {
		all.WriteString(span[1] + "\n")
	}
	return all.String()
}

var (
	invocation = regexp.MustCompile(`(?m)(?:^|[|;&)]\s*|\s)(?:\./|bin/)?geodither +([a-z-][^|;&\n]*)`)
	word       = regexp.MustCompile(`"[^"]*"|\S+`)
)

// commandLines returns the arguments of each call of geodither in a shell text.
func commandLines(text string) (lines [][]string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, call := range invocation.FindAllStringSubmatch(text, -1) {
		var args []string
		for _, arg := range word.FindAllString(call[1], -1) {
			if strings.HasPrefix(arg, "#") || strings.HasPrefix(arg, ">") || strings.HasPrefix(arg, "<") {
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
	if cmd.HasSubCommands() {
		return cli.NoArgs(cmd, append(cmd.Flags().Args(), "nothing"))
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	return cmd.ValidateRequiredFlags()
}
