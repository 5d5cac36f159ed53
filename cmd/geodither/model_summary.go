package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/mechanism/evaluation/fit"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// modelSummary is what "model inspect" prints.
type modelSummary struct {
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
	StayMean    float64  `json:"stay_mean"`            // mean probability of staying in a cell for a step
	InitialBits float64  `json:"initial_entropy_bits"` // entropy of the initial distribution
	StepBits    float64  `json:"step_entropy_bits"`    // entropy of one step, averaged over the initial distribution
	Initial     int      `json:"initial_cells"`        // cells of positive initial probability

	Calendar   string              `json:"calendar"`
	Classes    []classSummary      `json:"classes"`
	Provenance mobility.Provenance `json:"provenance"`
	Parameters map[string]string   `json:"parameters"` // the provenance's options, one by one
	Private    bool                `json:"differentially_private"`
	Fit        *mobility.Fit       `json:"fit,omitempty"`     // nil: not measured
	Verdict    []string            `json:"verdict,omitempty"` // on the fit, in words
	Expected   *expect.Summary     `json:"expected,omitempty"`
	Flows      *flowSummary        `json:"flows,omitempty"`
}

// classSummary is one class of a model's calendar. Means are over the week's hours
// of the class, of which there are so many.
type classSummary struct {
	Name        string  `json:"name"`
	Hours       int     `json:"hours_a_week"`
	Transitions int     `json:"transitions"`
	StayMean    float64 `json:"stay_mean"`
	StepBits    float64 `json:"step_entropy_bits"`
}

func summarize(m *mobility.Model) modelSummary {
	cells := m.Grid.Cells()
	s := modelSummary{
		ID: m.ID(), Grid: m.Grid.ID(), Plain: m.Grid.IsPlain(), Box: m.Grid.Box(), Width: m.Grid.Width(), Height: m.Grid.Height(),
		CellM: m.Grid.CellKM() * 1000, Distortion: m.Grid.Distortion(), StepSeconds: m.Step.Seconds(),
		Transitions: m.Transitions(), InitialBits: entropy(m.Initial.P), Initial: m.Initial.Len(),
		Calendar: m.Calendar.String(), Provenance: m.Provenance, Parameters: parameters(m.Provenance.Options),
		Private: m.Provenance.Privacy != nil, Fit: m.Provenance.Fit,
		MemoryBytes: 12*int64(m.Transitions()+m.Initial.Len()) + 8*int64(len(m.Matrices)*(cells+1)),
	}
	if s.Fit != nil {
		s.Verdict = fit.Verdict(*s.Fit)
		if s.Parameters["selected_of"] != "" { // it has been tried
			for i := range s.Verdict {
				s.Verdict[i] = strings.TrimSuffix(s.Verdict[i], ", or --select")
			}
		}
	}
	s.Provenance.Fit = nil // once is enough
	s.Classes = summarizeClasses(m)
	for _, c := range s.Classes {
		s.StayMean += c.StayMean * float64(c.Hours) / hoursAWeek
		s.StepBits += c.StepBits * float64(c.Hours) / hoursAWeek
	}
	return s
}

func summarizeClasses(m *mobility.Model) []classSummary {
	classes := make([]classSummary, len(m.Matrices))
	for hour := range int64(hoursAWeek) {
		classes[m.Calendar.ClassAt(hour*3_600_000)].Hours++
	}
	for class, matrix := range m.Matrices {
		c := &classes[class]
		c.Name, c.Transitions = m.Calendar.ClassName(class), matrix.Transitions()
		for cell := range grid.Cell(m.Grid.Cells()) {
			columns, values := matrix.Row(cell)
			for i, to := range columns {
				if to == cell {
					c.StayMean += values[i] / float64(m.Grid.Cells())
				}
			}
		}
		for i, cell := range m.Initial.Cells {
			_, values := matrix.Row(cell)
			c.StepBits += float64(m.Initial.P[i] * entropy(values))
		}
	}
	return classes
}

const hoursAWeek = 7 * 24

// parameters takes name=value and name="a value" apart, with spaces between them.
func parameters(options string) map[string]string {
	found := map[string]string{}
	for options = strings.TrimSpace(options); options != ""; options = strings.TrimSpace(options) {
		name, rest, ok := strings.Cut(options, "=")
		if !ok {
			break
		}
		value, after, _ := strings.Cut(rest, " ")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			value, after = quoted, rest[len(quoted):]
			if plain, err := strconv.Unquote(quoted); err == nil {
				value = plain
			}
		}
		found[name], options = value, after
	}
	return found
}

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

func (s modelSummary) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, `model        %s
map          %d × %d cells of %.0f m; south %.5f, west %.5f, north %.5f, east %.5f
             map distances are off by at most %.2g %%
step         %gs
matrix       %d entries (%.1f a cell); a vehicle stays in its cell with probability %.2f on average
`,
		s.ID, s.Width, s.Height, s.CellM, s.Box.South, s.Box.West, s.Box.North, s.Box.East, 100*s.Distortion,
		s.StepSeconds, s.Transitions, float64(s.Transitions)/float64(s.Width*s.Height), s.StayMean)
	if len(s.Classes) > 1 {
		fmt.Fprintf(&b, "classes      %s\n", s.Calendar)
		for _, c := range s.Classes {
			fmt.Fprintf(&b, "             %-26s %3d h a week, %d entries, stays %.2f, %.1f bits a step\n", c.Name, c.Hours, c.Transitions, c.StayMean, c.StepBits)
		}
	}
	fmt.Fprintf(&b, `uncertainty  %.1f bits at the start (as if %.0f cells were equally likely), %.1f bits a step
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
	printFit(&b, s.Fit, s.Verdict)
	if s.Flows != nil {
		b.WriteString(s.Flows.String())
	}
	if s.Expected != nil {
		fmt.Fprintf(&b, "\n%s", s.Expected)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// trainedOn sums up the traces behind the model. The file of a private one does not
// count them, which is not the same as none.
func (s modelSummary) trainedOn() string {
	if s.Private {
		return "not told: counts of the traces are no part of a private model"
	}
	r := s.Provenance.Report
	return fmt.Sprintf("%s of %s (left out: %d outside the box, %d that another user reports too), %s; %d of %d cells were seen",
		cli.Quantity(r.Fixes, "fix"), cli.Quantity(r.Users, "user"), r.OutsideBox, r.SharedFixes, cli.Quantity(r.Transitions, "transition"), r.CellsSeen, s.Width*s.Height)
}

// privacyLine says what whoever has the model may learn about the traces.
func privacyLine(p *mobility.Privacy) string {
	if p == nil {
		return "learned without differential privacy: whoever has this file learns about the traces it was trained on"
	}
	return fmt.Sprintf("learned with differential privacy: ε = %s for each user's whole trace, of which at most %d transitions count, within %d cells;\n"+
		"             releases under it cost their own ε", p.Epsilon, p.Contribution, p.Radius)
}

// printFit says in figures and words how well a model foretells people it was not
// trained on.
func printFit(b *strings.Builder, f *mobility.Fit, verdict []string) {
	if f == nil {
		b.WriteString("fit          not measured\n")
		return
	}
	fmt.Fprintf(b, "fit          on %s and %s, in stretches of at least %d", cli.Quantity(f.Users, "user"), cli.Quantity(f.Steps, "step"), f.Shortest)
	if f.Held != "" {
		fmt.Fprintf(b, " (%s)", f.Held)
	}
	fmt.Fprintf(b, `
             log-likelihood a step %.2f (popularity alone %.2f, uniform %.2f); %.2g %% of the moves are impossible under it
`, f.LogLikelihood, f.LogPopularity, f.LogUniform, 100*f.Impossible)
	if f.Epsilon > 0 {
		fmt.Fprintf(b, "             %s, ε = %g, δ = %g: error of the estimate %s on average, %s in the median; blind %s and %s\n",
			f.Mechanism, f.Epsilon, f.Delta, cli.Metres(f.Estimate.Mean), cli.Metres(f.Estimate.Median), cli.Metres(f.Blind.Mean), cli.Metres(f.Blind.Median))
	}
	if len(f.Calibration) > 0 {
		b.WriteString("             δ        drift    95 % interval       |ΔX|\n")
	}
	for _, p := range f.Calibration {
		interval := fmt.Sprintf("%.4f to %.4f", p.Low, p.High)
		if f.Users < fit.EnoughUsers || p.Low == p.High {
			interval = "not known" // of few users, or of users none of whom drifted
		}
		fmt.Fprintf(b, "             %-7.4g  %-7.4f  %-16s  %6.1f\n", p.Delta, p.Drift, interval, p.SetMean)
	}
	for i, line := range verdict {
		if i == 0 {
			b.WriteString("verdict      ")
		} else {
			b.WriteString("             ")
		}
		fmt.Fprintln(b, line)
	}
}

func onDisk(size int64) string {
	if size == 0 {
		return ""
	}
	return ", " + cli.ByteSize(size) + " on disk"
}
