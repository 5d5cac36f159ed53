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
		found = append(found, source{name, path.Dir(name), strings.HasSuffix(base, "_test.go"), file})
		return nil
	})
	return found, err
}

// imports checks every file against the table and returns what breaks it.
func imports(files []source, table map[string]rule) (broken []string) {
	listed := make(map[string]bool)
	for _, f := range files {
		listed[f.pkg] = true
		rule, ok := table[f.pkg]
		if !ok {
			broken = append(broken, fmt.Sprintf("%s: package %s is not in the table: decide what it may import, and list it", f.path, f.pkg))
			continue
		}
		for _, spec := range f.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				broken = append(broken, fmt.Sprintf("%s: %v", f.path, err))
			} else if !rule.allows(f, imported) {
				broken = append(broken, fmt.Sprintf("%s: package %s must not import %s", f.path, f.pkg, imported))
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(table)) {
		if !listed[pkg] {
			broken = append(broken, fmt.Sprintf("package %s is in the table, but not in the tree", pkg))
		}
	}
	return broken
}

func (r rule) allows(f source, imported string) bool {
	if imported == "math/rand" || imported == "io/ioutil" {
		return false // they have successors
	}
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		return f.test && ours == f.pkg || // the tests of package x_test
			slices.Contains(r.ours, ours) || f.test && slices.Contains(r.tests, ours)
	}
	if !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") { // the standard library
		return f.test || !r.pure || imported == "log/slog" || !within(imported, noPlumbing)
	}
	return within(imported, r.third) || f.test && within(imported, r.tests)
}

// within reports whether a path is one of the prefixes or lies under one.
func within(imported string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return imported == prefix || strings.HasPrefix(imported, prefix+"/")
	})
}

// rawFields returns the unexported struct fields that hold a schemas.Raw: fmt
// finds no method there, so that printing the struct would print the fix.
func rawFields(files []source, exempt []string) (broken []string) {
	for _, f := range files {
		if f.test || slices.Contains(exempt, f.pkg) {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					if !name.IsExported() && mentionsRaw(field.Type, f.pkg) {
						broken = append(broken, fmt.Sprintf("%s: field %s keeps a raw fix where fmt cannot redact it: export it, or keep only what is needed", f.path, name.Name))
					}
				}
			}
			return true
		})
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

// strangers returns what lies at the root and is neither allowed there nor
// ignored by .gitignore.
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
	for _, e := range entries {
		name := e.Name()
		ignored := slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, err := path.Match(strings.Trim(pattern, "/"), name)
			return err == nil && ok
		})
		if !strings.HasPrefix(name, ".") && !ignored && !slices.Contains(allowed, name) {
			broken = append(broken, fmt.Sprintf("%s: nothing but %v and dot files lies at the root", name, allowed))
		}
	}
	return broken, nil
}
