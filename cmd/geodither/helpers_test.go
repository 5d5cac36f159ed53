package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/fleet"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/schemas"
)

// result is what a command line left behind.
type result struct {
	code     int
	out, err string
}

// fewTracks is how many tracks commands simulate in tests.
const fewTracks = 4

// call runs one command line with nothing on its standard input.
func call(t *testing.T, args ...string) result {
	t.Helper()
	return callWith(t, "", args...)
}

// callWith runs one command line on an input.
func callWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, log bytes.Buffer
	code := run(t.Context(), varied(args), cli.Streams{
		In: strings.NewReader(stdin), Out: &out, Err: &log, Tracks: fewTracks,
	})
	return result{code, out.String(), log.String()}
}

// varied leaves out each flag that comes again later: tests vary a command line by more flags. The
// program itself refuses such a line (TestFlagsOnce).
func varied(args []string) (kept []string) {
	cmd, _, err := newRoot(cli.Streams{}).Find(args)
	if err != nil {
		return args
	}
	dropped := map[int]bool{}
	words := map[string][2]int{} // of the last use of a flag
	for i := 0; i < len(args); i++ {
		name, _, assigned := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		f := cmd.Flags().Lookup(name)
		if f == nil || name == args[i] {
			continue
		}
		from, to := i, i+1
		if !assigned && f.NoOptDefVal == "" {
			to, i = i+2, i+1
		}
		if old, there := words[name]; there && !cli.Repeatable(f) {
			for at := old[0]; at < old[1]; at++ {
				dropped[at] = true
			}
		}
		words[name] = [2]int{from, to}
	}
	for i, word := range args {
		if !dropped[i] {
			kept = append(kept, word)
		}
	}
	return kept
}

// succeed runs one command line that has to end well.
func succeed(t *testing.T, args ...string) result {
	t.Helper()
	r := call(t, args...)
	if r.code != cli.ExitDone {
		t.Fatalf("geodither %s: exit %d\n%s", strings.Join(args, " "), r.code, r.err)
	}
	return r
}

// background is a command line that runs beside the test.
type background struct {
	interrupt context.CancelFunc
	out, log  *shared
	code      chan int
}

// start runs a command line beside the test; it is interrupted and waited for
// at the test's end.
func start(t *testing.T, stdin io.Reader, args ...string) *background {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b := &background{interrupt: cancel, out: new(shared), log: new(shared), code: make(chan int, 1)}
	go func() {
		b.code <- run(ctx, varied(args), cli.Streams{
			In: stdin, Out: b.out, Err: b.log, Tracks: fewTracks,
		})
		close(b.code)
	}()
	t.Cleanup(func() { b.stop(t) })
	return b
}

// stop interrupts the command and returns its exit code, 0 the second time.
func (b *background) stop(t *testing.T) int {
	t.Helper()
	b.interrupt()
	return b.wait(t)
}

// wait returns the exit code of a command that ends by itself.
func (b *background) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-b.code:
		return code
	case <-time.After(patience):
		t.Fatalf("the command does not end\n%s", b.log)
		return -1
	}
}

// shared is a buffer that is written and read at the same time.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// patience is how long a test waits for what must come: long enough for a loaded
// machine under the race detector.
const patience = 5 * time.Minute

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// write puts a file into a folder and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// names lists a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// townMap are the flags that name the town's map and step.
var townMap = []string{
	"--box", servicetest.TownBox, "--cell", servicetest.TownCell, "--step", servicetest.TownStep,
}

// townTraining are the arguments that train a model on the town's map.
func townTraining(in, out string, more ...string) []string {
	return slices.Concat([]string{"train", "--in", in, "--out", out}, townMap, more)
}

// townFiles writes the town's traces and a model of them, and returns their paths.
func townFiles(t *testing.T, dir string) (traces, model string) {
	t.Helper()
	traces, model = write(t, dir, "traces.csv", servicetest.TownCSV(servicetest.TownFixes())),
		filepath.Join(dir, "model.avro")
	succeed(t, townTraining(traces, model)...)
	return traces, model
}

// startBroker returns the address of an embedded broker.
func startBroker(t *testing.T) string {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	return broker.Addr()
}

// requireMessage requires an exit code, and words of a message that says what is
// wrong and what to do.
func requireMessage(t *testing.T, r result, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit %d, want %d\n%s", r.code, code, r.err)
	}
	if r.out != "" {
		t.Errorf("a failure printed to standard output: %q", r.out)
	}
	if !strings.HasPrefix(r.err, "geodither: ") {
		t.Errorf("%q does not begin with the command's name", r.err)
	}
	if code == cli.ExitUsage && !strings.Contains(r.err, `--help"`) {
		t.Errorf("%q does not point to the help", r.err)
	}
	for _, word := range words {
		if !strings.Contains(r.err, word) {
			t.Errorf("%q does not say %q", r.err, word)
		}
	}
}

func kafkaClient(broker string) *kafka.Client { return kafkaconn.NewClient([]string{broker}) }

// pipe is a pair of files, as a shell makes it.
func pipe(t *testing.T) (from, to *os.File) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		to.Close()
		from.Close()
	})
	return from, to
}

// townModel is the model of the town.
func townModel(t *testing.T) *mobility.Model {
	t.Helper()
	model, err := servicetest.TownModel()
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// withConfig writes a config with some lines, and returns the flag that names it.
func withConfig(t *testing.T, lines ...string) []string {
	t.Helper()
	return []string{"-c", write(t, t.TempDir(), "settings.yml", strings.Join(lines, "\n")+"\n")}
}

// sampleFleet returns the fixes of the shipped sample and the model that they make.
func sampleFleet(t *testing.T) ([]schemas.Raw, *mobility.Model) {
	t.Helper()
	fixes, err := fleet.Sample()
	if err != nil {
		t.Fatal(err)
	}
	model, err := fleet.SampleModel(fixes)
	if err != nil {
		t.Fatal(err)
	}
	return fixes, model
}
