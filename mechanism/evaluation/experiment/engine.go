package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/parallel"
)

// revision goes up whenever a piece of the same name and inputs would give other results.
const revision = 1

// Tick tells that some of a piece's work is done. Its error ends the piece.
type Tick func(work int64) error

// Piece is work whose result is a function of its name and inputs alone.
type Piece struct {
	// Name is unique within a study, and says what is measured. Experiments that share a piece
	// share its result.
	Name string
	// Inputs are what else the result depends on: the data's id, the seed, options. A stored result
	// is taken if name, inputs, program and revision are the same.
	Inputs string
	// Work is about how much there is to do, in steps of a filter.
	Work int64
	// Run returns the result, which goes through JSON.
	Run func(Tick) (any, error)
}

// Key is under what a result is stored.
func (p *Piece) Key(tool string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "geodither piece %d %d\n%s\n%s\n%s",
		revision, mechanism.Version, tool, p.Name, p.Inputs))
	return hex.EncodeToString(sum[:12])
}

// Results are the results of a study's pieces, each in JSON by its piece's name.
type Results map[string]json.RawMessage

// Get reads the result of a piece into v.
func (r Results) Get(name string, v any) error {
	data, ok := r[name]
	if !ok {
		return fmt.Errorf("experiment: no result of %q: its experiment has not planned it", name)
	}
	return json.Unmarshal(data, v)
}

// Run says how a study is carried out. Its results do not depend on it.
type Run struct {
	Workers int // goroutines, default one
	// Folder keeps the results of finished pieces, a file each; empty: nothing is kept. The files
	// hold what the pieces have measured of the truth: only their owner may read them.
	Folder string
	// Progress, if set, is told now and then how much is done, one call at a time. Its error ends
	// the study.
	Progress func(Progress) error
}

// Progress is how far a study has come.
type Progress struct {
	Done, Total int64 // work, in steps of a filter, without what was kept
	Pieces      int   // of them
	Kept        int   // pieces whose results were taken from the folder
	Finished    int   // pieces that have been measured
}

// engine is the pieces of a study being worked off.
type engine struct {
	run      Run
	tool     string
	mu       sync.Mutex
	progress Progress
	results  Results
	stopped  error
}

// Measure measures what the experiments need. What was measured before an error stays in the
// folder.
func (s *Study) Measure(experiments []Experiment, r Run) (Results, error) {
	var pieces []Piece
	planned := map[string]bool{}
	for _, e := range experiments {
		for _, p := range e.Plan(s) {
			if !planned[p.Name] {
				planned[p.Name] = true
				pieces = append(pieces, p)
			}
		}
	}
	return carry(pieces, s.Options.Tool, r)
}

func carry(pieces []Piece, tool string, r Run) (Results, error) {
	e := &engine{run: r, tool: tool, results: Results{}}
	e.progress.Pieces = len(pieces)
	if r.Folder != "" {
		if err := os.MkdirAll(r.Folder, 0o700); err != nil {
			return nil, err
		}
	}
	var missing []Piece
	for _, p := range pieces {
		// A result that cannot be read is measured again.
		if data, err := os.ReadFile(e.file(&p)); err == nil && json.Valid(data) {
			e.results[p.Name] = data
			e.progress.Kept++
			continue
		}
		missing = append(missing, p)
		e.progress.Total += p.Work
	}
	if err := e.tell(0); err != nil {
		return nil, err
	}
	err := parallel.Pool{Workers: r.Workers}.Do(len(missing), func(int) func(*parallel.Task) error {
		return func(t *parallel.Task) error { return e.measure(&missing[t.Number], t) }
	})
	return e.results, err
}

// file is where a result is kept, nowhere without a folder.
func (e *engine) file(p *Piece) string {
	if e.run.Folder == "" {
		return ""
	}
	return filepath.Join(e.run.Folder, p.Key(e.tool)+".json")
}

// errBehind ends a piece behind one that has failed. Nobody sees it.
var errBehind = errors.New("experiment: an earlier piece has failed")

func (e *engine) measure(p *Piece, t *parallel.Task) error {
	var done int64
	got, err := p.Run(func(work int64) error {
		if t.Stopped() {
			return errBehind
		}
		// What a piece does beyond its estimate is not counted, nor what is missing from it.
		work = min(work, p.Work-done)
		done += work
		return e.tell(work)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	data, err := json.Marshal(got)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	e.mu.Lock()
	e.results[p.Name] = data
	e.progress.Finished++
	if e.run.Folder != "" {
		err = report.Save(e.file(p), data)
	}
	e.mu.Unlock()
	return errors.Join(err, e.tell(p.Work-done))
}

// tell adds to what is done, and returns what ends the study.
func (e *engine) tell(work int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress.Done += work
	if e.stopped == nil && e.run.Progress != nil {
		e.stopped = e.run.Progress(e.progress)
	}
	return e.stopped
}
