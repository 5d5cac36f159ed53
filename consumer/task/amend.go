package task

import (
	"context"
	"fmt"
)

// propose asks what to adopt now. It is asked at a transaction's boundary only, and
// only where a reader of uncommitted data cannot have seen anything from t.next on:
// there, nothing has been made without the amendment that could come again with it.
// Behind a mark that was found open that is where all is committed that there was to
// read. Settings that replace others, known ones, may bring amendments with them at once:
// either the mark is closed, or somebody has accepted two results (AcceptSettings).
func (t *Task) propose() ([][]byte, error) {
	if t.d.Amender == nil || t.records > 0 || !t.closes() && !t.other(t.mark) {
		return nil, nil
	}
	proposed := t.d.Amender.Propose()
	if n := len(proposed) + len(t.nextMark(true).Amendments); n > MaxAmendments {
		return nil, WithRemedy(fmt.Errorf("%d amendments are proposed, %d are the most: this is a bug, please report it", n, MaxAmendments), Fatal)
	}
	for _, name := range proposed {
		if !ValidName(name) {
			return nil, WithRemedy(fmt.Errorf("an amendment is proposed with a name of %d bytes: this is a bug, please report it", len(name)), Fatal)
		}
	}
	return proposed, nil
}

// adopt commits a mark alone, with what was proposed, in force from t.next on. Only
// then does the processor hear of it. If it is not known how the commit has ended,
// the next start finds out: the mark has it or has it not, and nothing was made of it.
func (t *Task) adopt(work context.Context, proposed [][]byte, open bool) error {
	t.proposed = proposed
	err := t.commit(work, open)
	t.proposed = nil
	if err != nil || len(proposed) == 0 {
		return err
	}
	return t.amended(t.mark.Amendments)
}

// adoptIdle adopts where no record is in sight, so that most adoptions are there long
// before the first record that they are for. Nothing is shown, so a closed mark stays so.
func (t *Task) adoptIdle(work context.Context) error {
	if t.ended() {
		return nil
	}
	proposed, err := t.propose()
	if err != nil || len(proposed) == 0 {
		return err
	}
	return t.adopt(work, proposed, t.mark.Open)
}

// amended tells the processor what is in force.
func (t *Task) amended(list []Amendment) error {
	if t.d.Amender == nil {
		if len(list) > 0 {
			return WithRemedy(fmt.Errorf("%w: %d amendments up to offset %d", ErrAmended, len(list), t.next), Fatal)
		}
		return nil
	}
	return t.d.Amender.Amended(list)
}
