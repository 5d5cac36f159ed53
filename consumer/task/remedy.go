package task

import "errors"

// Remedy says what to do about an error, which is all the loop wants to know.
type Remedy uint8

const (
	// Unmarked is the remedy of an error that carries none. The loop reads it
	// as Rebuild from a Log or Transactions, as Fatal from a Store or Processor.
	Unmarked Remedy = iota
	// Retry: make the very same call again; it has had no effect, or repeating
	// it is harmless.
	Retry
	// Rebuild: drop what is not committed and start over from Fence.
	Rebuild
	// Leave: the partition belongs to another worker now, or soon will. Give it
	// up without touching it, and join the group again.
	Leave
	// Fatal: doing it again will not help; a person has to act first.
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

// WithRemedy marks err; nil stays nil. The mark nearest to the outside counts,
// and errors.Is and errors.As see through it.
func WithRemedy(err error, r Remedy) error {
	if err == nil {
		return nil
	}
	return &remedied{err, r}
}

// RemedyOf is the mark of err, Unmarked if it has none or is nil.
func RemedyOf(err error) Remedy {
	var e *remedied
	if errors.As(err, &e) {
		return e.remedy
	}
	return Unmarked
}

// otherwise marks err unless it is marked already.
func otherwise(err error, r Remedy) error {
	if err == nil || RemedyOf(err) != Unmarked {
		return err
	}
	return WithRemedy(err, r)
}

// Conditions that a caller may want to tell apart; see errors.Is.
var (
	// ErrDiverged: the committed offset and the changelog disagree for good.
	ErrDiverged = errors.New("the group's committed offset and the changelog disagree")
	// ErrLost: the changelog is empty, and there was something in it; or its beginning was
	// deleted, and is needed.
	ErrLost = errors.New("the changelog is lost")
	// ErrInputLost: the committed offset lies outside the input's bounds.
	ErrInputLost = errors.New("the input no longer holds the committed offset")
	// ErrReservedKey: a processor gave a state to a key that ValidKey refuses.
	ErrReservedKey = errors.New("a state was given to a reserved or empty key")
	// ErrStore: the store failed. It is restored from the changelog, if that is intact.
	ErrStore = errors.New("the state store failed")
	// ErrUnclean: the grace period ended before the outcome of the transaction
	// in hand was known. Nothing is lost: the next owner finds out.
	ErrUnclean = errors.New("stopped with a transaction in hand")
)
