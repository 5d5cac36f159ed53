package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/schemas"
)

// The budget of every user in a run. Each vehicle reports more often than that, so the
// budget is reached, and then predictions without ε answer the fixes.
const (
	fleetStep     = 30 * time.Second // of the model
	budgetEpsilon = 40
	budgetSteps   = 60
	budgetWindow  = budgetSteps * fleetStep
)

// secondEvery is how many fixes of the fleet go with one of the second producer.
const secondEvery = 50

// secondUsers is how many vehicles the second producer reports of as well: few enough
// that the topic as a whole is not taken for misplaced.
func (s settings) secondUsers() int { return min(20, max(1, s.Vehicles/10)) }

// feedSecond reports of some of the fleet's vehicles a second time, and writes the
// records where librdkafka's default partitioner puts them: mostly not where the
// fleet's own fixes of these vehicles are. Were they accepted, each vehicle would have a
// budget in both partitions. It begins when the fleet has begun, ends with it, and
// returns how many records it wrote.
func feedSecond(ctx, fleet context.Context, s settings, brokers []string) (int, error) {
	client, err := newClient(brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return 0, err
	}
	if err := fleetBegun(fleet, client, s); err != nil {
		return 0, nil // the fleet has ended, or the run
	}
	wait := time.Duration(float64(secondEvery) / s.rate() * float64(time.Second))
	began, first := time.Now(), time.Now().Add(-time.Duration(s.steps())*fleetStep)
	sent := 0
	for pause(fleet, wait) == nil {
		// Event time goes on as the fleet's does, which reports of all its steps in Duration.
		progress := min(time.Since(began).Seconds()/s.Duration.Seconds(), 1)
		step := first.UnixMilli()/fleetStep.Milliseconds() + int64(progress*float64(s.steps()))
		r, err := secondRecord(codec, s, sent, step)
		if err != nil {
			return sent, err
		}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return sent, fmt.Errorf("a record of the second producer: %w", err)
		}
		sent++
	}
	if ctx.Err() != nil {
		return sent, errors.New("interrupted")
	}
	return sent, nil
}

// fleetBegun waits until every vehicle may have reported.
func fleetBegun(ctx context.Context, client *kgo.Client, s settings) error {
	for {
		all, err := ends(ctx, client, rawTopic, s.Partitions, true)
		var fed int64
		for _, end := range all {
			fed += end
		}
		if err == nil && fed >= int64(s.Vehicles) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// secondRecord is the n-th record of the second producer, in a step. No two have both
// user and time in common, nor one with the fleet's, whose fixes are of full steps.
func secondRecord(codec *schemas.Codec, s settings, n int, step int64) (*kgo.Record, error) {
	user := fmt.Sprintf("sim-%06d", n%s.secondUsers()+1)
	at := step*fleetStep.Milliseconds() + 1 + int64(n)%(fleetStep.Milliseconds()-1)
	value, err := codec.AppendRaw(nil, schemas.Raw{UserID: user, Timestamp: at, Latitude: 53.43, Longitude: -2.94})
	if err != nil {
		return nil, err
	}
	return &kgo.Record{
		Topic: rawTopic, Partition: int32(crc32.ChecksumIEEE([]byte(user)) % uint32(s.Partitions)),
		Key: []byte(user), Value: value, Timestamp: time.Now(),
	}, nil
}
