package gather

import (
	"context"
	"fmt"
	"slices"
	"testing"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/schemas"
)

// TestTopicInOrder: what a topic holds comes in the order of steps, whatever partition is read
// first, and what is written later comes too.
func TestTopicInOrder(t *testing.T) {
	const partitions, steps = 3, 2000
	broker, err := devbroker.Start(devbroker.Options{
		Topics: []devbroker.Topic{{Name: "out", Partitions: partitions}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client := &kafka.Client{Addr: kafka.TCP(broker.Addr())}
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		t.Fatal(err)
	}
	write := func(p, from, end int) {
		var written []kafka.Record
		for step := from; step < end; step++ {
			value, err := codec.AppendSanitized(nil, schemas.Sanitized{
				UserID: fmt.Sprint("user-", p), Step: int64(step), Kind: schemas.KindPredicted,
				Mechanism: "codebook", ModelID: "0123456789abcdef",
			})
			if err != nil {
				t.Fatal(err)
			}
			written = append(written, kafka.Record{Value: kafka.NewBytes(value)})
		}
		if _, err := client.Produce(t.Context(), &kafka.ProduceRequest{
			Topic: "out", Partition: p, RequiredAcks: kafka.RequireAll,
			Records: kafka.NewRecordReader(written...),
		}); err != nil {
			t.Fatal(err)
		}
	}
	for p := range partitions {
		write(p, 0, steps)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []int64
	err = Records{client, "out", schemas.JSON}.Follow(ctx, func(r schemas.Sanitized) error {
		seen = append(seen, r.Step)
		switch len(seen) {
		case partitions * steps:
			write(1, steps, steps+1)
		case partitions*steps + 1:
			cancel()
		}
		return nil
	})
	if err != nil || len(seen) != partitions*steps+1 || !slices.IsSorted(seen) {
		t.Errorf("%d records, in order: %v, %v", len(seen), slices.IsSorted(seen), err)
	}
}
