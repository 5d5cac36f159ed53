//go:build kafka

package kafkatest

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/geodither/geodither/schemas"
)

// fed counts the records that went into the raw topic, by producer.
type fed struct{ fleet, odd, second int }

func (f fed) all() int { return f.fleet + f.odd + f.second }

// feeder fills the raw topic.
type feeder struct {
	settings
	binary, model string
	brokers       []string
	log           io.Writer // of "geodither produce"
	ended         func()    // is called when the fleet has ended
}

// feed runs all producers until the fleet has ended.
func (f *feeder) feed(ctx context.Context) (sent fed, err error) {
	sent.fleet = f.steps() * f.Vehicles
	group, ctx := errgroup.WithContext(ctx)
	fleet, end := context.WithCancel(ctx)
	defer end()
	group.Go(func() error {
		defer end()
		defer f.ended()
		return f.feedFleet(ctx)
	})
	group.Go(func() (err error) {
		sent.odd, err = f.feedOdd(ctx, fleet)
		return err
	})
	group.Go(func() (err error) {
		sent.second, err = f.feedSecond(ctx, fleet)
		return err
	})
	err = group.Wait()
	return sent, err
}

// feedFleet runs "geodither produce" with a simulated fleet to its end.
func (f *feeder) feedFleet(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, f.binary, "produce",
		"--brokers", strings.Join(f.brokers, ","), "--topic", rawTopic,
		"--simulate", strconv.Itoa(f.Vehicles), "--steps", strconv.Itoa(f.steps()),
		"--model", f.model,
		"--rate", strconv.FormatFloat(f.rate(), 'f', 3, 64))
	cmd.Stdout, cmd.Stderr = f.log, f.log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("geodither produce: %w", err)
	}
	return nil
}

// besideEvery is the number of the fleet's fixes for each odd record, and for each of the second
// producer.
const besideEvery = 50

// feedOdd writes records that the fleet does not write: several sorts that the service refuses,
// repeats within a step, and late ones.
func (f *feeder) feedOdd(ctx, fleet context.Context) (int, error) {
	start := time.Now().Add(-6 * time.Hour)
	by := kgo.StickyKeyPartitioner(nil)
	return f.beside(ctx, fleet, by, func(c *schemas.Codec, n int) (*kgo.Record, error) {
		return oddRecord(c, n, start)
	})
}

// beside writes a record for every some of the fleet's fixes, until the fleet's context ends. It
// returns the number of records.
func (f *feeder) beside(
	ctx, fleet context.Context, by kgo.Partitioner,
	record func(codec *schemas.Codec, n int) (*kgo.Record, error),
) (sent int, err error) {
	client, err := newClient(f.brokers, kgo.RecordPartitioner(by))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return 0, err
	}
	if err := fleetBegun(fleet, client, f.settings); err != nil {
		return 0, nil // the fleet has ended, or the run
	}
	wait := time.Duration(besideEvery / f.rate() * float64(time.Second))
	for ; pause(fleet, wait) == nil; sent++ {
		r, err := record(codec, sent)
		if err != nil {
			return sent, err
		}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return sent, fmt.Errorf("a record beside the fleet's: %w", err)
		}
	}
	return sent, ctx.Err()
}

// oddRecord returns the n-th odd record. No two have the same user and time, because these
// identify a fix.
func oddRecord(codec *schemas.Codec, n int, start time.Time) (*kgo.Record, error) {
	const sorts, users, step = 7, 10, 30 * time.Second
	user := fmt.Sprintf("odd-%d", n/sorts%users)
	at := start.Add(time.Duration(n/sorts/users) * step).UnixMilli()
	key := user
	switch n % sorts {
	case 1: // within the same step
		at += 7
	case 2: // of an earlier step
		at -= (10 * step).Milliseconds() - 1
	case 3: // ahead of the record's own time
		at += (20 * time.Hour).Milliseconds()
	case 4: // of another user than the key says
		at, key = at+2, "somebody"
	}
	fix := schemas.Raw{UserID: user, Timestamp: at, Latitude: 53.43, Longitude: -2.94}
	value, err := codec.AppendRaw(nil, fix)
	if err != nil {
		return nil, err
	}
	switch n % sorts {
	case 5: // cut short
		value = value[:len(value)-3]
	case 6: // no value at all
		value = nil
	}
	return &kgo.Record{Topic: rawTopic, Key: []byte(key), Value: value, Timestamp: time.Now()}, nil
}

// feedSecond reports some of the fleet's vehicles a second time. It writes the records to the
// partitions that librdkafka's default partitioner chooses, which mostly are not the partitions
// of the fleet's own fixes. If the service accepted them, each vehicle would have a budget in
// both partitions.
func (f *feeder) feedSecond(ctx, fleet context.Context) (int, error) {
	first, began := time.Now().Add(-time.Duration(f.steps())*fleetStep), time.Time{}
	by := kgo.ManualPartitioner()
	return f.beside(ctx, fleet, by, func(c *schemas.Codec, n int) (*kgo.Record, error) {
		if n == 0 {
			began = time.Now()
		}
		// Event time advances as the fleet's does, which reports all its steps within Duration.
		progress := min(time.Since(began).Seconds()/f.Duration.Seconds(), 1)
		step := first.UnixMilli()/fleetStep.Milliseconds() + int64(progress*float64(f.steps()))
		return secondRecord(c, f.settings, n, step)
	})
}

// fleetBegun waits until the topic has as many records as there are vehicles.
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

// secondRecord returns the n-th record of the second producer, for a step. No two records have
// the same user and time. Nor has any the time of a fleet's fix, which is that of a full step.
func secondRecord(codec *schemas.Codec, s settings, n int, step int64) (*kgo.Record, error) {
	user := fmt.Sprintf("sim-%06d", n%s.secondUsers()+1)
	at := step*fleetStep.Milliseconds() + 1 + int64(n)%(fleetStep.Milliseconds()-1)
	value, err := codec.AppendRaw(nil, schemas.Raw{
		UserID: user, Timestamp: at, Latitude: 53.43, Longitude: -2.94,
	})
	if err != nil {
		return nil, err
	}
	return &kgo.Record{
		Topic: rawTopic, Partition: int32(crc32.ChecksumIEEE([]byte(user)) % uint32(s.Partitions)),
		Key: []byte(user), Value: value, Timestamp: time.Now(),
	}, nil
}
