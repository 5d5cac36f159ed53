package task

import (
	"context"
	"fmt"
)

// The changelog holds every key's state, and with it whatever the processor counts
// there: an account that must not start over unseen. So an empty changelog is good
// only where nothing was ever processed. What says that something was:
//
//   - The group's committed offset, if it is not 0. Every offset that a task commits
//     comes with a mark, and nothing lies before offset 0. An offset that somebody has
//     set by hand looks the same, and has to be vouched for (Options.AcceptLost).
//   - A store that a transaction has written. It may be the only copy left, so it is
//     neither wiped nor written to. Who accepts the loss gives it up: a Keeper keeps a
//     copy first.
//   - The changelog's start, if it is not 0: retention or somebody has deleted records.
//
// A changelog that has lost its beginning, and still has its last mark, is lost too for
// whoever has to restore all of it: users whose states were in that part would start over.
// A store that is ahead of that part has them, so a task with such a store goes on.
//
// A changelog that is deleted and made again while a task works shows at the task's
// next transaction: its records lie at lower offsets than those that were there
// already. That is seen before the commit, so nothing is committed beside an empty
// changelog; the task drops the transaction and is assigned again, which finds the
// loss.

// isLost reports whether the changelog holds nothing though something was processed.
// Records without a mark are another matter: they are not of this package.
func (r *replay) isLost(committed int64) bool {
	return !r.last.found && r.last.seen == 0 && (r.known || committed > 0 || r.cut)
}

// lostError says what speaks for the loss, and what can be done.
func (r *replay) lostError(committed int64) error {
	known := ""
	switch {
	case committed > 0 && r.known:
		known = fmt.Sprintf("the group is at input offset %d and the store here has the states "+
			"up to %d", committed, r.from.Input)
	case committed <= 0 && !r.known:
		known = "records were deleted from its beginning"
	case r.known:
		known = fmt.Sprintf("the store here has the states up to input offset %d", r.from.Input)
	default:
		known = fmt.Sprintf("the group is at input offset %d", committed)
	}
	return fmt.Errorf("%w: %s, but the changelog is empty: it was deleted, emptied or made "+
		"again. %s", ErrLost, known, WaysOut)
}

// cutError says that the changelog has lost its beginning, and why the store does not
// help: full is the reason for a restore in full.
func cutError(first int64, full string) error {
	return fmt.Errorf("%w: it begins at offset %d, since retention or somebody has deleted what "+
		"was before, and all of it is needed here (%s). A user whose state was in that part would "+
		"have an account of ε that starts at 0 again. Stop all instances. Then restore the topic "+
		"from a mirror or a backup; or delete it and write it back from intact state folders: "+
		"\"geodither state rebuild-changelog --from-store\". If that part is lost for good, set "+
		"accept_lost_account: true for one start: what those users have spent so far then counts "+
		"no more, and adds to what is spent from there on. An instance without a state folder "+
		"needs that again, until the topic was deleted and written back", ErrLost, first, full)
}

// WaysOut says what can be done about a changelog that is lost.
const WaysOut = "The changelog holds every user's state and account of ε: to go on without it " +
	"would start every account at 0. Stop all instances. Then restore the topic from a mirror or " +
	"a backup; or write it back " +
	"from an intact state folder: \"geodither state rebuild-changelog --from-store\". If it is " +
	"lost for good, or if the group's offset " +
	"was set by hand before the first start, set accept_lost_account: true for one start: what " +
	"each user has " +
	"spent so far then counts no more, and adds to what is spent from there on"

// sameChangelog reports a changelog that was deleted and made again, or cut, since it
// was restored: end is where it ends after n records of the transaction in hand.
func (t *Task) sameChangelog(end int64, n int) error {
	if end-int64(n) >= t.tail {
		return nil
	}
	return WithRemedy(fmt.Errorf("the changelog was at offset %d already, and now has %d records "+
		"up to %d: "+
		"was it deleted and made again? Nothing of this is committed", t.tail, n, end), Rebuild)
}

// beginAccount commits a mark alone behind a loss that was accepted, so that it need
// not be accepted again. What a predecessor has shown beyond it is not known.
func (t *Task) beginAccount(work context.Context, stable int64) error {
	t.seen = stable
	return t.commit(work, !t.closes())
}
