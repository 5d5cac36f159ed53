package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
)

// compose is the part of docker-compose.yml that is checked here.
type compose struct {
	Services map[string]struct {
		Image   string   `yaml:"image"`
		Command []string `yaml:"command"`
		Build   struct {
			Dockerfile string `yaml:"dockerfile"`
		} `yaml:"build"`
		Configs []struct {
			Source string `yaml:"source"`
		} `yaml:"configs"`
	} `yaml:"services"`
	Configs map[string]struct {
		File string `yaml:"file"`
	} `yaml:"configs"`
}

func readCompose(t *testing.T, tree fs.FS) compose {
	t.Helper()
	text, err := fs.ReadFile(tree, "docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestComposeFiles checks what the parser of "make containers" does not look at.
func TestComposeFiles(t *testing.T) {
	for _, broken := range composeTrouble(t, repository(t)) {
		t.Error(broken)
	}
	for planted, want := range map[string]string{
		"{image: 'x:1'}":                         "",
		"{image: x}":                             "x is of no fixed",
		"{image: 'x:latest'}":                    "x:latest is of no fixed",
		"{image: 'x:1', configs: [{source: f}]}": "",
		"{image: 'x:1'}}\nconfigs: {f: {file: docker-compose.yml}":               "nobody mounts f",
		"{image: 'x:1', configs: [{source: f}]}}\nconfigs: {f: {file: gone.yml}": "config f",
	} {
		planted = "services: {a: " + planted + "}"
		tree := fstest.MapFS{"docker-compose.yml": {Data: []byte(planted)}}
		mustComplain(t, composeTrouble(t, tree), want)
	}
}

// composeTrouble returns images without a fixed version, files that are not there, and files that
// no container mounts.
func composeTrouble(t *testing.T, tree fs.FS) (broken []string) {
	t.Helper()
	c := readCompose(t, tree)
	mounted := map[string]bool{}
	for name, service := range c.Services {
		_, version, _ := strings.Cut(service.Image, ":")
		if service.Image != "geodither" && (version == "" || strings.HasPrefix(version, "latest")) {
			broken = append(broken, fmt.Sprintf("service %s: the image %s is of no fixed version",
				name, service.Image))
		}
		for _, config := range service.Configs {
			mounted[config.Source] = true
		}
	}
	for name, config := range c.Configs {
		if _, err := fs.Stat(tree, config.File); err != nil {
			broken = append(broken, fmt.Sprintf("config %s: %v", name, err))
		}
		if !mounted[name] {
			broken = append(broken, "nobody mounts "+name)
		}
	}
	return broken
}

// plantedVersion is what the Dockerfile's build argument VERSION stands for in these tests.
const plantedVersion = "v0.0.0-planted"

// linkedVersion returns the linker flag by which the Dockerfile tells the binary its version.
func linkedVersion(t *testing.T, dockerfile string) string {
	t.Helper()
	flag := regexp.MustCompile(`-X [\w./-]+=\$VERSION\b`).FindString(dockerfile)
	if flag == "" {
		t.Fatal("the Dockerfile links no version")
	}
	return strings.ReplaceAll(flag, "$VERSION", plantedVersion)
}

// TestBuildFlags: "make build" names the commit, and the image and releases are built with the same
// flags, so a commit has the same bytes wherever it is built. The dry run builds nothing.
func TestBuildFlags(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("a copy without history has no version to name")
	}
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	revision := strings.TrimSpace(run("git", "rev-parse", "HEAD"))
	made := run("make", "-s", "-n", "-C", root, "build")
	if !strings.Contains(made, "cli.linkedRevision="+revision) ||
		!regexp.MustCompile(`cli\.linked=\S`).MatchString(made) {
		t.Errorf("the version and the commit %s are not in\n%s", revision, made)
	}
	made = run("make", "-s", "-n", "-C", root, "build", "VERSION=V", "REVISION=R", "GO=go")
	want := buildFlags(made)
	if len(want) != 7 {
		t.Fatalf("the test reads %q in\n%s", want, made)
	}
	image := strings.NewReplacer("$VERSION", "V", "$REVISION", "R", "\\\n", " ")
	release := strings.NewReplacer("v{{ .Version }}", "V", "{{ .Env.REVISION }}", "R")
	for file, names := range map[string]*strings.Replacer{
		"deploy/Dockerfile": image, ".goreleaser.yaml": release,
	} {
		text, err := fs.ReadFile(repository(t), file)
		if err != nil {
			t.Fatal(err)
		}
		if got := buildFlags(names.Replace(string(text))); !slices.Equal(got, want) {
			t.Errorf("%s builds with %q, make with %q", file, got, want)
		}
	}
}

// buildFlags are the settings of the go command and of its linker in a text that decide about the
// bytes of a build, sorted; tags are not among them.
func buildFlags(text string) []string {
	flag := regexp.MustCompile(
		`CGO_ENABLED=0|-trimpath|-buildvcs=\w+|-s -w|-X [\w./-]+=\w+|ldflags`)
	found := flag.FindAllString(text, -1)
	slices.Sort(found)
	return found
}

// TestCommand holds the files to the command as it is.
func TestCommand(t *testing.T) {
	dockerfile, err := fs.ReadFile(repository(t), "deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "geodither")
	build := exec.Command("go", "build", "-ldflags", linkedVersion(t, string(dockerfile)),
		"-o", binary, "../../geodither")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("version", func(t *testing.T) {
		out, err := exec.Command(binary, "version").Output()
		want := "geodither " + plantedVersion + "\n"
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("an image says %q (%v), want %q first", out, err, want)
		}
	})
	t.Run("compose", func(t *testing.T) { testCompose(t, binary) })
	t.Run("configs", func(t *testing.T) { testConfigs(t, binary) })
}

// testCompose looks at each service of ours: the sub-command exists and has the
// flags that are given.
func testCompose(t *testing.T, binary string) {
	t.Helper()
	found := 0
	for name, service := range readCompose(t, repository(t)).Services {
		if service.Image != "geodither" {
			continue
		}
		found++
		if err := knows(binary, service.Command); err != nil {
			t.Errorf("service %s: %v", name, err)
		}
	}
	if found < 3 {
		t.Errorf("found %d services of the image geodither: the test reads the file wrongly", found)
	}
	for _, planted := range [][]string{
		{"produce", "--topics=x"},
		{"prodduce", "--topic=x"},
		{"train", "--in=x", "--boxes=1,2,3,4"},
		nil,
	} {
		if knows(binary, planted) == nil {
			t.Errorf("planted command %q passes", planted)
		}
	}
}

// testConfigs gives every example config to the command's own reader: it must
// get past the settings, to the model that is not there.
func testConfigs(t *testing.T, binary string) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	files := []string{"deploy/geodither.yml"}
	files = append(files, readCompose(t, repository(t)).Configs["geodither"].File)
	planted := filepath.Join(t.TempDir(), "planted.yml")
	if err := os.WriteFile(planted, []byte("brokers: [kafka:9092]\ngruop: geodither\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got := settingsError(binary, "run", planted); got == "" {
		t.Error("a misspelt setting passes")
	}
	for _, file := range files {
		if got := settingsError(binary, "run", filepath.Join(root, file)); got != "" {
			t.Errorf("%s: %s", file, got)
		}
	}
	if got := settingsError(binary, "counts serve", filepath.Join(root, files[1])); got != "" {
		t.Errorf("counts: %s", got)
	}
}

var noModel = regexp.MustCompile(`model: .*no such file`)

// settingsError returns what a service says of a config, "" if that is only that
// the model is missing.
func settingsError(binary, command, file string) string {
	args := append(strings.Fields(command), "-c", file)
	out, err := exec.Command(binary, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && noModel.Match(out) {
		return ""
	}
	return fmt.Sprintf("%v: %s", err, out)
}

var flagName = regexp.MustCompile(`--[a-z][a-z-]*`)

// knows asks the command for help on its sub-command and looks for every flag.
func knows(binary string, command []string) error {
	if len(command) == 0 {
		return errors.New("no command")
	}
	words := 1 // of the command's name
	for words < len(command) && !strings.HasPrefix(command[words], "-") {
		words++
	}
	path := strings.Join(command[:words], " ")
	help, err := exec.Command(binary, append(command[:words:words], "--help")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s --help: %w", path, err)
	}
	if !bytes.Contains(help, []byte("geodither "+path)) {
		return fmt.Errorf("there is no command %s", path)
	}
	flags := flagName.FindAllString(string(help), -1)
	for _, arg := range command[words:] {
		name := flagName.FindString(arg)
		if name == "" || !strings.HasPrefix(arg, name) {
			return fmt.Errorf("argument %q is no flag", arg)
		}
		if !slices.Contains(flags, name) {
			return fmt.Errorf("%s has no flag %s", path, name)
		}
	}
	return nil
}

// TestDockerfile checks that what the image is built from is in the tree and
// gets past .dockerignore.
func TestDockerfile(t *testing.T) {
	tree := repository(t)
	for name, service := range readCompose(t, tree).Services {
		if file := service.Build.Dockerfile; file != "" {
			if _, err := fs.Stat(tree, file); err != nil {
				t.Errorf("service %s: %v", name, err)
			}
		}
	}
	for _, broken := range missingSources(t, tree) {
		t.Error(broken)
	}
	for planted, want := range map[string]string{
		"COPY go.mod gone.sum ./": "gone.sum", "COPY deploy /x": "deploy",
		"COPY --from=build /out /x": "",
	} {
		tree := fstest.MapFS{
			"deploy/Dockerfile": {Data: []byte("FROM scratch\n" + planted + "\n")},
			".dockerignore":     {Data: []byte("# all but\n*\n!go.mod\n!gone.sum\n")},
			"go.mod":            {},
		}
		mustComplain(t, missingSources(t, tree), want)
	}
}

// missingSources returns the sources of COPY that are not in the build context.
// It knows the form of .dockerignore used here: nothing but what is named.
func missingSources(t *testing.T, tree fs.FS) (broken []string) {
	t.Helper()
	ignore, err := fs.ReadFile(tree, ".dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(ignore), "\n")
	if !slices.Contains(lines, "*") {
		t.Fatal(".dockerignore no longer begins with nothing")
	}
	dockerfile, err := fs.ReadFile(tree, "deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(dockerfile)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "COPY" || strings.HasPrefix(words[1], "--from") {
			continue
		}
		for _, source := range words[1 : len(words)-1] {
			first, _, _ := strings.Cut(path.Clean(source), "/")
			if _, err := fs.Stat(tree, path.Clean(source)); err != nil {
				broken = append(broken, fmt.Sprintf("Dockerfile copies %s: %v", source, err))
			} else if source != "." && !slices.Contains(lines, "!"+first) {
				broken = append(broken,
					fmt.Sprintf("Dockerfile copies %s, which .dockerignore leaves out", source))
			}
		}
	}
	return broken
}
