package archtest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
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
