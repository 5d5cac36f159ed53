package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/geodither/geodither/deploy"
)

// dialect are words that readers stumble over, many of whom did not grow up with English. Each has
// a plain substitute: who, again, except for, in the same way, forever, earlier, and the noun of
// what is said.
var dialect = regexp.MustCompile(`\b(anew|(?i:whoever|but for|alike|for ever|of before|says so|` +
	`it says that|foretells?|tells? of|whence|vouch(es)? for))\b`)

// TestPlainWords: no document, comment, error or help text uses a word of the dialect.
func TestPlainWords(t *testing.T) {
	for _, found := range dialectIn(t, repository(t)) {
		t.Error(found)
	}
}

// dialectIn returns where a tree has words of the dialect. This file has to name them.
func dialectIn(t *testing.T, tree fs.FS) (all []string) {
	t.Helper()
	const self = "cmd/internal/archtest/words_test.go"
	if err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "bin" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || name == self || !hasProse(name):
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, p := range prose(name, string(data)) {
			if word := dialect.FindString(p.text); word != "" {
				all = append(all, fmt.Sprintf("%s:%d: %q: say it in plainer words", name, p.line,
					word))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// hasProse reports whether people read the text of a file.
func hasProse(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".mjs", ".ts", ".py", ".sql", ".sh", ".yml", ".yaml", ".properties":
		return true
	}
	return path.Base(name) == "Makefile" || name == ".ci/run"
}

// passage is a text that is read as one, and the line where it begins.
type passage struct {
	line int
	text string
}

var (
	// inlineCode are names in backquotes, which are not ours to choose.
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	// lineStart is what a line of a comment or of a paragraph begins with.
	lineStart = regexp.MustCompile(`(?m)^[ \t]*(?://|#|--|\*)?[ \t]*`)
)

// prose returns what people read of a file: comments and texts of Go, and all of other files.
func prose(name, text string) (all []passage) {
	if path.Ext(name) == ".go" {
		return proseOfGo(text)
	}
	text = inlineCode.ReplaceAllString(text, "")
	line := 1
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		joined := strings.ReplaceAll(lineStart.ReplaceAllString(paragraph, ""), "\n", " ")
		all = append(all, passage{line, joined})
		line += strings.Count(paragraph, "\n") + 2
	}
	return all
}

// proseOfGo returns the comments of a Go file, those of successive lines together, and its texts,
// those that + connects together. A text without a space is a name.
func proseOfGo(text string) (all []passage) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", 1, len(text))
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	last, end := token.ILLEGAL, 0 // the last passage's kind, and the line where it ends
	for {
		at, kind, literal := s.Scan()
		line := file.Line(at)
		until := line + strings.Count(literal, "\n")
		switch {
		case kind == token.EOF:
			return all
		case kind == token.ADD, kind == token.SEMICOLON && literal == "\n":
			continue // it may stand between two of one passage
		case kind == token.COMMENT:
			literal = " " + strings.TrimLeft(literal, "/* \t")
		case kind == token.STRING && strings.Contains(literal, " "):
			literal = strings.Trim(literal, "\"`")
		default:
			last = kind
			continue
		}
		literal = strings.ReplaceAll(literal, "\n", " ")
		if n := len(all); n > 0 && last == kind && line <= end+1 {
			all[n-1].text += literal
		} else {
			all = append(all, passage{line, literal})
		}
		last, end = kind, until
	}
}

func TestPlantedWords(t *testing.T) {
	for name, text := range map[string]string{
		"a.go": "package a\n\nvar anew int // all but\n// for the last\n",
		"b.go": "package a\n\nconst a = \"the log \" +\n\t\"says so\"\n",
		"c.md": "# Head\n\nIt lasts for\never.\n",
		"d.sh": "ls\n# Whoever\n",
	} {
		if got := dialectIn(t, fstest.MapFS{name: {Data: []byte(text)}}); len(got) != 1 {
			t.Errorf("%s: found %q", name, got)
		}
	}
	plain := fstest.MapFS{
		"a.go":   {Data: []byte("package a\n\nvar anew = \"anew\" // but\n\n// for\nvar b = 1\n")},
		"b.md":   {Data: []byte("The field `anew`, for everybody.\n")},
		"c.json": {Data: []byte(`{"anew": 1, "text": "alike"}`)},
	}
	if got := dialectIn(t, plain); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}

// mostErrorWords is how long the text of an error may be. What else there is to say belongs into
// the help of a command or into a document.
const mostErrorWords = 20

// medianErrorWords is how long half of the errors may be.
const medianErrorWords = 7

// TestErrorsAreShort: nobody reads on in a long error.
func TestErrorsAreShort(t *testing.T) {
	files, err := sources(repository(t))
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, f := range files {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(repository(t), f.path)
		if err != nil {
			t.Fatal(err)
		}
		long, all := longErrors(t, f.path, text)
		found = append(found, all...)
		for _, at := range long {
			t.Errorf("%s: an error of over %d words: say the cause, and name a section of "+
				"deploy/ONCALL.md that says what to do", at, mostErrorWords)
		}
	}
	if len(found) < 500 {
		t.Fatalf("only %d errors are found: the test reads the code wrongly", len(found))
	}
	slices.Sort(found)
	median, tenth := found[len(found)/2], found[len(found)*9/10]
	t.Logf("%d errors, of %d words in the median, nine of ten of up to %d", len(found), median,
		tenth)
	if median > medianErrorWords {
		t.Errorf("errors have %d words in the median, at most %d", median, medianErrorWords)
	}
	planted := `package p
var a, b = fmt.Errorf("` + strings.Repeat("word ", 20) + `" +
	"` + strings.Repeat("word ", 11) + `"), errors.New("short")`
	if long, all := longErrors(t, "p.go", []byte(planted)); len(long) != 1 ||
		!slices.Equal(all, []int{31, 1}) {
		t.Errorf("planted: %q of %d", long, all)
	}
}

// longErrors lists where a file makes an error of a long constant text, and the words of all.
func longErrors(t *testing.T, name string, text []byte) (long []string, all []int) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"New", "Errorf", "Usagef"}, selector.Sel.Name) {
			return true
		}
		if words, ok := constantText(call.Args[0]); ok {
			all = append(all, len(strings.Fields(words)))
			if all[len(all)-1] > mostErrorWords {
				long = append(long, fset.Position(call.Pos()).String())
			}
		}
		return true
	})
	return long, all
}

// constantText returns the text of string literals that are added up.
func constantText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := constantText(e.X)
		right, also := constantText(e.Y)
		return left + right, ok && also && e.Op == token.ADD
	}
	return "", false
}

// remedyName is the name of a remedy in the text of an error.
var remedyName = regexp.MustCompile(`\(([a-z]+(?:-[a-z]+)+)\)`)

// TestRemedies: every name in an error has its section in ONCALL.md, and every section is named by
// an error.
func TestRemedies(t *testing.T) {
	tree := repository(t)
	files, err := sources(tree)
	if err != nil {
		t.Fatal(err)
	}
	wanted := make(map[string]string) // where a name stands, by name
	words := 0
	for _, f := range files {
		if f.test || strings.Contains(f.pkg, "test") || strings.Contains(f.pkg, "oracle") {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			text, ok := "", false
			if e, is := n.(ast.Expr); is {
				text, ok = constantText(e)
			}
			if !ok {
				return true
			}
			if strings.Contains(text, " ") {
				words += len(strings.Fields(text))
			}
			for _, name := range remedyName.FindAllStringSubmatch(text, -1) {
				wanted[name[1]] = f.path
			}
			return false
		})
	}
	t.Logf("%d words in texts", words)
	if words > mostTextWords {
		t.Errorf("%d words in texts, at most %d: say it in a document, once", words, mostTextWords)
	}
	for _, r := range deploy.Remedies() {
		if wanted[r.Name] == "" {
			t.Errorf("deploy/ONCALL.md: no error names %s", r.Name)
		}
		if !strings.HasSuffix(r.What, ".") || r.Do == "" {
			t.Errorf("deploy/ONCALL.md: %s needs a sentence, and below it what to do", r.Name)
		}
		delete(wanted, r.Name)
	}
	for name, at := range wanted {
		t.Errorf("%s: deploy/ONCALL.md has no section %s under \"Errors by name\"", at, name)
	}
	if r, ok := deploy.RemedyOf("lost (nothing-known) (changelog-lost): EOF"); !ok ||
		r.Name != "changelog-lost" {
		t.Errorf("planted: %v, %v", r, ok)
	}
}

// mostTextWords is how many words the texts of the product have: help, errors, reports.
const mostTextWords = 32500
