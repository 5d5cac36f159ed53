package modelview

import (
	"fmt"
	"io"

	"github.com/geodither/geodither/mechanism/evaluation/compare"
	"github.com/geodither/geodither/mechanism/mobility"
)

// The verdicts on a file, from good to bad.
const (
	Good       = "good"
	Suspicious = "suspicious"
	Unusable   = "unusable"
)

// Validation is what "model validate" says about a file.
type Validation struct {
	File    string           `json:"file"`
	Verdict string           `json:"verdict"`
	ID      string           `json:"id,omitempty"`
	Error   string           `json:"error,omitempty"` // why it is unusable
	Remarks []compare.Remark `json:"remarks"`
}

// Validate reads a model file and checks it for releases with a δ.
func Validate(path string, delta float64) Validation {
	v := Validation{File: path, Verdict: Good, Remarks: []compare.Remark{}}
	m, err := mobility.ReadModelFile(path)
	if err != nil {
		v.Verdict, v.Error = Unusable, err.Error()
		return v
	}
	v.ID = m.ID()
	v.Remarks = append(v.Remarks, compare.Check(m, delta)...)
	for _, r := range v.Remarks {
		if r.Suspicious {
			v.Verdict = Suspicious
		}
	}
	return v
}

// Print prints the verdict and the remarks for a person.
func (v Validation) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s: %s\n", v.File, v.Verdict)
	if err == nil && v.Error != "" {
		_, err = fmt.Fprintf(out, "  unusable    %s\n", v.Error)
	}
	for _, r := range v.Remarks {
		word := "note"
		if r.Suspicious {
			word = Suspicious
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "  %-10s  %s: %s\n", word, r.Name, r.Text)
		}
	}
	return err
}
