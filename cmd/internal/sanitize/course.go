package sanitize

import (
	"errors"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/schemas"
)

// Course takes the fixes of one user one at a time, exactly as a Run does, for a reader of
// single steps. One goroutine owns it.
type Course struct {
	worker *worker
	user   user
}

// NewCourse starts a course of a new user.
func NewCourse(s Settings) (*Course, error) {
	w, err := newWorker(s)
	if err != nil {
		return nil, err
	}
	return &Course{worker: w}, nil
}

// Step is what came of one fix.
type Step struct {
	// Refused is why the service would refuse the fix, empty if it takes it. Then nothing else is
	// set.
	Refused schemas.Reason
	// Record is to be published if Outcome.Kind.Published is true.
	Record  schemas.Sanitized
	Outcome mechanism.Outcome
	// Blind is the best estimate without any release, on the map of the model.
	Blind mechanism.Best
}

// Next takes the next fix of the user. A fix that the service would refuse is no error.
func (c *Course) Next(fix schemas.Raw) (Step, error) {
	j := job{Fix: fix, err: engine.Plausible(fix)}
	step := Step{}
	if j.err == nil {
		step.Outcome, step.Blind, j.err = c.worker.one(&c.user, &j)
	}
	if rejection, ok := errors.AsType[*schemas.Rejection](j.err); ok {
		return Step{Refused: rejection.Reason}, nil
	}
	step.Record = j.record
	return step, j.err
}

// State is what is kept of the user after the last fix. It is the course's own: only read it.
func (c *Course) State() *mechanism.State { return &c.user.state }

// Options returns the options of releases with every default filled in.
func (c *Course) Options() mechanism.Options { return c.worker.engine.Options() }
