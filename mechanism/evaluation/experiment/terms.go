package experiment

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/law"
)

// terms is the section that says what the others measure, for readers who have not read the paper.
func (s *Study) terms() report.Section {
	table := &report.Table{
		Name: "terms", Caption: "Words, and the units of what is measured.", Columns: []string{"word", "meaning", "unit"},
		Rows: [][]string{
			{"M", "The mobility model: how likely a person in one cell of the map is in any other one a timestamp later. Public. A popular M is learned from other people, a personal one from the person's own traces.", ""},
			{"timestamp", "A moment at which the person is somewhere and a release is made: a step of the model with a fix, or a check-in.", "steps or check-ins"},
			{"ε", "What one release may tell: it changes the odds between any two cells by a factor of e^ε at the most. Small is private. Releases add up.", "natural logarithm of odds"},
			{"ΔX, location set", "The fewest cells that hold the person with a probability of 1 - δ or more, as far as M and the earlier releases tell. Noise has to cover all of it: a large set means large noise.", "|ΔX|, cells"},
			{"δ", "The probability that ΔX may leave out. It does not weaken ε.", "probability"},
			{"drift ratio", "How often the true cell lies outside ΔX. The nearest cell inside is then released in its place. With a right M it is δ at the most, on average.", "share of timestamps"},
			{"release", "The noisy place that is published. It may lie far outside the map.", "distance to the truth, km"},
			{"estimate", "The mean of where an observer has to believe the person is, given M and all releases so far.", "distance to the truth, km"},
			{"blind", "The same estimate without any release: what M alone gives away. What is not better than blind has told an analyst nothing.", "distance to the truth, km"},
			{"rms", "Root of the mean square, in which large distances weigh more than in a mean.", "km"},
			{"LM", "The paper's Laplace mechanism: noise on each axis alone.", ""},
			{"PIM", "The paper's planar isotropic mechanism: noise in the shape of ΔX's sensitivity hull.", ""},
		},
	}
	for _, v := range s.Variants() {
		switch {
		case v.Inference == mechanism.InferencePaper && v.Mechanism == law.PIM:
			table.Rows = append(table.Rows, []string{"paper's inference", "The observer's belief by the paper's formula, which differs from the law of the releases where the true cell may lie outside ΔX.", ""})
		case v.Mechanism == law.Lattice:
			table.Rows = append(table.Rows, []string{v.Label(), "geodither's default: the law of PIM on whole numbers, without rounding.", ""})
		case v.Mechanism == law.LaplaceTight:
			table.Rows = append(table.Rows, []string{v.Label(), "Laplace noise no larger than ΔX needs: LM adds more.", ""})
		}
	}
	return report.Section{Title: "How to read it", Parts: []report.Part{
		report.Text(fmt.Sprintf("Somebody's place is released again and again, with noise, and an observer who knows how people move puts the releases together. How near do the releases and the observer's estimate come to the truth, and how much of that would the observer have known anyway? Small distances are useful to an analyst; distances of the blind baseline are what to compare them with. Shaded bands, bars of points that stand alone, and numbers in brackets, are about %g %% confidence intervals, rough ones below %d users or runs; those around fleets hold 80 %% or more of the fleets of a size instead. Where a number has no brackets and those beside it do, or where a line has no band, there is no interval: there is a single user or run, or no two of them differ. So a drift ratio of 0 says that none was seen, not that there is none.", 100*level, enough)),
		table,
	}}
}
