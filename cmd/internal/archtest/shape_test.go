package archtest

import (
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"text/tabwriter"
)

// limits say how far a reader may have to walk. Tests count in the last only.
type limits struct {
	files     int     // of a package
	scattered int     // types whose methods lie in three or more files
	apart     float64 // per cent of the unexported functions, used once and in another file
	once      float64 // per cent of all functions, exported too, used once and in another file
	stray     int     // those of them that have nothing to do with their own file
	mutual    int     // pairs of files of a package that use each other
	wide      int     // lines with a comment over 100 columns, in tests too
}

// most is what the code may have. Lower a limit when the code has less; do not raise one.
var most = limits{files: 26, scattered: 7, apart: 10, once: 13, stray: 2, mutual: 38, wide: 0}

// commands is the package that may have more files: each is a command of its own.
const commands = "cmd/geodither"

// rootVariable names another checkout that is measured instead, without limits:
//
//	ARCHTEST_ROOT=/path go test ./cmd/internal/archtest -run 'Shape$' -v
const rootVariable = "ARCHTEST_ROOT"

// TestShape measures the module. With -v it prints what it found.
func TestShape(t *testing.T) {
	root, other := os.LookupEnv(rootVariable)
	if !other {
		root = "../../.."
	}
	units, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	all := shapes(units)
	long, err := wideLines(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		t.Log("\n" + report(all, long))
	}
	if !other {
		for _, broken := range most.exceeded(all, long) {
			t.Error(broken)
		}
	}
}

// wideLines lists the wide comments of a tree.
func wideLines(tree fs.FS) (found []string, err error) {
	files, err := sources(tree)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := fs.ReadFile(tree, f.path)
		if err != nil {
			return nil, err
		}
		found = append(found, wide(f.path, string(text))...)
	}
	return found, nil
}

// total adds up the packages. Its lists name the package of each entry.
func total(all []shape) (sum shape) {
	named := func(s shape, list []string) (found []string) {
		for _, entry := range list {
			found = append(found, s.pkg+": "+entry)
		}
		return found
	}
	for _, s := range all {
		sum.files += s.files
		sum.lines += s.lines
		sum.types += s.types
		sum.functions += s.functions
		sum.exported += s.exported
		sum.once += s.once
		sum.scattered = append(sum.scattered, named(s, s.scattered)...)
		sum.apart = append(sum.apart, named(s, s.apart)...)
		sum.stray = append(sum.stray, named(s, s.stray)...)
		sum.mutual = append(sum.mutual, named(s, s.mutual)...)
	}
	return sum
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }

// exceeded says which limits the code exceeds, and where.
func (most limits) exceeded(all []shape, long []string) (broken []string) {
	add := func(list []string, format string, args ...any) {
		broken = append(broken, fmt.Sprintf(format, args...)+":\n\t"+strings.Join(list, "\n\t"))
	}
	for _, s := range all {
		if s.files > most.files && s.pkg != commands {
			broken = append(broken, fmt.Sprintf("%s has %d files, at most %d: give a part of it "+
				"a package of its own", s.pkg, s.files, most.files))
		}
	}
	sum := total(all)
	if len(sum.scattered) > most.scattered {
		add(sum.scattered, "the methods of %d types lie in %d or more files, at most %d",
			len(sum.scattered), scatteredFiles, most.scattered)
	}
	if p := percent(len(sum.apart), sum.functions); p > most.apart {
		add(sum.apart, "%.1f %% of the unexported functions are used once, in another file of "+
			"their package, at most %g %%: move them there", p, most.apart)
	}
	if p := percent(sum.once, sum.functions+sum.exported); p > most.once {
		broken = append(broken, fmt.Sprintf("%.1f %% of all functions are used once, in another "+
			"file, at most %g %%", p, most.once))
	}
	if len(sum.stray) > most.stray {
		add(sum.stray, "%d functions are used once, in another file, and need nothing of their "+
			"own, at most %d: move them there",
			len(sum.stray), most.stray)
	}
	if len(sum.mutual) > most.mutual {
		add(sum.mutual, "%d pairs of files use each other, at most %d",
			len(sum.mutual), most.mutual)
	}
	if len(long) > most.wide {
		add(long, "%d lines with a comment are over %d columns, at most %d",
			len(long), columns, most.wide)
	}
	return broken
}

// report is a table of the packages, and what stands behind its numbers.
func report(all []shape, long []string) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	sum := total(all)
	sum.pkg = "total"
	fmt.Fprintln(table, "files\tlines\ttypes\tscattered\tfunctions\tapart\t%\t"+
		"once, all %\tstray\tmutual\t package\t")
	for _, s := range append(slices.Clone(all), sum) {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%d\t%d\t %s\t\n",
			s.files, s.lines, s.types, len(s.scattered), s.functions, len(s.apart),
			percent(len(s.apart), s.functions), percent(s.once, s.functions+s.exported),
			len(s.stray), len(s.mutual), s.pkg)
	}
	table.Flush()
	fmt.Fprintf(&b, "\nlines with a comment over %d columns: %d, in tests %d\n", columns, len(long),
		len(slices.DeleteFunc(slices.Clone(long),
			func(at string) bool { return !strings.Contains(at, "_test.go:") })))
	for _, list := range []struct {
		title   string
		entries []string
	}{
		{
			fmt.Sprintf("scattered: types whose methods lie in %d or more files", scatteredFiles),
			sum.scattered,
		},
		{"mutual: pairs of files that use each other", sum.mutual},
		{
			"apart: unexported functions that are used once, in another file of the package",
			sum.apart,
		},
		{"stray: those of them that need nothing of their own file", sum.stray},
	} {
		fmt.Fprintf(&b, "\n%s\n\t%s\n", list.title, strings.Join(list.entries, "\n\t"))
	}
	return b.String()
}

// plantedUnits checks one package of the given files.
func plantedUnits(t *testing.T, texts map[string]string) []unit {
	t.Helper()
	files := make(map[string][]byte)
	for name, text := range texts {
		files[name] = []byte("package p\n" + text)
	}
	u, err := checked(token.NewFileSet(), module+"/p", files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return []unit{u}
}

func TestPlantedShape(t *testing.T) {
	roomy := limits{files: 9, scattered: 9, apart: 100, once: 100, stray: 9, mutual: 9, wide: 9}
	with := func(change func(*limits)) limits {
		changed := roomy
		change(&changed)
		return changed
	}
	none := with(func(l *limits) { l.scattered, l.apart, l.mutual = 0, 0, 0 })
	noStray := with(func(l *limits) { l.stray = 0 })
	for _, test := range []struct {
		name  string
		files map[string]string
		most  limits
		want  string
	}{
		{
			"one file",
			map[string]string{"a.go": "type t int; func (t) M() { f(); f() }; func f() {}"},
			none,
			"",
		},
		{
			"many files",
			map[string]string{"a.go": "", "b.go": "", "c.go": ""},
			with(func(l *limits) { l.files = 2 }), "p has 3 files, at most 2",
		},
		{
			"methods in three files",
			map[string]string{
				"a.go": "type t int; func (t) A() {}", "b.go": "func (*t) B() {}",
				"c.go": "func (t) C() {}",
			},
			none, "p: t in a.go b.go c.go",
		},
		{
			"methods in two files",
			map[string]string{
				"a.go": "type t int; func (t) A() {}", "b.go": "func (*t) B() {}; func (t) C() {}",
			},
			none, "",
		},
		{
			"used once in another file",
			map[string]string{"a.go": "func F() { g() }", "b.go": "func g() {}"},
			none,
			"p: g of b.go in a.go",
		},
		{
			"a method used once in another file",
			map[string]string{
				"a.go": "func F(x t) { x.m() }", "b.go": "type t struct{}; func (t) m() {}",
			},
			none, "p: m of b.go in a.go",
		},
		{
			"a generic function used once in another file",
			map[string]string{"a.go": "func F() { g[int](1) }", "b.go": "func g[T any](T) {}"},
			none, "p: g of b.go in a.go",
		},
		{
			"a recursive function used once in another file",
			map[string]string{"a.go": "func F() { g() }", "b.go": "func g() { g() }"},
			none, "p: g of b.go in a.go",
		},
		{
			"a stray function",
			map[string]string{
				"a.go": "func F() { g() }; type t int", "b.go": "func g() { x := t(1); _ = x }",
			},
			noStray, "p: g of b.go in a.go",
		},
		{
			"an entry to its file",
			map[string]string{
				"a.go": "func F() { g() }", "b.go": "func g() { h(); h() }; func h() {}",
			},
			noStray, "",
		},
		{
			"a method beside its type",
			map[string]string{
				"a.go": "func F(x t) { x.m() }", "b.go": "type t struct{}; func (t) m() {}",
			},
			noStray, "",
		},
		{
			"used twice in another file",
			map[string]string{"a.go": "func F() { g(); g() }", "b.go": "func g() {}"},
			none, "",
		},
		{
			"exported and used once in another file",
			map[string]string{"a.go": "func F() { G() }", "b.go": "func G() {}"},
			none, "",
		},
		{
			"exported and used once in another file, over the limit",
			map[string]string{"a.go": "func F() { G() }", "b.go": "func G() {}"},
			with(func(l *limits) { l.once = 49 }), "50.0 % of all functions",
		},
		{
			"used once in its file",
			map[string]string{"a.go": "func F() { g() }; func g() {}"},
			none, "",
		},
		{"not used", map[string]string{"a.go": "func F() {}", "b.go": "func g() {}"}, none, ""},
		{
			"a share under the limit",
			map[string]string{"a.go": "func F() { g() }; func h() {}", "b.go": "func g() {}"},
			with(func(l *limits) { l.apart = 50 }), "",
		},
		{
			"files that use each other",
			map[string]string{
				"a.go": "func F() { g(1); g(2) }; const c = 1", "b.go": "func g(int) { _ = c }",
			},
			none, "p: a.go b.go",
		},
		{
			"files that use each other's type and method",
			map[string]string{
				"a.go": "type t int; func (x t) A() { x.b(); x.b() }", "b.go": "func (t) b() {}",
			},
			none, "p: a.go b.go",
		},
		{
			"files that point one way",
			map[string]string{
				"a.go": "func F() { g(); g(); var x t; _ = x.f }",
				"b.go": "func g() {}; type t struct { f int }",
			},
			none, "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			mustComplain(t, test.most.exceeded(shapes(plantedUnits(t, test.files)), nil), test.want)
		})
	}
}

func TestPlantedWide(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct{ text, want string }{
		"short":           {"package p\n\n// " + x(97) + "\nvar v int\n", ""},
		"wide":            {"package p\n\n// " + x(98) + "\nvar v int\n", "a.go:3"},
		"letters of two":  {"package p\n\n// " + strings.Repeat("é", 97) + "\nvar v int\n", ""},
		"tabs count four": {"package p\n\nfunc f() {\n\t\t// " + x(90) + "\n}\n", "a.go:4"},
		"behind code":     {"package p\n\nvar v" + x(60) + " int // " + x(30) + "\n", "a.go:3"},
		"wide code":       {"package p\n\nvar v" + x(100) + " int\n", ""},
		"block":           {"package p\n\n/*\n" + x(101) + "\n*/\nvar v int\n", "a.go:4"},
		"directive":       {"package p\n\n//go:generate " + x(98) + "\nvar v int\n", ""},
		"in a string":     {"package p\n\nvar v = `\n// " + x(98) + "`\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree := fstest.MapFS{"a.go": {Data: []byte(test.text)}}
			long, err := wideLines(tree)
			if err != nil {
				t.Fatal(err)
			}
			mustComplain(t, limits{}.exceeded(nil, long), test.want)
		})
	}
}
