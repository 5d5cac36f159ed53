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

// plants are faults of the topics themselves, by name: what the checks are for.
// The service has stopped when they are planted.
var plants = map[string]func(context.Context, *harness, *witness) error{
	"budget":    plantBudget,
	"duplicate": plantDuplicate,
	"lost":      plantLost,
	"differing": plantDiffering,
	"reader":    plantReader,
}

func plantNames() []string { return slices.Sorted(maps.Keys(plants)) }

// plantDuplicate publishes a sanitized record a second time.
func plantDuplicate(ctx context.Context, h *harness, _ *witness) error {
	r, err := h.published(ctx)
	if err != nil {
		return err
	}
	return h.publish(ctx, r)
}

// plantBudget publishes releases of a user in another partition, as a service would that
// keeps a budget there too.
func plantBudget(ctx context.Context, h *harness, _ *witness) error {
	r, err := h.published(ctx)
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
	r.Partition = (r.Partition + 1) % int32(h.Partitions)
	for range budgetEpsilon + 1 {
		release.Step++
		release.Timestamp += fleetStep.Milliseconds()
		if r.Value, err = codec.AppendSanitized(nil, release); err != nil {
			return err
		}
		again := *r
		if err := h.publish(ctx, &again); err != nil {
			return err
		}
	}
	return nil
}

// plantLost writes a raw record that nobody answers.
func plantLost(ctx context.Context, h *harness, _ *witness) error {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return err
	}
	value, err := codec.AppendRaw(nil, schemas.Raw{UserID: "planted", Timestamp: h.began.UnixMilli(), Latitude: 53.43, Longitude: -2.94})
	if err != nil {
		return err
	}
	h.fed.odd++
	return h.publish(ctx, &kgo.Record{Topic: rawTopic, Key: []byte("planted"), Value: value})
}

// plantDiffering writes another release of a fix in a transaction, and aborts it:
// only a read_uncommitted reader can see it.
func plantDiffering(ctx context.Context, h *harness, _ *witness) error {
	r, err := h.published(ctx)
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
	release.Latitude += 1e-9
	if r.Value, err = codec.AppendSanitized(nil, release); err != nil {
		return err
	}
	client, err := newClient(h.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID("plant"), kgo.TransactionTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	return errors.Join(client.ProduceSync(ctx, r).FirstErr(), client.EndTransaction(ctx, kgo.TryAbort))
}

// plantReader makes the concurrent reader forget a record, as if it had been
// published unseen.
func plantReader(_ context.Context, _ *harness, w *witness) error {
	for p, saw := range w.saw[sanitizedTopic] {
		if len(saw) > 0 {
			w.saw[sanitizedTopic][p] = saw[:len(saw)-1]
			return nil
		}
	}
	return errors.New("the reader saw nothing")
}

// published returns one committed sanitized record.
func (h *harness) published(ctx context.Context) (*kgo.Record, error) {
	var found *kgo.Record
	err := scan(ctx, h.brokers, sanitizedTopic, h.Partitions, false, func(r *kgo.Record) {
		if found == nil && !r.Attrs.IsControl() {
			found = &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}
		}
	})
	if err == nil && found == nil {
		err = errors.New("nothing was published")
	}
	return found, err
}

// publish writes a record as anybody could.
func (h *harness) publish(ctx context.Context, r *kgo.Record) error {
	client, err := newClient(h.brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, r).FirstErr()
}
