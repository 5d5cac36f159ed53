package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/schemas"
)

// plants are broken promises in the topics themselves, by name: each must make the checks fail.
// They are planted after the service has stopped.
var plants = map[string]func(context.Context, stage) error{
	"budget":    plantBudget,
	"duplicate": plantDuplicate,
	"lost":      plantLost,
	"differing": plantDiffering,
	"reader":    plantReader,
}

// stage is where a fault is planted.
type stage struct {
	brokers    []string
	partitions int
	began      time.Time // of the run
	witness    *witness
	fed        *fed // counts what a plant feeds
}

// plantNames lists the plants in order.
func plantNames() []string { return slices.Sorted(maps.Keys(plants)) }

// plantDuplicate publishes a sanitized record a second time.
func plantDuplicate(ctx context.Context, at stage) error {
	r, err := at.published(ctx)
	if err != nil {
		return err
	}
	return at.publish(ctx, r)
}

// plantBudget publishes releases of a user in another partition, as a service would if it kept
// a budget for the user there too.
func plantBudget(ctx context.Context, at stage) error {
	r, err := at.published(ctx)
	if err != nil {
		return err
	}
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return err
	}
	release, err := codec.DecodeSanitized(r.Value)
	if err != nil {
		return err
	}
	release.Kind, release.Epsilon = schemas.KindReleased, 1
	r.Partition = (r.Partition + 1) % int32(at.partitions)
	for range budgetEpsilon + 1 {
		release.Step++
		release.Timestamp += fleetStep.Milliseconds()
		if r.Value, err = codec.AppendSanitized(nil, release); err != nil {
			return err
		}
		again := *r
		if err := at.publish(ctx, &again); err != nil {
			return err
		}
	}
	return nil
}

// plantLost writes a raw record that nobody answers.
func plantLost(ctx context.Context, at stage) error {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return err
	}
	value, err := codec.AppendRaw(nil, schemas.Raw{
		UserID: "planted", Timestamp: at.began.UnixMilli(), Latitude: 53.43, Longitude: -2.94,
	})
	if err != nil {
		return err
	}
	at.fed.odd++
	return at.publish(ctx, &kgo.Record{Topic: rawTopic, Key: []byte("planted"), Value: value})
}

// plantDiffering writes another release of a fix in a transaction and aborts it, so only a
// read_uncommitted reader can see it.
func plantDiffering(ctx context.Context, at stage) error {
	r, err := at.published(ctx)
	if err != nil {
		return err
	}
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return err
	}
	release, err := codec.DecodeSanitized(r.Value)
	if err != nil {
		return err
	}
	release.ReleaseLatitude = schemas.Some(release.ReleaseLatitude.Number + 1e-9)
	if r.Value, err = codec.AppendSanitized(nil, release); err != nil {
		return err
	}
	client, err := newClient(at.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID("plant"), kgo.TransactionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	return errors.Join(client.ProduceSync(ctx, r).FirstErr(),
		client.EndTransaction(ctx, kgo.TryAbort))
}

// plantReader makes the witness forget a record, as if it had never seen it.
func plantReader(_ context.Context, at stage) error {
	for p, saw := range at.witness.saw[sanitizedTopic] {
		if len(saw) > 0 {
			at.witness.saw[sanitizedTopic][p] = saw[:len(saw)-1]
			return nil
		}
	}
	return errors.New("the reader saw nothing")
}

// published returns one committed sanitized record.
func (at stage) published(ctx context.Context) (*kgo.Record, error) {
	var found *kgo.Record
	err := scan(ctx, at.brokers, sanitizedTopic, at.partitions, false, func(r *kgo.Record) {
		if found == nil && !r.Attrs.IsControl() {
			found = &kgo.Record{
				Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
				Timestamp: r.Timestamp,
			}
		}
	})
	if err == nil && found == nil {
		err = errors.New("nothing was published")
	}
	return found, err
}

// publish writes a record to its partition.
func (at stage) publish(ctx context.Context, r *kgo.Record) error {
	client, err := newClient(at.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, r).FirstErr()
}
