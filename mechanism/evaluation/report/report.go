// Package report writes results into a folder that a person can read: report.md with all words,
// tables and charts in order, each table as CSV, and each chart as SVG. The same report gives the
// same bytes on one machine.
//
//	report.go  sections, and the files of a folder
//	table.go   Table: results as data, and its projections; band.go a value with its interval
//	chart.go   Chart: lines over an axis, which gonum/plot lays out
package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Report is a title and sections.
type Report struct {
	Title    string
	Sections []Section
}

// Section is one subject. Its parts appear in their order.
type Section struct {
	Title string
	Parts []Part
}

// Part is a Text, a *Table or a *Chart.
type Part interface {
	// markdown writes the part into report.md.
	markdown(to *bytes.Buffer)
	// file returns the name and the content of the part's own file, if it has one.
	file() (name string, content []byte, err error)
}

// Text is a paragraph of plain text, without markup.
type Text string

func (t Text) markdown(to *bytes.Buffer) { fmt.Fprintf(to, "%s\n\n", escape.Replace(string(t))) }

func (Text) file() (string, []byte, error) { return "", nil, nil }

// escape keeps characters that Markdown and HTML would take for markup.
var escape = strings.NewReplacer(
	`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "&", "&amp;")

// partFile is how the files of parts are named: none lies outside the folder.
var partFile = regexp.MustCompile(`^(tables|charts)/[a-z0-9][a-z0-9-]*\.(csv|svg)$`)

// Write writes the report into a folder, which it creates if it is missing. Only the owner may read
// the folder and each file, because a file may reveal something about the people in the traces.
// Each file appears whole or not at all, report.md last. Write calls step before each file, and
// ends with step's error.
func (r *Report) Write(dir string, step func() error) error {
	names, contents := []string{}, map[string][]byte{}
	var page bytes.Buffer
	fmt.Fprintf(&page, "# %s\n\n", escape.Replace(r.Title))
	for _, section := range r.Sections {
		fmt.Fprintf(&page, "## %s\n\n", escape.Replace(section.Title))
		for _, part := range section.Parts {
			part.markdown(&page)
			name, content, err := part.file()
			switch _, taken := contents[name]; {
			case err != nil:
				return fmt.Errorf("report: %s: %w", name, err)
			case name == "":
				continue
			case taken || !partFile.MatchString(name):
				return fmt.Errorf("report: a part has the file %q, which is taken or not allowed",
					name)
			}
			names, contents[name] = append(names, name), content
		}
	}
	names, contents["report.md"] = append(names, "report.md"), page.Bytes()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := errors.Join(step(), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
			return err
		}
		if err := Save(path, contents[name]); err != nil {
			return err
		}
	}
	return nil
}

// Save writes a file that appears whole or not at all, and that only its owner may read.
func Save(path string, data []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".saving-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o600), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
