package doctor

import (
	"context"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
)

// accounts says whether a user could have a second account, and reports whether users may have one
// at all.
func (d *examination) accounts(ctx context.Context, partitions int) (begun bool) {
	const check = "accounts' places"
	begun, err := account.CheckPartitioner(ctx, d.client, d.o.Settings, d.o.Topics.Changelog,
		int32(partitions))
	switch {
	case err != nil:
		d.add(check, Failure, "%v", err)
	case begun:
		d.add(check, OK, "the changelog was written under the same partitioner")
	}
	return begun
}

// partitioner says how the records that were read came to their partitions, and whether
// that is what the config says.
func (d *examination) partitioner(placed *account.Placement, begun bool) {
	const check = "partitioner"
	by := d.o.Partitioner
	likely, known := placed.Likely()
	switch {
	case placed.Partitions() == 1:
		d.add(check, OK, "%s has one partition, so no record can lie in a wrong one",
			d.o.Topics.Raw)
	case placed.Users() == 0:
		d.add(check, Unchecked, "%s; no record could be looked at yet", by)
	case by == engine.AnyPartitioner && placed.Twice() > 0:
		d.add(check, Warning, "topics.partitioner is any, and %d of %d users were found in more "+
			"than one partition: each partition gives a user a budget of its own. Have every "+
			"producer use one partitioner, and set topics.partitioner to it",
			placed.Twice(), placed.Users())
	case by == engine.AnyPartitioner && known:
		d.add(check, OK, "any: no record is refused for its partition. The %d users found lie "+
			"where %s puts them: set topics.partitioner: %s to have that checked", placed.Users(),
			likely, likely)
	case by == engine.AnyPartitioner:
		d.add(check, OK, "any: no record is refused for its partition. None of the %d users was "+
			"found in two", placed.Users())
	case placed.Mostly(by):
		d.add(check, Failure, "%s", placed.Advice(by, d.o.Topics.Raw, begun))
	case placed.Misplaced(by) > 0:
		d.add(check, Warning, "%d of %d users found lie in another partition than %s puts them, "+
			"and %s: their records would be refused (wrong_partition). Before a first start set "+
			"topics.partitioner to the producers' own; later have every producer use %s",
			placed.Misplaced(by), placed.Users(), by, placed.Explain(by), by)
	default:
		d.add(check, OK, "the %d users found lie where %s puts them", placed.Users(), by)
	}
}
