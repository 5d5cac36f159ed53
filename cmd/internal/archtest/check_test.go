package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is this repository's module path.
const module = "github.com/geodither/geodither"

// source is one Go file.
type source struct {
	path string // with slashes, from the root
	pkg  string // the folder it lies in
	test bool
	file *ast.File
}

// sources parses every Go file of the tree, whatever its build constraints say.
// It skips what the go command skips.
func sources(tree fs.FS) ([]source, error) {
	var found []source
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
		if entry.IsDir() {
			if hidden || base == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if hidden || path.Ext(base) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found = append(found, source{
			name, path.Dir(name), strings.HasSuffix(base, "_test.go"), file,
		})
		return nil
	})
	return found, err
}

// imports checks every file against the table and returns what breaks it. An entry of the table
// that nobody uses breaks it too.
func imports(files []source, table map[string]rule) (broken []string) {
	used := make(map[string]map[string]bool) // by package, then the entries of its rule
	for _, f := range files {
		rule, ok := table[f.pkg]
		if !ok {
			broken = append(broken, fmt.Sprintf("%s: package %s is not in the table: decide what "+
				"it may import, and list it", f.path, f.pkg))
			continue
		}
		if used[f.pkg] == nil {
			used[f.pkg] = make(map[string]bool)
		}
		for _, spec := range f.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				broken = append(broken, fmt.Sprintf("%s: %v", f.path, err))
				continue
			}
			entry, ok := rule.allows(f, imported)
			if !ok {
				broken = append(broken,
					fmt.Sprintf("%s: package %s must not import %s", f.path, f.pkg, imported))
			}
			if !f.test || slices.Contains(rule.tests, entry) {
				used[f.pkg][entry] = true
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(table)) {
		if used[pkg] == nil {
			broken = append(broken,
				fmt.Sprintf("package %s is in the table, but not in the tree", pkg))
			continue
		}
		broken = append(broken, table[pkg].unused(pkg, used[pkg])...)
	}
	return broken
}

// unused returns the permissions of a package's rule that are not among the used ones.
func (r rule) unused(pkg string, used map[string]bool) (broken []string) {
	seen := make(map[string]bool)
	for _, kind := range []struct {
		name    string
		entries []string
	}{{"ours", r.ours}, {"third", r.third}, {"tests", r.tests}} {
		for _, entry := range kind.entries {
			switch {
			case seen[entry]:
				broken = append(broken, fmt.Sprintf("table: %s lists %s twice", pkg, entry))
			case !used[entry] && kind.name == "tests":
				broken = append(broken, fmt.Sprintf(
					"table: no test of %s needs %s in its tests: remove it", pkg, entry))
			case !used[entry]:
				broken = append(broken, fmt.Sprintf("table: %s does not import %s outside of "+
					"tests: remove it from %s", pkg, entry, kind.name))
			}
			seen[entry] = true
		}
	}
	return broken
}

// allows returns whether a file may import a path, and the entry of the rule that allows it: "" for
// what needs none.
func (r rule) allows(f source, imported string) (entry string, ok bool) {
	if imported == "math/rand" || imported == "io/ioutil" {
		return "", false // they have successors
	}
	own, ours := strings.CutPrefix(imported, module+"/")
	if !ours && !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		// the standard library
		return "", f.test || !r.pure || imported == "log/slog" || within(imported, noPlumbing) < 0
	}
	if ours {
		if f.test && own == f.pkg { // the tests of package x_test
			return "", true
		}
		if slices.Contains(r.ours, own) || f.test && slices.Contains(r.tests, own) {
			return own, true
		}
		return "", false
	}
	if i := within(imported, r.third); i >= 0 {
		return r.third[i], true
	}
	if i := within(imported, r.tests); f.test && i >= 0 {
		return r.tests[i], true
	}
	return "", false
}

// within returns the index of the prefix that a path is or lies under, or -1.
func within(imported string, prefixes []string) int {
	return slices.IndexFunc(prefixes, func(prefix string) bool {
		return imported == prefix || strings.HasPrefix(imported, prefix+"/")
	})
}

// rawFields returns the unexported struct fields that hold a schemas.Raw: fmt finds no method
// there, so that printing the struct would print the fix. It also returns the exemptions that no
// field needs.
func rawFields(files []source, exempt []string) (broken []string) {
	needed := make(map[string]bool)
	for _, f := range files {
		if f.test {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					if name.IsExported() || !mentionsRaw(field.Type, f.pkg) {
						continue
					}
					needed[f.pkg] = true
					if !slices.Contains(exempt, f.pkg) {
						broken = append(broken, fmt.Sprintf(
							"%s: field %s keeps a raw fix where fmt cannot redact it: export it, "+
								"or keep only what is needed", f.path, name.Name))
					}
				}
			}
			return true
		})
	}
	for _, pkg := range exempt {
		if !needed[pkg] {
			broken = append(broken,
				fmt.Sprintf("mayKeepRaw: no field of %s keeps a raw fix: remove it", pkg))
		}
	}
	return broken
}

func mentionsRaw(expr ast.Expr, pkg string) (found bool) {
	ast.Inspect(expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType:
			return false // a function is printed as an address
		case *ast.SelectorExpr:
			from, ok := n.X.(*ast.Ident)
			found = found || ok && from.Name == "schemas" && n.Sel.Name == "Raw"
		case *ast.Ident:
			found = found || pkg == "schemas" && n.Name == "Raw"
		}
		return true
	})
	return found
}

// strangers returns what lies at the root and is neither allowed there nor ignored by .gitignore,
// and what is allowed there but missing.
func strangers(tree fs.FS, allowed []string) (broken []string, err error) {
	entries, err := fs.ReadDir(tree, ".")
	if err != nil {
		return nil, err
	}
	ignore, err := fs.ReadFile(tree, ".gitignore")
	if err != nil {
		return nil, err
	}
	patterns := strings.Fields(string(ignore))
	missing := slices.Clone(allowed)
	for _, e := range entries {
		name := e.Name()
		missing = slices.DeleteFunc(missing, func(other string) bool { return other == name })
		ignored := slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, err := path.Match(strings.Trim(pattern, "/"), name)
			return err == nil && ok
		})
		if !strings.HasPrefix(name, ".") && !ignored && !slices.Contains(allowed, name) {
			broken = append(broken,
				fmt.Sprintf("%s: nothing but %v and dot files lies at the root", name, allowed))
		}
	}
	for _, name := range missing {
		broken = append(broken, fmt.Sprintf("%s: allowed at the root, but not there", name))
	}
	return broken, nil
}
