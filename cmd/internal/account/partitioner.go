package account

import (
	"context"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
)

// CheckPartitioner looks whether any partition of a changelog was written under another
// partitioner than the settings', before a group is joined: the error is a task.ErrPartitioner.
// This counts for partitions without a mark too, whose users may have accounts in another one. A
// task makes sure of the same for its own partition. begun says that some partition has a mark,
// so that users may have accounts.
func CheckPartitioner(ctx context.Context, client *kafka.Client, settings engine.Settings,
	changelog string, partitions int32,
) (begun bool, err error) {
	own := settings.PartitionerName(int(partitions))
	for n := range partitions {
		mark, marked, err := topics.LastMark(ctx, client, changelog, n)
		if err != nil {
			return begun, err
		}
		if begun = begun || marked; !marked {
			continue
		}
		if err := task.CheckPartitioner(mark, own); err != nil {
			return true, err
		}
	}
	return begun, nil
}
