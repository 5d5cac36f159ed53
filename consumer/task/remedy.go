package task

import (
	"errors"
	"fmt"
	"regexp"
)

// Remedy says what to do about an error. The loop looks at nothing else of an error.
type Remedy uint8

const (
	// Unmarked is the remedy of an error that carries none. The loop reads it as Rebuild from a Log
	// or Transactions, and as Fatal from a Store or Processor.
	Unmarked Remedy = iota
	// Retry means: make the same call again. It had no effect, or repeating it is harmless.
	Retry
	// Rebuild means: drop what is not committed and start over from Fence.
	Rebuild
	// Leave means: the partition belongs to another worker, or soon will. Give it up without
	// touching it, and join the group again.
	Leave
	// Fatal means: repeating does not help. A person has to act first.
	Fatal
)

// String names the remedy in lower case.
func (r Remedy) String() string {
	switch r {
	case Unmarked:
		return "unmarked"
	case Retry:
		return "retry"
	case Rebuild:
		return "rebuild"
	case Leave:
		return "leave"
	case Fatal:
		return "fatal"
	}
	return "unknown"
}

type remedied struct {
	error
	remedy Remedy
}

func (e *remedied) Unwrap() error { return e.error }

// named is the name in brackets of what can be done about an error; deploy/ONCALL.md has it.
var named = regexp.MustCompile(` \([a-z]+(-[a-z]+)+\)`)

// Facts is the text of an error without the names of remedies, for callers that know another one.
func Facts(err error) string { return named.ReplaceAllString(err.Error(), "") }

// WithRemedy marks an error with a remedy; nil stays nil. If an error carries several, the
// outermost counts. errors.Is and errors.As see through it.
func WithRemedy(err error, r Remedy) error {
	if err == nil {
		return nil
	}
	return &remedied{err, r}
}

// RemedyOf returns an error's remedy, Unmarked if it carries none or is nil.
func RemedyOf(err error) Remedy {
	var e *remedied
	if errors.As(err, &e) {
		return e.remedy
	}
	return Unmarked
}

// otherwise marks an error with a remedy unless it carries one.
func otherwise(err error, r Remedy) error {
	if err == nil || RemedyOf(err) != Unmarked {
		return err
	}
	return WithRemedy(err, r)
}

// Conditions that a caller can tell apart with errors.Is.
var (
	// ErrDiverged: the committed offset and the changelog disagree for good.
	ErrDiverged = errors.New("the group's committed offset and the changelog disagree")
	// ErrLost: the changelog is empty although there was something in it, or its beginning is
	// needed and was deleted.
	ErrLost = errors.New("the changelog is lost")
	// ErrInputLost: the committed offset lies outside the input's bounds, or records before it were
	// replaced by others.
	ErrInputLost = errors.New("the input no longer holds the committed offset")
	// ErrReservedKey: a processor gave a state to a key that ValidKey refuses.
	ErrReservedKey = errors.New("a state was given to a reserved or empty key")
	// ErrStore: the store failed. An intact changelog restores it.
	ErrStore = errors.New("the state store failed")
	// ErrUnclean: the grace period ended before the outcome of the transaction in hand was known.
	// Nothing is lost: the next owner finds the outcome out.
	ErrUnclean = errors.New("stopped with a transaction in hand")
)

// storeError marks an error of the store and says what to do.
func storeError(what string, err error) error {
	return otherwise(fmt.Errorf("%w: %s: %w (folder-failed)", ErrStore, what, err), Fatal)
}
