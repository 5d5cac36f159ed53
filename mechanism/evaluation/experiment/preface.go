package experiment

import (
	_ "embed"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/evaluation/experiment/study"
	"github.com/geodither/geodither/mechanism/evaluation/report"
	"github.com/geodither/geodither/mechanism/law"
)

//go:embed preface.md
var prefaceText string

// preface says what the study is.
func preface(s *study.Study) []string {
	prose := study.NewProse(prefaceText)
	var sets []string
	for _, d := range s.Data {
		sets = append(sets, prose.Say("data", study.Figures{
			"title": d.Title, "users": d.Users, "cell": study.LengthOf(d.Grid),
			"width": d.Grid.Width(), "height": d.Grid.Height(),
		}))
	}
	return []string{
		prose.Say("preface", study.Figures{"data": sets}),
		prose.Say("figures", study.Figures{"quick": s.Options.Quick, "seed": s.Options.Seed}),
	}
}

// terms is the section that says what the others measure, for readers who have not read the paper.
func terms(s *study.Study) report.Section {
	prose := study.NewProse(prefaceText)
	table := &report.Table{
		Name: "terms", Caption: "Words, and the units of what is measured.",
		Columns: []string{"word", "meaning", "unit"},
	}
	add := func(word, unit string) { table.Add(word, prose.Say(word, nil), unit) }
	for _, term := range []struct{ word, unit string }{
		{"M", ""},
		{"timestamp", "steps or check-ins"},
		{"ε", "natural logarithm of odds"},
		{"ΔX, location set", "|ΔX|, cells"},
		{"δ", "probability"},
		{"drift ratio", "share of timestamps"},
		{"release", "distance to the truth, km"},
		{"estimate", "distance to the truth, km"},
		{"blind", "distance to the truth, km"},
		{"rms", "km"},
		{"LM", ""},
		{"PIM", ""},
	} {
		add(term.word, term.unit)
	}
	for _, v := range s.Variants() {
		switch {
		case v.Inference == mechanism.InferencePaper && v.Mechanism == law.PIM:
			add("paper's inference", "")
		case v.Mechanism == law.Lattice, v.Mechanism == law.LaplaceTight,
			v.Mechanism == law.Codebook:
			add(v.Label(), "")
		}
	}
	reading := prose.Say("reading",
		study.Figures{"confidence": 100 * study.Level, "enough": study.Enough})
	return report.Section{
		Title: "How to read it", Parts: []report.Part{report.Text(reading), table},
	}
}

// Carry carries the experiments out and reports them. What was measured before an error stays in
// the store.
func Carry(s *study.Study, experiments []study.Experiment, r study.Run) (*report.Report, error) {
	results, err := s.Measure(experiments, r)
	if err != nil {
		return nil, err
	}
	out := &report.Report{
		Title: "Experiments on releases of locations", Text: preface(s),
		Sections: []report.Section{terms(s)},
	}
	for _, e := range experiments {
		section, err := e.Section(s, results)
		if err != nil {
			return nil, err
		}
		out.Sections = append(out.Sections, section)
	}
	return out, nil
}
