package study

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

// Variant is one way to release.
type Variant struct{ Mechanism, Inference string }

// The paper's two mechanisms and the others, with inference by the law that makes the releases.
var (
	LM       = Variant{Mechanism: law.Laplace, Inference: mechanism.InferenceSurrogate}
	PIM      = Variant{Mechanism: law.PIM, Inference: mechanism.InferenceSurrogate}
	Tight    = Variant{Mechanism: law.LaplaceTight, Inference: mechanism.InferenceSurrogate}
	Lattice  = Variant{Mechanism: law.Lattice, Inference: mechanism.InferenceSurrogate}
	Codebook = Variant{Mechanism: law.Codebook, Inference: mechanism.InferenceSurrogate}
)

// Label is the variant's name in figures.
func (v Variant) Label() string {
	name := map[string]string{
		law.Laplace: "LM", law.PIM: "PIM", law.Lattice: "lattice", law.LaplaceTight: "LM, tight",
		law.KNorm: "K-norm", law.Codebook: "codebook",
	}[v.Mechanism]
	if v.Inference == mechanism.InferencePaper {
		name += ", paper's inference"
	}
	return name
}

// Look is the variant's look in every figure.
func (v Variant) Look() int {
	look := map[string]int{
		law.PIM: 1, law.Laplace: 2, law.Lattice: 3, law.LaplaceTight: 4, law.Codebook: 5,
	}[v.Mechanism]
	if v.Inference == mechanism.InferencePaper {
		return look + 18 // the same colour, dashes and markers of no other variant
	}
	return look
}

// Looks are the looks of all variants by their labels.
func Looks() map[string]int {
	looks := map[string]int{}
	for _, v := range []Variant{LM, PIM, Tight, Lattice, Codebook} {
		looks[v.Label()] = v.Look()
		v.Inference = mechanism.InferencePaper
		looks[v.Label()] = v.Look()
	}
	return looks
}

// Group is variants that are drawn together. Name is part of the names of files, empty for the
// paper's mechanisms.
type Group struct {
	Name, Title string
	Variants    []Variant
}

// File returns the name of a file of the group.
func (g Group) File(name string) string {
	if g.Name == "" {
		return name
	}
	return name + "-" + g.Name
}

// Titled adds the group's title to another one.
func (g Group) Titled(title, separator string) string {
	if g.Title == "" {
		return title
	}
	return title + separator + g.Title
}

// Labels are the names of the variants and of the blind baseline beside them.
func (g Group) Labels() (labels []any) {
	for _, v := range g.Variants {
		labels = append(labels, v.Label())
	}
	return append(labels, Blind)
}

// Setting is an ε and a δ.
type Setting struct{ Epsilon, Delta float64 }

// Kind is whose traces a mobility model is learned from.
type Kind string

// The kinds.
const (
	// Popular is other users' traces: the model has not seen the user who is measured.
	Popular Kind = "popular"
	// Personal is all of the user's own traces, the measured one among them, over the popular
	// model: as the paper has it. The model has seen what it is measured on, so its figures are
	// better than anybody would get.
	Personal Kind = "personal"
	// PersonalEarlier is the user's own traces from before the measured one, over the popular
	// model.
	PersonalEarlier Kind = "personal-earlier"
)

// Case is a data set under a kind of model.
type Case struct {
	Data *Data
	Kind Kind
}

// Title names the case in figures.
func (c Case) Title() string {
	return c.Data.Title + ", " + map[Kind]string{
		Popular: "popular M", Personal: "personal M",
		PersonalEarlier: "personal M of earlier traces",
	}[c.Kind]
}

// Point is one place on the axes of an experiment: data under a kind of model, and a way to release
// at a setting. A blind point has no releases, and so neither a variant nor an ε; its δ, if there
// is one, only says how its location sets are chosen.
type Point struct {
	Case
	Variant
	Setting
	Blind bool
}

// Label is the point's name in figures.
func (p Point) Label() string {
	if p.Blind {
		return Blind
	}
	return p.Variant.Label()
}

// Blind is the name of the baseline that sees no release.
const Blind = "blind"

// Cells are the point's name, ε and δ for a table; nil for what it does not have.
func (p Point) Cells() (label, epsilon, delta any) {
	cell := func(v float64) any {
		if v == 0 {
			return nil
		}
		return v
	}
	return p.Label(), cell(p.Epsilon), cell(p.Delta)
}

// what names how the point releases, in the names of pieces. One filter without releases serves
// every δ.
func (p Point) what() string {
	if p.Blind {
		return Blind
	}
	return fmt.Sprintf("%s/%s/ε %g/δ %g", p.Mechanism, p.Inference, p.Epsilon, p.Delta)
}

// release returns the options of the releases. Those of a blind point are not used for any.
func (p Point) release() mechanism.Options {
	if p.Blind {
		return p.Data.Release(PIM, 1, .01)
	}
	return p.Data.Release(p.Variant, p.Epsilon, p.Delta)
}
