package archtest

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
	"unicode/utf8"
)

// TestDocuments: links within the repository lead somewhere, and targets of make exist.
func TestDocuments(t *testing.T) {
	broken, err := documents(repository(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

var (
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced     = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	makeTarget = regexp.MustCompile("`make ([a-z0-9 -]+)")
	target     = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)
	headline   = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

// documents returns the links of Markdown files that lead nowhere, and the targets of make that
// they name but that do not exist.
func documents(tree fs.FS) (broken []string, err error) {
	makefile, err := fs.ReadFile(tree, "Makefile")
	if err != nil {
		return nil, err
	}
	var targets []string
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		targets = append(targets, m[1])
	}
	return broken, fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (name == ".git" || name == "bin" || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(
			fenced.ReplaceAllString(string(data), ""), -1) {
			if !leads(tree, name, m[1]) {
				broken = append(broken, fmt.Sprintf("%s: the link to %s leads nowhere", name, m[1]))
			}
		}
		for _, m := range makeTarget.FindAllStringSubmatch(string(data), -1) {
			for _, word := range strings.Fields(m[1]) {
				if !slices.Contains(targets, word) {
					broken = append(broken,
						fmt.Sprintf("%s: there is no target %q of make", name, word))
				}
			}
		}
		return nil
	})
}

// leads says whether a link of a document leads to a file, and to a headline if it names one. Links
// to elsewhere are not followed.
func leads(tree fs.FS, document, to string) bool {
	if strings.Contains(to, ":") {
		return true
	}
	file, anchor, named := strings.Cut(to, "#")
	if file = path.Join(path.Dir(document), file); strings.HasPrefix(to, "#") {
		file = document
	}
	info, err := fs.Stat(tree, file)
	if err != nil || !named || path.Ext(file) != ".md" {
		return err == nil
	}
	data, err := fs.ReadFile(tree, file)
	if err != nil || info.IsDir() {
		return false
	}
	return slices.ContainsFunc(headline.FindAllStringSubmatch(string(data), -1),
		func(m []string) bool {
			return anchorOf(m[1]) == anchor
		})
}

// anchorOf returns the name by which GitHub links to a headline.
func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func TestPlantedDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"[a](a/b.md), [folder](a), [out](https://example.org/x)": "",
		"[a](a/b.md#two-words-and-more)":                         "",
		"[below](#one) and [README](../README.md)":               "README.md leads nowhere",
		"[gone](a/c.md)":                        "a/c.md leads nowhere",
		"[gone](a/b.md#three)":                  "a/b.md#three leads nowhere",
		"[gone](#two)":                          "#two leads nowhere",
		"run `make check` or `make check lint`": "",
		"run `make chekc`":                      `no target "chekc"`,
		"run `make check lnit`":                 `no target "lnit"`,
		"run `make run ARGS='--vehicles 1000'`": `no target "run"`,
		"make peace":                            "",
		"```\n[not](a.link)\n```":               "",
	} {
		tree := fstest.MapFS{
			"Makefile": {Data: []byte("check: lint ## All\n\ttrue\nlint: ## Lint\n")},
			"x.md":     {Data: []byte("# One\n" + text)},
			"a/b.md":   {Data: []byte("## Two words, and *more*\n")},
		}
		broken, err := documents(tree)
		if err != nil {
			t.Fatal(err)
		}
		mustComplain(t, broken, want)
	}
}

// TestNarrowComments: comments of files other than Go's, too, are at most 100 columns wide.
func TestNarrowComments(t *testing.T) {
	for _, wide := range wideComments(t, repository(t)) {
		t.Error(wide)
	}
	tree := fstest.MapFS{
		"a.yml": {Data: []byte("# " + strings.Repeat("x", 99) + "\n# " + strings.Repeat("é", 98))},
		"b.sh":  {Data: []byte("ls\n  # " + strings.Repeat("x", 97))},
		"c.md":  {Data: []byte("# " + strings.Repeat("x", 100))},
	}
	if got := wideComments(t, tree); !slices.Equal(got, []string{"a.yml:1", "b.sh:2"}) {
		t.Errorf("planted lines: %q", got)
	}
}

// wideComments returns the lines of comments that go beyond column 100.
func wideComments(t *testing.T, tree fs.FS) (wide []string) {
	t.Helper()
	if err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin" || entry.Name() == "testdata"):
			return fs.SkipDir
		}
		marker := commentMarkers[path.Ext(path.Base(name))]
		if marker == "" {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), marker) &&
				utf8.RuneCountInString(line) > 100 {
				wide = append(wide, fmt.Sprintf("%s:%d", name, i+1))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return wide
}

// commentMarkers are what comments begin with, by the extension of a file.
var commentMarkers = map[string]string{
	".yml": "#", ".yaml": "#", ".sh": "#", ".properties": "#", ".py": "#", ".sql": "--",
}

// TestExamplesCanBeCopied: pkg.go.dev shows each example of the packages for programs outside as a
// whole program, which they can build.
func TestExamplesCanBeCopied(t *testing.T) {
	texts := map[string]string{}
	tree := repository(t)
	for _, folder := range []string{
		"mechanism", "mechanism/law", "mechanism/mobility", "mechanism/mobility/train",
		"mechanism/mobility/train/private", "mechanism/noise", "mechanism/follow",
		"mechanism/counts", "schemas",
	} {
		names, err := fs.Glob(tree, folder+"/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
	}
	found, broken := copied(t, texts)
	if found < 12 {
		t.Errorf("%d examples", found)
	}
	for _, b := range broken {
		t.Error(b)
	}
	const head = "package a_test\nimport \"example.org/m/%s\"\nfunc Example() { %s }\n"
	for text, want := range map[string]string{
		fmt.Sprintf(head, "a", "help(a.B)") + "func help(int) {}": "",
		fmt.Sprintf(head, "a", "help(a.B)"):                       "Example is no program",
		fmt.Sprintf(head, "internal/a", "a.B()"):                  "imports example.org/m/internal",
	} {
		_, broken := copied(t, map[string]string{"a_test.go": text})
		mustComplain(t, broken, want)
	}
}

// copied returns how many examples the files have, and what keeps them from being copied.
func copied(t *testing.T, texts map[string]string) (found int, broken []string) {
	t.Helper()
	for name, text := range texts {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range doc.Examples(file) {
			if found++; e.Play == nil {
				broken = append(broken, fmt.Sprintf("%s: Example%s is no program by itself: it "+
					"needs what its file does not declare", name, e.Name))
				continue
			}
			ast.Inspect(e.Play, func(n ast.Node) bool {
				spec, ok := n.(*ast.ImportSpec)
				if ok && strings.Contains(spec.Path.Value, "/internal/") {
					broken = append(broken, fmt.Sprintf("%s: Example%s imports %s", name, e.Name,
						strings.Trim(spec.Path.Value, `"`)))
				}
				return true
			})
		}
	}
	return found, broken
}

// TestWayOfARecord: the functions in the table of a record's way are in the files that it names.
func TestWayOfARecord(t *testing.T) {
	const document = "cmd/internal/service/DESIGN.md"
	tree := repository(t)
	text, err := fs.ReadFile(tree, document)
	if err != nil {
		t.Fatal(err)
	}
	broken, rows := strayFunctions(tree, path.Dir(document), string(text))
	for _, b := range broken {
		t.Errorf("%s: %s", document, b)
	}
	if rows < 20 {
		t.Errorf("%s: %d rows name a function and its file: the test reads the table wrongly",
			document, rows)
	}
	planted := "| `Task.consume`, `nowhere` | consumer/task/consume.go | x |"
	if broken, _ := strayFunctions(tree, path.Dir(document), planted); len(broken) != 1 {
		t.Errorf("a planted function is not found: %q", broken)
	}
}

var (
	wayRow    = regexp.MustCompile("(?m)^\\| [– ]*(`[A-Za-z.]+`[^|]*) \\| ([^|]+) \\|")
	quoted    = regexp.MustCompile("`(?:([A-Za-z]+)\\.)?([A-Za-z]+)`")
	fileNamed = regexp.MustCompile(`[a-z_/]*[a-z_]+\.go|\bmechanism\b|\bschemas\b`)
)

// strayFunctions returns the functions of such a table that none of the row's files declares, and
// the number of rows. A file is named from the root, from cmd/internal or from the document's
// folder.
func strayFunctions(tree fs.FS, folder, text string) (broken []string, rows int) {
	for _, row := range wayRow.FindAllStringSubmatch(text, -1) {
		rows++
		var code strings.Builder
		for _, name := range fileNamed.FindAllString(row[2], -1) {
			for _, at := range []string{".", "cmd/internal", folder} {
				pattern := path.Join(at, name)
				if path.Ext(name) != ".go" {
					pattern = path.Join(name, "*.go")
				}
				files, _ := fs.Glob(tree, pattern) // a pattern of this file is well formed
				for _, file := range files {
					data, _ := fs.ReadFile(tree, file) // nothing is found in what cannot be read
					code.Write(data)
				}
			}
		}
		for _, call := range quoted.FindAllStringSubmatch(row[1], -1) {
			receiver := `(\([^)]*\) )?`
			if call[1] != "" {
				receiver = `\((\w+ )?\*?` + call[1] + `(\[.*\])?\) `
			}
			declared := regexp.MustCompile(`(?m)^func ` + receiver + call[2] + `[(\[]`)
			if !declared.MatchString(code.String()) {
				broken = append(broken, fmt.Sprintf("%s is not in %s", call[0], row[2]))
			}
		}
	}
	return broken, rows
}

// TestPackageMap: CONTRIBUTING's map has each package once, and no other.
func TestPackageMap(t *testing.T) {
	const document = ".github/CONTRIBUTING.md"
	text, err := fs.ReadFile(repository(t), document)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Package map")
	section, _, _ = strings.Cut(section, "\n## ")
	packages := slices.Collect(maps.Keys(table))
	for _, b := range misplaced(section, packages) {
		t.Errorf("%s: %s", document, b)
	}
	if got := misplaced("| `a`, `b` | x |\n| `a` | y |\n", []string{"a", "c"}); len(got) != 3 {
		t.Errorf("planted faults of a map: found %q, want b, a again, and c missing", got)
	}
}

// misplaced compares the first columns of a table with the packages that there are.
func misplaced(section string, packages []string) (broken []string) {
	listed := map[string]int{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for i, name := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					listed[name]++
				}
			}
		}
	}
	for _, p := range packages {
		if listed[p] != 1 {
			broken = append(broken, fmt.Sprintf("the package map has %s %d times", p, listed[p]))
		}
		delete(listed, p)
	}
	for name := range listed {
		broken = append(broken, "the package map has "+name+", which is no package")
	}
	return broken
}

// TestPromises: the tests that own a promise, or hold what the field reported, are where
// CONTRIBUTING names them.
func TestPromises(t *testing.T) {
	const document = ".github/CONTRIBUTING.md"
	tree := repository(t)
	text, err := fs.ReadFile(tree, document)
	if err != nil {
		t.Fatal(err)
	}
	for title, least := range map[string]int{
		"## Each promise has a test": 30, "## What the field reported": 10,
	} {
		_, section, found := strings.Cut(string(text), title)
		section, _, _ = strings.Cut(section, "\n## ")
		broken, owners := lostOwners(tree, section)
		for _, b := range broken {
			t.Errorf("%s: %s", document, b)
		}
		if !found || owners < least {
			t.Errorf("%s, %s: %d tests: the test reads the table wrongly", document, title, owners)
		}
	}
	planted := "| a promise | `TestPromises`, `TestNowhere` in cmd/internal/archtest |"
	if broken, _ := lostOwners(tree, planted); len(broken) != 1 {
		t.Errorf("a planted test is not missed: %q", broken)
	}
}

var (
	owned    = regexp.MustCompile("((?:`Test[A-Za-z0-9]+`(?:, )?)+) in ([a-z/]+)")
	testName = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

// lostOwners returns the tests of such a table that their packages do not have, and the number of
// tests.
func lostOwners(tree fs.FS, text string) (broken []string, owners int) {
	for _, cell := range owned.FindAllStringSubmatch(text, -1) {
		var code strings.Builder
		files, _ := fs.Glob(tree, cell[2]+"/*_test.go") // the pattern is well formed
		for _, file := range files {
			data, _ := fs.ReadFile(tree, file) // nothing is found in what cannot be read
			code.Write(data)
		}
		for _, name := range testName.FindAllStringSubmatch(cell[1], -1) {
			owners++
			if !strings.Contains(code.String(), "\nfunc "+name[1]+"(") {
				broken = append(broken, fmt.Sprintf("%s is not in %s", name[1], cell[2]))
			}
		}
	}
	return broken, owners
}
