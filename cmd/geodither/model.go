package main

import (
	"encoding/json"
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
	var asJSON bool
	inspect := &cobra.Command{
		Use:     "inspect FILE",
		Short:   "Print what a model file holds and how it was made",
		Example: "  geodither model inspect model.avro\n  geodither model inspect --json model.avro",
		Args:    oneFile("model file"),
		RunE: func(_ *cobra.Command, args []string) error {
			model, err := mobility.ReadModelFile(args[0])
			if err != nil {
				return err
			}
			summary := summarize(model)
			if asJSON {
				return json.NewEncoder(std.out).Encode(summary)
			}
			return summary.print(std.out)
		},
	}
	inspect.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.AddCommand(inspect)
	return cmd
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
}

func summarize(m *mobility.Model) modelSummary {
	s := modelSummary{
		ID: m.ID(), Box: m.Grid.Box(), Width: m.Grid.Width(), Height: m.Grid.Height(),
		CellM: m.Grid.CellKM() * 1000, Distortion: m.Grid.Distortion(), StepSeconds: m.Step.Seconds(),
		Transitions: len(m.Matrix.Values), InitialBits: entropy(m.Initial.P), Initial: m.Initial.Len(), Provenance: m.Provenance,
	}
	for c := range grid.Cell(m.Grid.Cells()) {
		columns, values := m.Matrix.Row(c)
		for i, to := range columns {
			if to == c {
				s.StayMean += values[i] / float64(m.Grid.Cells())
			}
		}
	}
	for i, c := range m.Initial.Cells {
		_, values := m.Matrix.Row(c)
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
trained on   %d fixes of %d users (%d outside the box left out), %d transitions; %d of %d cells were seen
privacy      learned without differential privacy: whoever has this file learns about the traces it was trained on
`,
		s.ID, s.Width, s.Height, s.CellM, s.Box.South, s.Box.West, s.Box.North, s.Box.East, 100*s.Distortion,
		s.StepSeconds, s.Transitions, float64(s.Transitions)/float64(s.Width*s.Height), s.StayMean,
		s.InitialBits, math.Exp2(s.InitialBits), s.StepBits,
		s.Provenance.Source, s.Provenance.Tool, s.Provenance.Options,
		report.Fixes, report.Users, report.OutsideBox, report.Transitions, report.CellsSeen, s.Width*s.Height)
	return err
}
