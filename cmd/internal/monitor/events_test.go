package monitor

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the repository.
const root = "../../.."

// elsewhere are the packages whose lines are those of other commands.
var elsewhere = []string{
	"cmd/internal/devbroker", "cmd/internal/demo", "cmd/internal/replay",
}

// logged finds the messages of level info and above that the code of a service logs.
func logged(t *testing.T) (messages []string) {
	t.Helper()
	files, constants := parse(t)
	for name, file := range files {
		folder := path.Dir(name)
		if slices.Contains(elsewhere, folder) ||
			folder == "cmd/geodither" && path.Base(name) != "run.go" {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			function, ok := n.(*ast.FuncDecl)
			if !ok {
				return true
			}
			ast.Inspect(function, func(n ast.Node) bool {
				if at := message(n); at != nil {
					found := values(at, function, constants)
					if found == nil {
						t.Errorf("%s: the message of a log line in %s is no constant", name,
							function.Name.Name)
					}
					messages = append(messages, found...)
				}
				return true
			})
			return false
		})
	}
	return messages
}

// parse reads every file of the repository but tests, and its constants that are texts.
func parse(t *testing.T) (files map[string]*ast.File, constants map[string]ast.Expr) {
	t.Helper()
	files, constants = map[string]*ast.File{}, map[string]ast.Expr{}
	tree := os.DirFS(root)
	for _, top := range []string{"cmd", "consumer", "producer", "state", "schemas"} {
		err := fs.WalkDir(tree, top, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") ||
				strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			files[name], err = parser.ParseFile(token.NewFileSet(), name, text, 0)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
				for i, name := range spec.Names {
					constants[name.Name] = spec.Values[i]
				}
			}
			return true
		})
	}
	return files, constants
}

// message returns what a call logs, nil if it is no call that logs at level info or above.
func message(n ast.Node) ast.Expr {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	at := map[string]int{"Info": 0, "Warn": 0, "Error": 0, "Log": 2}
	i, ok := at[method.Sel.Name]
	if !ok || i >= len(call.Args) || !isLogger(method.X) {
		return nil
	}
	return call.Args[i]
}

// isLogger reports whether an expression names a logger, perhaps one with attributes.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log" || x.Name == "logger"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log" || x.Sel.Name == "Logger"
	case *ast.CallExpr:
		with, ok := x.Fun.(*ast.SelectorExpr)
		return ok && with.Sel.Name == "With" && isLogger(with.X)
	}
	return false
}

// values are what an expression of a function may be: a constant, or a variable's values in it.
func values(x ast.Expr, in *ast.FuncDecl, constants map[string]ast.Expr) (found []string) {
	if text, ok := constant(x, constants); ok {
		return []string{text}
	}
	variable, ok := x.(*ast.Ident)
	if !ok {
		return nil
	}
	ast.Inspect(in, func(n ast.Node) bool {
		set, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, left := range set.Lhs {
			if id, ok := left.(*ast.Ident); ok && id.Name == variable.Name &&
				i < len(set.Rhs) {
				if text, ok := constant(set.Rhs[i], constants); ok {
					found = append(found, text)
				}
			}
		}
		return true
	})
	return found
}

// constant returns a text that is written out, in parts or whole, or named.
func constant(x ast.Expr, constants map[string]ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			text, err := strconv.Unquote(x.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		a, first := constant(x.X, constants)
		b, second := constant(x.Y, constants)
		return a + b, x.Op == token.ADD && first && second
	case *ast.Ident:
		return lookUp(x.Name, constants)
	case *ast.SelectorExpr:
		return lookUp(x.Sel.Name, constants)
	}
	return "", false
}

// lookUp returns a constant by its name. One that is another one of its name is none of these.
func lookUp(name string, constants map[string]ast.Expr) (string, bool) {
	x := constants[name]
	if other, ok := x.(*ast.SelectorExpr); ok && other.Sel.Name == name {
		return "", false
	}
	return constant(x, constants)
}

// TestEveryLineHasAnEvent: what a service may log at level info and above is in the list, once, and
// the list has nothing else.
func TestEveryLineHasAnEvent(t *testing.T) {
	used := map[string]int{}
	for _, text := range logged(t) {
		of := 0
		for _, e := range events {
			if strings.HasPrefix(text, e.begins) {
				used[e.begins]++
				of++
			}
		}
		if of != 1 {
			t.Errorf("%d events for the line %q: give it one in this package's list, and say in "+
				"deploy/EVENTS.md what it means", of, text)
		}
	}
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	for _, e := range events {
		if used[e.begins] == 0 {
			t.Errorf("no line begins with %q", e.begins)
		}
		if !name.MatchString(e.name) || e.name == OtherEvent {
			t.Errorf("%q is no name of an event", e.name)
		}
	}
	if len(used) < 40 {
		t.Errorf("only %d lines were found", len(used))
	}
}

// TestEventsAreExplained: deploy/EVENTS.md lists the same events, in the same order.
func TestEventsAreExplained(t *testing.T) {
	text, err := os.ReadFile(root + "/deploy/EVENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, e := range events {
		if len(want) == 0 || want[len(want)-1] != e.name {
			want = append(want, e.name)
		}
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (?:info|warn|error|info, warn) " +
		"\\| \\S.* \\|$")
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		got = append(got, found[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("deploy/EVENTS.md lists\n%q\nwant\n%q", got, want)
	}
}

// TestNameEvents: lines of level info and above get their event before their other attributes, and
// lines below pass as they are.
func TestNameEvents(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NameEvents(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	log.Info("started", "group", "fleet")
	log.With("partition", 3).Warn("transaction dropped", "records", 5)
	log.Debug("task moved", "to", "running")
	log.Error("something else")
	log.WithGroup("g").Info("stopped", "n", 1)
	want := `level=INFO msg=started event=started group=fleet
level=WARN msg="transaction dropped" partition=3 event=transaction_dropped records=5
level=DEBUG msg="task moved" to=running
level=ERROR msg="something else" event=other
level=INFO msg=stopped g.event=stopped g.n=1
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
