package deploy

import (
	_ "embed" // for the text below
	"regexp"
	"strings"
)

//go:embed ONCALL.md
var oncall string

// Remedy is what to do about an error, under the name that the error ends with in brackets.
type Remedy struct {
	Name string
	What string // one sentence: what has happened
	Do   string
}

// Remedies are those of ONCALL.md, in its order.
func Remedies() (all []Remedy) {
	_, section, _ := strings.Cut(oncall, "\n## Errors by name\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for part := range strings.SplitSeq(section, "\n### ") {
		name, text, _ := strings.Cut(part, "\n\n")
		if what, do, ok := strings.Cut(text, "\n\n"); ok && !strings.Contains(name, " ") {
			all = append(all, Remedy{name, what, strings.TrimSpace(do)})
		}
	}
	return all
}

var named = regexp.MustCompile(`\(([a-z]+(?:-[a-z]+)+)\)`)

// RemedyOf is the first remedy that the text of an error names.
func RemedyOf(text string) (r Remedy, ok bool) {
	for _, name := range named.FindAllStringSubmatch(text, -1) {
		for _, r := range Remedies() {
			if r.Name == name[1] {
				return r, true
			}
		}
	}
	return Remedy{}, false
}
