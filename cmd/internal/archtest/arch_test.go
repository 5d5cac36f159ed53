package archtest

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// repository is the tree that this test stands in.
func repository(t *testing.T) fs.FS {
	t.Helper()
	root := os.DirFS("../../..")
	if _, err := fs.Stat(root, "go.mod"); err != nil {
		t.Fatal(err)
	}
	return root
}

func parsed(t *testing.T, tree fs.FS) []source {
	t.Helper()
	files, err := sources(tree)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestImports(t *testing.T) {
	files := parsed(t, repository(t))
	for _, broken := range imports(files, table) {
		t.Error(broken)
	}
}

func TestRawFields(t *testing.T) {
	for _, broken := range rawFields(parsed(t, repository(t)), mayKeepRaw) {
		t.Error(broken)
	}
}

func TestTopLevel(t *testing.T) {
	broken, err := strangers(repository(t), topLevel)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

// TestTable holds the table to its principle: no mathematics below the
// plumbing, no plumbing below the mathematics.
func TestTable(t *testing.T) {
	for pkg, rule := range table {
		mathematics := strings.HasPrefix(pkg+"/", "mechanism/")
		if mathematics != rule.pure {
			t.Errorf("%s: pure is %t", pkg, rule.pure)
		}
		for _, imported := range rule.ours {
			if _, ok := table[imported]; !ok {
				t.Errorf("%s may import %s, which is not in the table", pkg, imported)
			}
			if strings.HasPrefix(pkg, "cmd/") {
				continue
			}
			if mathematics != strings.HasPrefix(imported+"/", "mechanism/") {
				t.Errorf("%s may import %s: mathematics and plumbing meet in cmd only",
					pkg, imported)
			}
		}
	}
}

// goFile is a file that imports some paths.
func goFile(body string, paths ...string) *fstest.MapFile {
	var b strings.Builder
	b.WriteString("package p\n")
	for _, p := range paths {
		b.WriteString("import _ \"" + p + "\"\n")
	}
	return &fstest.MapFile{Data: []byte(b.String() + body)}
}

// TestPlantedImports plants one fault at a time in a tree that is otherwise
// sound, and names what the test must say of it.
func TestPlantedImports(t *testing.T) {
	rules := map[string]rule{
		"mechanism/grid": {ours: []string{"mechanism/convex"}, third: []string{gonum}, pure: true},
		"state":          {third: []string{pebble}, tests: []string{kfake}},
	}
	// Every permission is used.
	sound := func() fstest.MapFS {
		return fstest.MapFS{
			"mechanism/grid/doc.go": goFile("", module+"/mechanism/convex", gonum+"/gonum/mat"),
			"state/doc.go":          goFile("", pebble), "state/doc_test.go": goFile("", kfake),
		}
	}
	for _, test := range []struct {
		name, path string
		file       *fstest.MapFile
		want       string // part of the one complaint; "" for none
	}{
		{"nothing", "state/a.go", goFile("", "fmt", pebble, pebble+"/vfs"), ""},
		{"ours that is allowed", "mechanism/grid/a.go", goFile("", module+"/mechanism/convex"), ""},
		{"a test's own extra", "state/a_test.go", goFile("", kfake), ""},
		{"a test's own package", "state/a_test.go", goFile("", module+"/state"), ""},
		{
			"plumbing in mathematics", "mechanism/grid/a.go", goFile("", module+"/schemas"),
			"must not import " + module + "/schemas",
		},
		{
			"mathematics in plumbing", "state/a.go", goFile("", module+"/mechanism"),
			"must not import " + module + "/mechanism",
		},
		{"another's module", "state/a.go", goFile("", gonum+"/gonum/mat"), "must not import gonum"},
		{
			"a module of like name", "state/a.go", goFile("", pebble+"fork"),
			"must not import " + pebble + "fork",
		},
		{
			"a test's extra outside tests", "state/a.go", goFile("", kfake),
			"must not import " + kfake,
		},
		{
			"another's module in a test", "state/a_test.go", goFile("", gonum),
			"must not import gonum",
		},
		{
			"its own package", "state/a.go", goFile("", module+"/state"),
			"must not import " + module + "/state",
		},
		{"behind a build constraint", "state/a_plan9.go", &fstest.MapFile{
			Data: []byte("//go:build never\n\npackage state\n\nimport _ \"" + gonum + "\"\n"),
		}, "must not import gonum"},
		{"logging in mathematics", "mechanism/grid/a.go", goFile("", "log"), "must not import log"},
		{"redaction in mathematics", "mechanism/grid/a.go", goFile("", "log/slog"), ""},
		{
			"network in mathematics", "mechanism/grid/a.go", goFile("", "net/http"),
			"must not import net/http",
		},
		{"superseded", "state/a.go", goFile("", "math/rand"), "must not import math/rand"},
		{"unlisted", "state/deep/a.go", goFile(""), "package state/deep is not in the table"},
		{
			"unlisted, tests only", "deploy/a_test.go", goFile(""),
			"package deploy is not in the table",
		},
		{"at the root", "a.go", goFile(""), "package . is not in the table"},
		{"in testdata", "state/testdata/a.go", goFile("", gonum), ""},
		{"in a hidden folder", ".cache/a.go", goFile(""), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := sound()
			tree[test.path] = test.file
			mustComplain(t, imports(parsed(t, tree), rules), test.want)
		})
	}
	t.Run("listed, but gone", func(t *testing.T) {
		tree := sound()
		delete(tree, "mechanism/grid/doc.go")
		mustComplain(t, imports(parsed(t, tree), rules),
			"mechanism/grid is in the table, but not in the tree")
	})
}

// TestPlantedUnused plants one permission at a time that nobody uses.
func TestPlantedUnused(t *testing.T) {
	tree := fstest.MapFS{
		"state/a.go":      goFile("", module+"/schemas", pebble+"/vfs"),
		"state/a_test.go": goFile("", module+"/schemas", module+"/producer", pebble, kfake, gonum),
	}
	files := parsed(t, tree)
	for _, test := range []struct {
		name string
		rule rule
		want string
	}{
		{"all used", rule{}, ""},
		{
			"ours",
			rule{ours: []string{"consumer"}},
			"does not import consumer outside of tests: remove it from ours",
		},
		{
			"third",
			rule{third: []string{franz + "/pkg/kmsg"}},
			"does not import " + franz + "/pkg/kmsg outside",
		},
		{"tests", rule{tests: []string{"consumer"}}, "no test of state needs consumer"},
		{"twice in one list", rule{ours: []string{"schemas"}}, "lists schemas twice"},
		{"allowed to all and to tests", rule{tests: []string{"schemas"}}, "lists schemas twice"},
		{
			"a module and its part",
			rule{tests: []string{pebble + "/vfs"}},
			"no test of state needs " + pebble + "/vfs",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules := map[string]rule{"state": {
				ours:  append([]string{"schemas"}, test.rule.ours...),
				third: append([]string{pebble}, test.rule.third...),
				tests: append([]string{"producer", kfake, gonum}, test.rule.tests...),
			}}
			mustComplain(t, imports(files, rules), test.want)
		})
	}
	for name, rules := range map[string]rule{
		"ours that only tests use": {
			ours: []string{"schemas", "producer"}, third: []string{pebble},
			tests: []string{kfake, gonum},
		},
		"third that only tests use": {
			ours: []string{"schemas"}, third: []string{pebble, gonum},
			tests: []string{"producer", kfake},
		},
	} {
		t.Run(name, func(t *testing.T) {
			mustComplain(t, imports(files, map[string]rule{"state": rules}),
				"outside of tests: remove it")
		})
	}
}

func mustComplain(t *testing.T, broken []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(broken) > 0:
		t.Errorf("complaints %q, want none", broken)
	case want != "" && (len(broken) != 1 || !strings.Contains(broken[0], want)):
		t.Errorf("complaints %q, want one with %q", broken, want)
	}
}

func TestPlantedRawFields(t *testing.T) {
	for _, test := range []struct{ name, path, body, want string }{
		{"value", "state/a.go", "type t struct{ last schemas.Raw }", "field last"},
		{
			"map of slices of pointers", "state/a.go",
			"type t struct{ byUser map[string][]*schemas.Raw }", "field byUser",
		},
		{"nested", "state/a.go", "type t struct{ In struct{ fix schemas.Raw } }", "field fix"},
		{"in schemas itself", "schemas/a.go", "type t struct{ last Raw }", "field last"},
		{"exported", "state/a.go", "type t struct{ Last schemas.Raw }", ""},
		{"embedded", "state/a.go", "type t struct{ schemas.Raw }", ""},
		{"function", "state/a.go", "type t struct{ decode func([]byte) schemas.Raw }", ""},
		{"another Raw", "state/a.go", "type t struct{ last wire.Raw }", ""},
		{"test", "state/a_test.go", "type t struct{ last schemas.Raw }", ""},
		{"exempt", "cmd/geodither/a.go", "type t struct{ last schemas.Raw }", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			tree := fstest.MapFS{
				"cmd/geodither/doc.go": goFile("type t struct{ first schemas.Raw }"),
				test.path:              goFile(test.body),
			}
			mustComplain(t, rawFields(parsed(t, tree), []string{"cmd/geodither"}), test.want)
		})
	}
	t.Run("exempt without need", func(t *testing.T) {
		tree := fstest.MapFS{"state/a.go": goFile("type t struct{ Last schemas.Raw }")}
		mustComplain(t, rawFields(parsed(t, tree), []string{"state"}),
			"no field of state keeps a raw fix")
	})
}

func TestPlantedStrangers(t *testing.T) {
	allowed := []string{"go.mod", "README.md"}
	for name, want := range map[string]string{
		"": "", ".golangci.yml": "", "bin/x": "", "cpu.prof": "",
		"NOTES.md": "NOTES.md: nothing but", "internal/x": "internal: nothing but",
	} {
		tree := fstest.MapFS{
			".gitignore": {Data: []byte("/bin/\n*.prof\n")}, "go.mod": {}, "README.md": {},
		}
		if name != "" {
			tree[name] = &fstest.MapFile{}
		}
		broken, err := strangers(tree, allowed)
		if err != nil {
			t.Fatal(err)
		}
		mustComplain(t, broken, want)
	}
	broken, err := strangers(fstest.MapFS{".gitignore": {}, "go.mod": {}}, allowed)
	if err != nil {
		t.Fatal(err)
	}
	mustComplain(t, broken, "README.md: allowed at the root, but not there")
}
