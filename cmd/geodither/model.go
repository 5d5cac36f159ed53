package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

func newModel(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "model",
		Short:   "Look at a mobility model",
		Example: "  geodither model inspect model.avro",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelInspect(std))
	return cmd
}

type inspectFlags struct {
	json    bool
	release releaseConfig
	expect  expectOptions
}

func newModelInspect(std streams) *cobra.Command {
	var f inspectFlags
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Print what a model file holds, and what error to expect from releases under it",
		Long: `Print what a model file holds and how it was made. With --epsilon and --delta also what error
to expect: of the release, of the estimate, and of the blind estimate that knows no release
at all, in simulated tracks that move as the model says; how large the location sets
are; and what it costs a user in an hour and a day. Real people move otherwise:
"geodither sanitize" measures the same on traces.`,
		Example: `  geodither model inspect model.avro
  geodither model inspect --epsilon 12 --delta 0.3 --interval 10m model.avro
  geodither model inspect --json model.avro`,
		Args: oneFile("model file"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], std) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	f.release.register(flags, 0, 0)
	flags.IntVar(&f.expect.Tracks, "tracks", 100, "simulate this many tracks")
	flags.IntVar(&f.expect.Steps, "steps", 0, "of so many steps each; 0: 120, or ten release intervals")
	flags.Uint64Var(&f.expect.Seed, "seed", 1, "seed of the simulation")
	return cmd
}

func (f *inspectFlags) run(cmd *cobra.Command, path string, std streams) error {
	model, err := mobility.ReadModelFile(path)
	if err != nil {
		return err
	}
	summary := summarize(model)
	if cmd.Flags().Changed("epsilon") || cmd.Flags().Changed("delta") {
		if err := f.simulate(cmd, model, &summary); err != nil {
			return err
		}
	}
	if f.json {
		return json.NewEncoder(std.out).Encode(summary)
	}
	return summary.print(std.out)
}

// simulate fills in what error to expect.
func (f *inspectFlags) simulate(cmd *cobra.Command, model *mobility.Model, summary *modelSummary) error {
	if !cmd.Flags().Changed("epsilon") || !cmd.Flags().Changed("delta") {
		return usagef("--epsilon and --delta belong together; neither has a default")
	}
	if f.expect.Tracks < 1 || f.expect.Steps < 0 {
		return usagef("--tracks must be at least 1, and --steps not negative")
	}
	release, err := f.release.options(model)
	if err := errors.Join(err, release.Validate()); err != nil {
		return usageError{err}
	}
	x, err := expect(cmd.Context(), model, release, f.expect)
	if err != nil {
		return err
	}
	expected := x.summary()
	summary.Expected = &expected
	return nil
}

// modelSummary is what "model inspect" prints.
type modelSummary struct {
	ID          string              `json:"id"`
	Box         grid.Box            `json:"box"`
	Width       int                 `json:"width"`
	Height      int                 `json:"height"`
	CellM       float64             `json:"cell_m"`
	Distortion  float64             `json:"distortion"` // of map distances, relative, at most
	StepSeconds float64             `json:"step_seconds"`
	Transitions int                 `json:"transitions"`
	StayMean    float64             `json:"stay_mean"`            // mean probability of staying in a cell for a step
	InitialBits float64             `json:"initial_entropy_bits"` // entropy of the initial distribution
	StepBits    float64             `json:"step_entropy_bits"`    // entropy of one step, averaged over the initial distribution
	Initial     int                 `json:"initial_cells"`        // cells of positive initial probability
	Provenance  mobility.Provenance `json:"provenance"`
	Expected    *expectedSummary    `json:"expected,omitempty"` // nil: not asked for
}

func summarize(m *mobility.Model) modelSummary {
	s := modelSummary{
		ID: m.ID(), Box: m.Grid.Box(), Width: m.Grid.Width(), Height: m.Grid.Height(),
		CellM: m.Grid.CellKM() * 1000, Distortion: m.Grid.Distortion(), StepSeconds: m.Step.Seconds(),
		Transitions: len(m.Matrices[0].Values), InitialBits: entropy(m.Initial.P), Initial: m.Initial.Len(), Provenance: m.Provenance,
	}
	for c := range grid.Cell(m.Grid.Cells()) {
		columns, values := m.Matrices[0].Row(c)
		for i, to := range columns {
			if to == c {
				s.StayMean += values[i] / float64(m.Grid.Cells())
			}
		}
	}
	for i, c := range m.Initial.Cells {
		_, values := m.Matrices[0].Row(c)
		s.StepBits += m.Initial.P[i] * entropy(values)
	}
	return s
}

// entropy of a distribution in bits.
func entropy(p []float64) float64 {
	sum := 0.0
	for _, v := range p {
		if v > 0 {
			sum -= v * math.Log2(v)
		}
	}
	return sum
}

func (s modelSummary) print(out io.Writer) error {
	report := s.Provenance.Report
	_, err := fmt.Fprintf(out, `model        %s
map          %d × %d cells of %.0f m; south %.5f, west %.5f, north %.5f, east %.5f
             map distances are off by at most %.2g %%
step         %gs
transitions  %d (%.1f a cell); a vehicle stays in its cell with probability %.2f on average
uncertainty  %.1f bits at the start (as if %.0f cells were equally likely), %.1f bits a step
source       %s
made by      %s
options      %s
trained on   %d fixes of %d users (left out: %d outside the box, %d that another user reports too), %d transitions; %d of %d cells were seen
privacy      learned without differential privacy: whoever has this file learns about the traces it was trained on
`,
		s.ID, s.Width, s.Height, s.CellM, s.Box.South, s.Box.West, s.Box.North, s.Box.East, 100*s.Distortion,
		s.StepSeconds, s.Transitions, float64(s.Transitions)/float64(s.Width*s.Height), s.StayMean,
		s.InitialBits, math.Exp2(s.InitialBits), s.StepBits,
		s.Provenance.Source, s.Provenance.Tool, s.Provenance.Options,
		report.Fixes, report.Users, report.OutsideBox, report.SharedFixes, report.Transitions, report.CellsSeen, s.Width*s.Height)
	if err == nil && s.Expected != nil {
		_, err = fmt.Fprintf(out, "\n%s", s.Expected)
	}
	return err
}
