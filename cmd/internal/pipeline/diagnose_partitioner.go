package pipeline

import (
	"context"
	"errors"

	"github.com/geodither/geodither/cmd/internal/engine"
)

// homes says whether users have their states where the config puts them, and reports
// whether users may have states at all.
func (d *diagnosis) homes(ctx context.Context, partitions int) (begun bool) {
	const check = "accounts' places"
	found, err := (&homeCheck{client: d.client, call: d.call, o: d.o}).check(ctx, int32(partitions))
	var moved *MovedError
	switch {
	case errors.As(err, &moved) && d.o.AcceptLost:
		d.add(check, LevelWarning, "accept_lost_account is set, so run would go on: %v", err)
	case err != nil:
		d.add(check, LevelFailure, "%v", err)
	case found.other && d.o.Partitioner == engine.AnyPartitioner:
		d.add(check, LevelWarning, "%s", anyVouches)
	case found.begun:
		d.add(check, LevelOK, "topics.partitioner moves nobody away from a state")
	}
	return found.begun
}

// partitioner says how the records that were read came to their partitions, and whether
// that is what the config says.
func (d *diagnosis) partitioner(placed *placement, begun bool) {
	const check = "partitioner"
	by := d.o.Partitioner
	likely, known := placed.likely()
	switch {
	case placed.partitions == 1:
		d.add(check, LevelOK, "%s has one partition, so no record can lie in a wrong one", d.o.Topics.Raw)
	case placed.pairs == 0:
		d.add(check, LevelOK, "%s; no record could be looked at yet", by)
	case by == engine.AnyPartitioner && placed.twice > 0:
		d.add(check, LevelWarning, "topics.partitioner is any, and %d of %d users were found in more than one partition: "+
			"each partition gives a user a budget of its own. Have every producer use one partitioner, and set topics.partitioner to it",
			placed.twice, len(placed.users))
	case by == engine.AnyPartitioner && known:
		d.add(check, LevelOK, "any: no record is refused for its partition. The %d users found lie where %s puts them: "+
			"set topics.partitioner: %s to have that checked", len(placed.users), likely, likely)
	case by == engine.AnyPartitioner:
		d.add(check, LevelOK, "any: no record is refused for its partition. None of the %d users was found in two", len(placed.users))
	case placed.mostly(by):
		d.add(check, LevelFailure, "%s", placed.advice(by, d.o.Topics.Raw, begun))
	case placed.misplaced[by] > 0:
		d.add(check, LevelWarning, "%d of %d users found lie in another partition than %s puts them, and %s: "+
			"these records would be refused (wrong_partition). Have every producer use %s",
			placed.misplaced[by], placed.pairs, by, placed.explain(by), by)
	default:
		d.add(check, LevelOK, "the %d users found lie where %s puts them", len(placed.users), by)
	}
}

// explain says which partitioner puts the misplaced users where they are, if one does.
func (p *placement) explain(by engine.Partitioner) string {
	for _, other := range engine.Partitioners() {
		if p.strays[[2]engine.Partitioner{by, other}] == p.misplaced[by] {
			return string(other) + " (" + other.Who() + ") puts them there"
		}
	}
	return "no partitioner that is known puts all of them there"
}
