package experiment

import "github.com/geodither/geodither/mechanism/evaluation/experiment/study"

// mechanisms is the experiment on one data set: all mechanisms beside each other, and beside the
// least error that any mechanism can have. The model is popular.
//
//	mechanisms.go         what is measured on whole traces
//	mechanisms_once.go    one release beside the bound on all mechanisms
//	mechanisms_near.go    by how much a release tells neighbouring cells apart
//	mechanisms_report.go  the section of the report
type mechanisms struct {
	*study.Study
	data *study.Data
}

// eachMechanisms returns the experiment on each data set.
func eachMechanisms(s *study.Study) (list []*mechanisms) {
	for _, d := range s.Data {
		list = append(list, &mechanisms{s, d})
	}
	return list
}

// contenders are the mechanisms that are compared.
func contenders() []study.Variant {
	return []study.Variant{study.Codebook, study.Lattice, study.PIM, study.Tight, study.LM}
}

// deltas are the δ that a mechanism is tried with. The codebook has no use for any.
func (x *mechanisms) deltas(v study.Variant) []float64 {
	if v == study.Codebook {
		return []float64{x.Options.Delta}
	}
	return x.Options.MechanismDeltas
}

// eachSetting calls do with every mechanism at every ε and δ.
func (x *mechanisms) eachSetting(of []study.Variant, do func(study.Variant, study.Setting)) {
	for _, v := range of {
		for _, epsilon := range x.Options.MechanismEpsilons {
			for _, delta := range x.deltas(v) {
				do(v, study.Setting{Epsilon: epsilon, Delta: delta})
			}
		}
	}
}

// whole is the experiment over parameters, which measures the errors on whole traces.
func (x *mechanisms) whole() *parameters {
	return parametersOf(x.Study, study.Case{Data: x.data, Kind: study.Popular})
}

// near and once are the parts that are measured apart.
func (x *mechanisms) near() *nearPlaces { return &nearPlaces{x.Study, x.data} }
func (x *mechanisms) once() *oneRelease { return &oneRelease{x.Study, x.data} }

// pieces are the whole traces of each setting, the blind baseline, the near factors of the settings
// of two mechanisms, and one release from each prior.
func (x *mechanisms) pieces() (pieces []study.Piece) {
	whole := x.whole()
	x.EachFold(x.data, func(of []study.Trace) {
		pieces = append(pieces, whole.blindPiece(of))
	})
	x.eachSetting(contenders(), func(v study.Variant, at study.Setting) {
		pieces = append(pieces, whole.variantPieces(v, at)...)
	})
	x.eachSetting(nearContenders(), func(v study.Variant, at study.Setting) {
		pieces = append(pieces, x.near().pieces(v, at)...)
	})
	return append(pieces, x.once().pieces()...)
}
