package archtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// unit is one type-checked package, without its tests.
type unit struct {
	path  string // from the module's root
	files []*ast.File
	lines int
	fset  *token.FileSet
	info  *types.Info
	types *types.Package
}

// load type-checks every package of the module at root. The packages that they import come from
// the go command's build cache.
func load(root string) ([]unit, error) {
	list := exec.Command("go", "list",
		"-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,Module", "./...")
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	type listed struct {
		ImportPath, Export, Dir string
		GoFiles                 []string
		Module                  *struct{ Main bool }
	}
	var ours []listed
	export := make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		export[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			ours = append(ours, p)
		}
	}
	fset := token.NewFileSet()
	from := importer.ForCompiler(fset, "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	var units []unit
	for _, p := range ours {
		texts := make(map[string][]byte)
		for _, name := range p.GoFiles {
			if texts[name], err = os.ReadFile(filepath.Join(p.Dir, name)); err != nil {
				return nil, err
			}
		}
		u, err := checked(fset, p.ImportPath, texts, from)
		if err != nil {
			return nil, err
		}
		units = append(units, u)
	}
	return units, nil
}

// checked parses and type-checks the files of one package.
func checked(
	fset *token.FileSet, path string, texts map[string][]byte, from types.Importer,
) (unit, error) {
	u := unit{
		path: strings.TrimPrefix(path, module+"/"), fset: fset,
		info: &types.Info{
			Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object),
		},
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		file, err := parser.ParseFile(fset, name, texts[name], parser.SkipObjectResolution)
		if err != nil {
			return u, err
		}
		u.files = append(u.files, file)
		u.lines += bytes.Count(texts[name], []byte("\n"))
	}
	var err error
	u.types, err = (&types.Config{Importer: from}).Check(path, fset, u.files, u.info)
	return u, err
}

// file returns the name of the file that a position lies in.
func (u *unit) file(at token.Pos) string { return filepath.Base(u.fset.Position(at).Filename) }

// shape is what is measured of one package. The lists name what was found.
type shape struct {
	pkg       string
	files     int
	lines     int
	types     int // named types, at package level
	functions int // unexported functions and methods, without init and main
	exported  int // exported ones
	once      int // of both, those that are named once in the module, in another file
	scattered []string
	apart     []string
	stray     []string
	mutual    []string
}

// scatteredFiles is in how many files the methods of a scattered type lie.
const scatteredFiles = 3

// shapes measures all packages of a module.
func shapes(units []unit) []shape {
	used := make(map[string][]use)
	for i := range units {
		units[i].uses(used)
	}
	var all []shape
	for i := range units {
		u := &units[i]
		s := shape{pkg: u.path, files: len(u.files), lines: u.lines, mutual: u.mutual()}
		s.types, s.scattered = u.scattered()
		s.functions, s.apart, s.stray = u.apart(used)
		s.exported, s.once = u.once(used)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b shape) int { return cmp.Compare(a.pkg, b.pkg) })
	return all
}

// scattered counts the package's named types and lists those whose methods lie in three or more
// files.
func (u *unit) scattered() (named int, found []string) {
	for _, name := range u.types.Scope().Names() {
		object, ok := u.types.Scope().Lookup(name).(*types.TypeName)
		if !ok || object.IsAlias() {
			continue
		}
		named++
		in := make(map[string]bool)
		for m := range object.Type().(*types.Named).Methods() {
			in[u.file(m.Pos())] = true
		}
		if len(in) >= scatteredFiles {
			found = append(found, fmt.Sprintf("%s in %s", name,
				strings.Join(slices.Sorted(maps.Keys(in)), " ")))
		}
	}
	return named, found
}

// use is one place where a function is named.
type use struct{ pkg, file string }

// uses notes where the package names functions and methods, by their full names. A function's own
// body does not count.
func (u *unit) uses(used map[string][]use) {
	for _, file := range u.files {
		for _, decl := range file.Decls {
			var self types.Object
			if d, ok := decl.(*ast.FuncDecl); ok {
				self = u.info.Defs[d.Name]
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				ident, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if f, ok := u.info.Uses[ident].(*types.Func); ok && f.Origin() != self {
					name := f.Origin().FullName()
					used[name] = append(used[name], use{u.path, u.file(ident.Pos())})
				}
				return true
			})
		}
	}
}

// apart counts the package's unexported functions and lists those that are used once, in another
// file of the package. An exported one has readers elsewhere. Those of them that also name nothing
// of their own file are stray: only the other file has a reason to hold them.
func (u *unit) apart(used map[string][]use) (functions int, apart, stray []string) {
	for _, file := range u.files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Name.IsExported() ||
				d.Recv == nil && (d.Name.Name == "init" || d.Name.Name == "main") {
				continue
			}
			functions++
			in := used[u.info.Defs[d.Name].(*types.Func).FullName()]
			here := u.file(d.Pos())
			if len(in) != 1 || in[0].pkg != u.path || in[0].file == here {
				continue
			}
			entry := fmt.Sprintf("%s of %s in %s", d.Name.Name, here, in[0].file)
			apart = append(apart, entry)
			if !u.tied(d) {
				stray = append(stray, entry)
			}
		}
	}
	return functions, apart, stray
}

// once counts the package's exported functions, and all that are named once in the module, in
// another file than their own.
func (u *unit) once(used map[string][]use) (exported, once int) {
	for _, file := range u.files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Recv == nil && (d.Name.Name == "init" || d.Name.Name == "main") {
				continue
			}
			if d.Name.IsExported() {
				exported++
			}
			in := used[u.info.Defs[d.Name].(*types.Func).FullName()]
			if len(in) == 1 && in[0] != (use{u.path, u.file(d.Pos())}) {
				once++
			}
		}
	}
	return exported, once
}

// tied says whether a function names something that is declared in its file and outside of it: its
// receiver's type, a field, a constant or another function.
func (u *unit) tied(d *ast.FuncDecl) (tied bool) {
	here := u.file(d.Pos())
	ast.Inspect(d, func(n ast.Node) bool {
		ident, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		object := u.info.Uses[ident]
		if object == nil || object.Pkg() != u.types || u.file(object.Pos()) != here {
			return true
		}
		if inside := d.Pos() <= object.Pos() && object.Pos() < d.End(); !inside {
			tied = true
		}
		return !tied
	})
	return tied
}

// mutual lists the pairs of files each of which uses what the other declares: a type, a function, a
// method, a variable or a constant of the package.
func (u *unit) mutual() (found []string) {
	arrows := make(map[[2]string]bool)
	for ident, object := range u.info.Uses {
		method := false
		if f, ok := object.(*types.Func); ok {
			method = f.Signature().Recv() != nil
			object = f.Origin()
		}
		if object.Pkg() == u.types && (method || object.Parent() == u.types.Scope()) {
			arrows[[2]string{u.file(ident.Pos()), u.file(object.Pos())}] = true
		}
	}
	for arrow := range arrows {
		if arrow[0] < arrow[1] && arrows[[2]string{arrow[1], arrow[0]}] {
			found = append(found, arrow[0]+" "+arrow[1])
		}
	}
	slices.Sort(found)
	return found
}

const (
	columns = 100 // of a comment's line
	tab     = 4
)

// wide lists the lines of a file that are, or end in, a comment and are longer than columns.
// Directives are as long as they are.
func wide(name, text string) (found []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	lines := strings.Split(text, "\n")
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:") || strings.HasPrefix(c.Text, "//nolint") {
				continue
			}
			for n := fset.Position(c.Pos()).Line; n <= fset.Position(c.End()).Line; n++ {
				line := lines[n-1]
				if utf8.RuneCountInString(line)+(tab-1)*strings.Count(line, "\t") > columns {
					found = append(found, fmt.Sprintf("%s:%d", name, n))
				}
			}
		}
	}
	return found
}
