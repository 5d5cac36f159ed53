package sanitize

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/traces"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// days are the town's fixes of many days, one user after another.
func days(n int64) []schemas.Raw {
	var fixes []schemas.Raw
	for day := range n {
		for _, fix := range servicetest.TownFixes() {
			fix.Timestamp += day * 86_400_000
			fixes = append(fixes, fix)
		}
	}
	slices.SortStableFunc(fixes, func(a, b schemas.Raw) int {
		return strings.Compare(a.UserID, b.UserID)
	})
	return fixes
}

// doJob is how a worker does a job.
type doJob = func(ctx context.Context, worker int, j *job)

// ran is what came of a run.
type ran struct {
	lines   string
	err     error
	summary Summary
}

// runOn sanitizes fixes on so many cores. wrap, if not nil, stands around each job.
func runOn(
	t *testing.T, cores int, fixes []schemas.Raw, brief bool,
	wrap func(do doJob) doJob,
) ran {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	model, err := servicetest.TownModel()
	if err != nil {
		t.Fatal(err)
	}
	reader, err := traces.Open(t.Context(), []string{"-"},
		strings.NewReader(servicetest.TownCSV(fixes)),
		traces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	out, err := files.NewOutput("-", &lines)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Settings{Settings: engine.Settings{
		Model: model, Key: noise.KeyFromSeed(1 << 40),
		Release: mechanism.Options{Mechanism: law.Codebook, Epsilon: 1},
	}, Brief: brief}, out)
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		r.do = wrap(r.do)
	}
	err = r.All(t.Context(), reader, cli.NewProgress(io.Discard, reader.Progress))
	if closing := out.Close(); closing != nil {
		t.Fatal(closing)
	}
	if err == nil {
		if err := r.LookBack(t.Context(), cli.NewProgress(io.Discard, nil)); err != nil {
			t.Fatal(err)
		}
	}
	s := r.Summary(reader.Skips())
	s.MicrosPerFix = 0
	return ran{lines.String(), err, s}
}

// TestWorkersMeet: two workers are at work at the same time, on different users. The first fix of
// each of the first two users waits for the other one's.
func TestWorkersMeet(t *testing.T) {
	fixes := days(20)
	want := runOn(t, 1, fixes, false, nil)
	met := map[string]chan struct{}{"0": make(chan struct{}), "1": make(chan struct{})}
	other := map[string]string{"0": "1", "1": "0"}
	var mu sync.Mutex
	begun, workers := map[string]bool{}, map[int]bool{}
	got := runOn(t, 2, fixes, false, func(do doJob) doJob {
		return func(ctx context.Context, worker int, j *job) {
			user := j.Fix.UserID
			mu.Lock()
			first := !begun[user] && met[user] != nil
			begun[user], workers[worker] = true, true
			mu.Unlock()
			if first {
				close(met[user])
				<-met[other[user]]
			}
			do(ctx, worker, j)
		}
	})
	if got.err != nil || want.err != nil || len(workers) != 2 {
		t.Errorf("%d workers; errors %v and %v", len(workers), got.err, want.err)
	}
	if got.lines != want.lines || strings.Count(got.lines, "\n") < len(fixes) {
		t.Error("two workers make other records than one")
	}
}

// TestFirstErrorEnds: the first error in the order of the input ends the run, after the records
// before it, though another user's fix has failed earlier.
func TestFirstErrorEnds(t *testing.T) {
	fixes := days(20)
	whole := runOn(t, 1, fixes, true, nil)
	first, later := errors.New("first"), errors.New("later")
	const at = 2_500 // of a user who is neither the first nor the last
	for _, cores := range []int{1, 2, 8} {
		var late sync.WaitGroup // the later failure comes first, where more than one core works
		if cores > 1 {
			late.Add(1)
		}
		got := runOn(t, cores, fixes, true, func(do doJob) doJob {
			return func(ctx context.Context, worker int, j *job) {
				switch {
				case same(j.Fix, fixes[at]):
					late.Wait()
					j.user.failed, j.err = true, first
				case same(j.Fix, fixes[len(fixes)-1]):
					j.user.failed, j.err = true, later
					if cores > 1 {
						late.Done()
					}
				default:
					do(ctx, worker, j)
				}
			}
		})
		if want := linesOf(whole.lines, at+1); !errors.Is(got.err, first) || got.lines != want {
			t.Errorf("%d cores: error %v after %d of %d records", cores, got.err,
				strings.Count(got.lines, "\n"), strings.Count(want, "\n"))
		}
	}
}

// same says whether two fixes are one. Their places went through a file.
func same(a, b schemas.Raw) bool { return a.UserID == b.UserID && a.Timestamp == b.Timestamp }

// linesOf returns the first n lines of a text.
func linesOf(text string, n int) string {
	return strings.Join(strings.SplitAfterN(text, "\n", n+1)[:n], "")
}

// TestLookBackOnAnyCores: what the records show of the past does not depend on the cores.
func TestLookBackOnAnyCores(t *testing.T) {
	fixes := days(3)
	one, many := runOn(t, 1, fixes, false, nil), runOn(t, 5, fixes, false, nil)
	if *one.summary.Past != *many.summary.Past || one.summary.All.Mean == 0 {
		t.Errorf("%+v on one core, %+v on five", one.summary.Past, many.summary.Past)
	}
}

// TestBrief: a brief run has the same records, and its summary lacks only what a report adds.
func TestBrief(t *testing.T) {
	fixes := days(2)
	whole, brief := runOn(t, 2, fixes, false, nil), runOn(t, 2, fixes, true, nil)
	if whole.lines != brief.lines {
		t.Error("a brief run has other records")
	}
	if whole.summary.Blind.Mean <= 0 || whole.summary.All.Mean <= 0 || brief.summary.Past != nil {
		t.Errorf("nothing was measured: %+v", whole.summary)
	}
	want := whole.summary
	want.Past = nil
	var one, other bytes.Buffer
	want.Print(&one, new(traces.Skips))
	brief.summary.Print(&other, new(traces.Skips))
	if one.String() != other.String() || strings.Contains(other.String(), "smoothed") {
		t.Errorf("the summaries are\n%s\n%s", &one, &other)
	}
}
