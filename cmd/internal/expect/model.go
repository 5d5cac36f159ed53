package expect

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/trial"
)

// Model is what a model holds and how it was made, as "model inspect" prints it.
type Model struct {
	ID          string   `json:"id"`
	FileBytes   int64    `json:"file_bytes,omitempty"`
	MemoryBytes int64    `json:"memory_bytes"`
	Grid        string   `json:"grid_id"`
	Plain       bool     `json:"plain,omitempty"` // the grid has no place on Earth
	Box         grid.Box `json:"box"`
	Width       int      `json:"width"`
	Height      int      `json:"height"`
	CellM       float64  `json:"cell_m"`
	Distortion  float64  `json:"distortion"` // of map distances, relative, at most
	StepSeconds float64  `json:"step_seconds"`
	Transitions int      `json:"transitions"`
	// mean probability of staying in a cell for a step
	StayMean    float64 `json:"stay_mean"`
	InitialBits float64 `json:"initial_entropy_bits"` // entropy of the initial distribution
	// entropy of one step, averaged over the initial distribution
	StepBits float64 `json:"step_entropy_bits"`
	Initial  int     `json:"initial_cells"` // cells of positive initial probability

	Gaps       []Gap               `json:"gaps,omitempty"` // the law of gaps; empty: there is none
	Calendar   string              `json:"calendar"`
	Classes    []Class             `json:"classes"`
	Provenance mobility.Provenance `json:"provenance"`
	Private    bool                `json:"differentially_private"`
	Fit        *mobility.Fit       `json:"fit,omitempty"`        // nil: not measured
	Verdict    []string            `json:"verdict,omitempty"`    // on the fit, in words
	Suspicious []trial.Remark      `json:"suspicious,omitempty"` // why releases may disappoint
	Expected   *Summary            `json:"expected,omitempty"`
}

// Class is one class of a model's calendar. Means are over the hours of a week that belong to
// it.
type Class struct {
	Name        string  `json:"name"`
	Hours       int     `json:"hours_a_week"`
	Transitions int     `json:"transitions"`
	StayMean    float64 `json:"stay_mean"`
	StepBits    float64 `json:"step_entropy_bits"`
}

// Describe takes a few passes over the model.
func Describe(m *mobility.Model) Model {
	cells := m.Grid.Cells()
	s := Model{
		ID: m.ID(), Grid: m.Grid.ID(), Plain: m.Grid.IsPlain(), Box: m.Grid.Box(),
		Width: m.Grid.Width(), Height: m.Grid.Height(), CellM: m.Grid.CellKM() * 1000,
		Distortion: m.Grid.Distortion(), StepSeconds: m.Step.Seconds(),
		Transitions: m.Transitions(), InitialBits: entropy(m.Initial.P), Initial: m.Initial.Len(),
		Calendar: m.Calendar.String(), Provenance: m.Provenance,
		Private: m.Provenance.Privacy != nil,
		Fit:     m.Provenance.Fit, Gaps: gapsOf(m.Gaps), Suspicious: trial.CheckModel(m),
		MemoryBytes: 12*int64(m.Transitions()+m.Initial.Len()) +
			16*int64(len(m.Matrices)*(cells+1)),
	}
	if s.Fit != nil {
		s.Verdict = trial.FitVerdict(*s.Fit)
	}
	s.Provenance.Fit = nil // once is enough
	s.Classes = classesOf(m)
	for _, c := range s.Classes {
		s.StayMean += c.StayMean * float64(c.Hours) / hoursAWeek
		s.StepBits += c.StepBits * float64(c.Hours) / hoursAWeek
	}
	return s
}

func classesOf(m *mobility.Model) []Class {
	classes := make([]Class, len(m.Matrices))
	for hour := range int64(hoursAWeek) {
		classes[m.Calendar.ClassAt(hour*3_600_000)].Hours++
	}
	var row mobility.Distribution
	for class, matrix := range m.Matrices {
		c := &classes[class]
		c.Name, c.Transitions = m.Calendar.ClassName(class), matrix.Transitions()
		for cell := range grid.Cell(m.Grid.Cells()) {
			m.Row(&row, class, cell)
			c.StayMean += row.At(cell) / float64(m.Grid.Cells())
		}
		for i, cell := range m.Initial.Cells {
			m.Row(&row, class, cell)
			c.StepBits += float64(m.Initial.P[i] * entropy(row.P))
		}
	}
	return classes
}

const hoursAWeek = 7 * 24

// entropy of a distribution in bits.
func entropy(p []float64) float64 {
	sum := 0.0
	for _, v := range p {
		if v > 0 {
			sum -= float64(v * math.Log2(v))
		}
	}
	return sum
}

// Gap is a row of a model's law of gaps, as "model inspect" shows it.
type Gap struct {
	From int64 `json:"from_steps"`
	To   int64 `json:"to_steps"`
	// Chain, Fewer and Anew sum to 1: a move in each step, fewer moves than steps, and a start from
	// the initial distribution.
	Chain float64 `json:"chain"`
	Fewer float64 `json:"fewer_moves"`
	Anew  float64 `json:"anew"`
	// MeanMoves is the mean number of moves where there were fewer than steps.
	MeanMoves float64 `json:"mean_moves"`
}

// gapsOf lists a model's law of gaps, nil if it has none.
func gapsOf(law mobility.GapLaw) (rows []Gap) {
	for i, w := range law {
		g := Gap{From: 1<<i + 1, To: 2 << i, Chain: w.Chain, Anew: w.Anew}
		for part, moves := range mobility.GapMoves {
			g.Fewer += w.Moves[part]
			g.MeanMoves += float64(w.Moves[part] * float64(moves))
		}
		if g.Fewer > 0 {
			g.MeanMoves /= g.Fewer
		}
		rows = append(rows, g)
	}
	return rows
}

// steps names the gaps of a row.
func (g Gap) steps() string {
	if g.From == g.To {
		return fmt.Sprintf("%d steps", g.To)
	}
	return fmt.Sprintf("%d to %d steps", g.From, g.To)
}

// shares puts the row's numbers into words.
func (g Gap) shares() string {
	var parts []string
	add := func(share float64, format string, args ...any) {
		if share > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %% ", 100*share)+fmt.Sprintf(format, args...))
		}
	}
	add(g.Chain, "a move a step")
	add(g.Fewer, "fewer moves (%.1f)", g.MeanMoves)
	add(g.Anew, "start over")
	return strings.Join(parts, ", ")
}

// Print prints the summary for a person.
func (s Model) Print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `model        %s
map          %d × %d cells of %.0f m; south %.5f, west %.5f, north %.5f, east %.5f
             map distances are off by at most %.2g %%
step         %gs
matrix       %d entries (%.1f a cell); a vehicle stays in its cell with probability %.2f on average
`,
		s.ID, s.Width, s.Height, s.CellM, s.Box.South, s.Box.West, s.Box.North, s.Box.East,
		100*s.Distortion, s.StepSeconds, s.Transitions,
		float64(s.Transitions)/float64(s.Width*s.Height), s.StayMean)
	if len(s.Classes) > 1 {
		fmt.Fprintf(&b, "classes      %s\n", s.Calendar)
		for _, c := range s.Classes {
			fmt.Fprintf(&b, "             %-26s %3d h a week, %d entries, stays %.2f, %.1f "+
				"bits a step\n", c.Name, c.Hours, c.Transitions, c.StayMean, c.StepBits)
		}
	}
	b.WriteString(gapLines(s.Gaps))
	fmt.Fprintf(&b,
		"uncertainty  %.1f bits at the start (as if %.0f cells were equally likely), %.1f bits "+
			`a step
size         %s in memory%s
source       %s
made by      %s
options      %s
trained on   %s
privacy      %s
`,
		s.InitialBits, math.Exp2(s.InitialBits), s.StepBits,
		cli.ByteSize(s.MemoryBytes), onDisk(s.FileBytes),
		s.Provenance.Source, s.Provenance.Tool, s.Provenance.Options,
		s.trainedOn(),
		privacyLine(s.Provenance.Privacy))
	if s.Fit != nil {
		PrintFit(&b, s.Fit, s.Verdict)
	} else {
		b.WriteString(s.unmeasured())
	}
	name := "suspicious"
	for _, r := range s.Suspicious {
		fmt.Fprintf(&b, "%-12s %s: %s\n", name, r.Name, r.Text)
		name = ""
	}
	if s.Expected != nil {
		fmt.Fprintf(&b, "\n%s", s.Expected)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// unmeasured says how the fit of a model is measured. That of a private one is measured on other
// people: on its own users it would tell about them what no ε covers.
func (s Model) unmeasured() string {
	if s.Private {
		return "fit          not measured: geodither model fit MODEL --in TRACES-OF-OTHERS " +
			"measures it\n"
	}
	return "fit          not measured: geodither model fit MODEL --in TRACES --held-out 0.1 " +
		"measures it\n"
}

// trainedOn sums up the traces behind the model. The file of a private model does not count them,
// which is not the same as none.
func (s Model) trainedOn() string {
	if s.Private {
		return "not told: counts of the traces are no part of a private model"
	}
	r := s.Provenance.Report
	return fmt.Sprintf("%s of %s (left out: %d outside the box, %d that another user reports "+
		"too), %s; %d of %d cells were seen",
		cli.Quantity(r.Fixes, "fix"), cli.Quantity(r.Users, "user"), r.OutsideBox, r.SharedFixes,
		cli.Quantity(r.Transitions, "transition"), r.CellsSeen, s.Width*s.Height)
}

// privacyLine says what anyone who has the model may learn about the traces.
func privacyLine(p *mobility.Privacy) string {
	if p == nil {
		return "learned without differential privacy: readers of this file learn about the " +
			"traces it was trained on"
	}
	return fmt.Sprintf("learned with differential privacy: ε = %s for each user's whole trace, "+
		"of which at most %d transitions count, within %d cells;\n             releases under it "+
		"cost their own ε", p.Epsilon, p.Contribution, p.Radius)
}

// PrintFit prints, in figures and words, how well a model predicts people that it was not trained
// on.
func PrintFit(b *strings.Builder, f *mobility.Fit, verdict []string) {
	fmt.Fprintf(b, "fit          on %s and %s, in stretches of at least %d",
		cli.Quantity(f.Users, "user"), cli.Quantity(f.Steps, "step"), f.Shortest)
	if f.Held != "" {
		fmt.Fprintf(b, " (%s)", f.Held)
	}
	fmt.Fprintf(b, "\n             log-likelihood a step %.2f (popularity alone %.2f, uniform "+
		"%.2f); %.2g %% of the moves are impossible under it\n",
		f.LogLikelihood, f.LogPopularity, f.LogUniform, 100*f.Impossible)
	if f.Epsilon > 0 {
		fmt.Fprintf(b, "             %s, ε = %g, δ = %g: error of the estimate %s on average, %s "+
			"in the median; %s %s and %s\n",
			f.Mechanism, f.Epsilon, f.Delta, cli.Metres(f.Estimate.Mean),
			cli.Metres(f.Estimate.Median), ModelAlone, cli.Metres(f.Blind.Mean),
			cli.Metres(f.Blind.Median))
	}
	curve := report.Table{Columns: []string{"δ", "drift", "95 % interval", "|ΔX|"}}
	for _, p := range f.Calibration {
		interval := fmt.Sprintf("%.4f to %.4f", p.Low, p.High)
		if p.Low == p.High {
			interval = "not known" // of few users, or of users who never drifted
		}
		curve.Add(p.Delta, fmt.Sprintf("%.4f", p.Drift), interval, fmt.Sprintf("%.1f", p.SetMean))
	}
	if len(curve.Rows) > 0 {
		printTable(b, &curve)
	}
	name := "verdict"
	for _, line := range verdict {
		fmt.Fprintf(b, "%-12s %s\n", name, line)
		name = ""
	}
}

func onDisk(size int64) string {
	if size == 0 {
		return ""
	}
	return ", " + cli.ByteSize(size) + " on disk"
}

// printTable prints a table below the column of names.
func printTable(b *strings.Builder, t *report.Table) {
	var text strings.Builder
	_ = t.Text(&text) // a builder has no errors
	for line := range strings.Lines(text.String()) {
		fmt.Fprintf(b, "%13s%s", "", line)
	}
}

// gapLines are the lines of "model inspect" on the law of gaps.
func gapLines(rows []Gap) string {
	if len(rows) == 0 {
		return "gaps         none learned: a gap of n steps counts as n moves\n"
	}
	var b strings.Builder
	for i, g := range rows {
		name := ""
		if i == 0 {
			name = "gaps"
		}
		fmt.Fprintf(&b, "%-12s %-18s %s\n", name, g.steps(), g.shares())
	}
	fmt.Fprintf(&b, "%13sused only where every report leaves a record: not with \"between: "+
		"skip\",\n%13snor with a budget that suppresses\n", "", "")
	return b.String()
}
