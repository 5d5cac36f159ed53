package mechanism

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Kind says what a step did.
type Kind uint8

// Kinds of outcomes. Sanitizer.Step has the table of what leads to which.
const (
	// Released: a new release was drawn and charged.
	Released Kind = iota + 1
	// Repeated: the release of this step, or where the budget is spent the last one, is given again
	// and costs nothing.
	Repeated
	// Predicted: nothing was released, because of a rule or because a release would tell nothing;
	// the estimate is the prior's and costs nothing.
	Predicted
	// Late: the step lies before the user's last one. Nothing was done and nothing is published.
	Late
	// Skipped: it is not time for a release, and nothing is published.
	Skipped
	// Suppressed: the budget is spent, and nothing is published.
	Suppressed
)

var kindNames = [...]string{
	Released: "released", Repeated: "repeated", Predicted: "predicted", Late: "late",
	Skipped: "skipped", Suppressed: "suppressed",
}

// String returns the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Published says whether a report of this outcome leads to a record: Released, Repeated and
// Predicted do.
func (k Kind) Published() bool { return k == Released || k == Repeated || k == Predicted }

// Input is one report of a user.
type Input struct {
	// User is the user's identifier; the noise depends on it.
	User string
	// Step is floor(timestamp / model step).
	Step int64
	// Cell is the true cell: secret. It is ignored where Release is false.
	Cell grid.Cell
	// Release says whether a release may be drawn; false only predicts, at no cost and outside all
	// rules of when to release.
	Release bool
	// Prior asks for Outcome.Prior.
	Prior bool
	// Near asks for Outcome.Metric.NearShare.
	Near bool
}

// Format writes [redacted] whatever the verb, since Cell is secret.
func (Input) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, "[redacted]") }

// LogValue returns [redacted].
func (Input) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// Outcome is what one report leads to. All of it but Drift may be published.
type Outcome struct {
	Kind Kind
	// Release is the released place in map kilometres; where nothing was released it equals
	// Estimate. Release, Estimate and RadiusKM are 0 where nothing is published.
	Release grid.Point
	// Estimate is the place that the releases so far point to: Options.Estimate of the posterior,
	// by default its mean, the place of least expected squared error.
	Estimate grid.Point
	// RadiusKM is the radius around Estimate that holds 95 % of the posterior, wherever in its cell
	// a place lies. It is at least half a cell's diagonal, also where the posterior is one cell.
	RadiusKM float64
	// Epsilon is what this outcome costs: the option's ε for a new release, else 0.
	Epsilon float64
	// SetSize is |ΔX| of a new release, else 0. Under Codebook it may be a few cells off.
	SetSize int
	// Exhausted says that there is no new release because a budget does not hold one more.
	Exhausted bool
	// Drift says that the true cell lay outside the location set: secret. False where nothing was
	// released, and always under Codebook, which releases no cell as another one.
	Drift bool `json:"-"`
	// Number is the number of the user's releases so far.
	Number uint64
	// Metric says in kilometres what ε meant for a new release: by which factor at most it told
	// two places apart. Zero where nothing was released: what is repeated or predicted tells
	// nothing new.
	Metric law.Metric `json:"-"`
	// Grid is the map that Release and Estimate lie in, nil where nothing is published.
	Grid *grid.Grid `json:"-"`
	// Prior is the distribution of the user's cell that the step predicted, before any release of
	// it: what the location set was chosen from. It is a function of past releases alone, and
	// public given the model. It is nil where Input.Prior does not ask for it, and where the step
	// predicted nothing: where it is late, dropped, or answered from the state. It is the
	// sanitizer's own memory: do not change it, and read it before the next Step.
	Prior *mobility.Distribution `json:"-"`
	// Changed says that the state has changed and must be stored with what is published.
	Changed bool
}

// shown is what may be seen of an Outcome.
type shown struct {
	Kind              Kind
	Release, Estimate grid.Point
	RadiusKM, Epsilon float64
	SetSize           int
	Exhausted         bool
	Drift             string
	Number            uint64
	Changed           bool
}

func (o Outcome) show() shown {
	return shown{
		o.Kind, o.Release, o.Estimate, o.RadiusKM, o.Epsilon, o.SetSize, o.Exhausted,
		"[redacted]", o.Number, o.Changed,
	}
}

// Format writes everything but Drift, which is secret.
func (o Outcome) Format(state fmt.State, verb rune) {
	_, _ = fmt.Fprintf(state, fmt.FormatString(state, verb), o.show())
}

// LogValue returns everything but Drift.
func (o Outcome) LogValue() slog.Value { return slog.AnyValue(o.show()) }
