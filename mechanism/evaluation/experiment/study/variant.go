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

// At names the variant at a setting, in the names of pieces.
func (v Variant) At(at Setting) string {
	return fmt.Sprintf("%s/%s/ε %g/δ %g", v.Mechanism, v.Inference, at.Epsilon, at.Delta)
}

// Group is variants that are drawn together.
// Name is part of the names of files, empty for the paper's mechanisms.
type Group struct {
	Name, Title string
	Variants    []Variant
}

// Setting is an ε and a δ.
type Setting struct{ Epsilon, Delta float64 }

// Kind is whose traces a mobility model is learned from.
type Kind string

// The kinds.
const (
	// Popular is the others' traces: whoever is measured has not been seen.
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
		Popular: "popular M", Personal: "personal M", PersonalEarlier: "personal M of earlier " +
			"traces",
	}[c.Kind]
}
