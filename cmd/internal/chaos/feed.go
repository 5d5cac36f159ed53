package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/geodither/geodither/schemas"
)

// feedFleet runs "geodither produce" with a simulated fleet to its end.
func feedFleet(ctx context.Context, s settings, binary, model string, brokers []string, log io.Writer) error {
	cmd := exec.CommandContext(ctx, binary, "produce",
		"--brokers", strings.Join(brokers, ","), "--topic", rawTopic,
		"--simulate", strconv.Itoa(s.Vehicles), "--steps", strconv.Itoa(s.steps()), "--model", model,
		"--seed", strconv.FormatUint(s.Seed, 10), "--rate", strconv.FormatFloat(s.rate(), 'f', 3, 64))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("geodither produce: %w", err)
	}
	return nil
}

// oddEvery is how many fixes of the fleet go with an odd record.
const oddEvery = 50

// feedOdd writes records that the fleet does not: refused ones of several sorts,
// repeats within a step, late ones. It ends with the context of the fleet and
// returns how many it wrote.
func feedOdd(ctx, fleet context.Context, s settings, brokers []string) (int, error) {
	client, err := newClient(brokers, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		return 0, err
	}
	wait := time.Duration(float64(oddEvery) / s.rate() * float64(time.Second))
	start := time.Now().Add(-6 * time.Hour)
	sent := 0
	for pause(fleet, wait) == nil {
		r, err := oddRecord(codec, sent, start)
		if err != nil {
			return sent, err
		}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return sent, fmt.Errorf("an odd record: %w", err)
		}
		sent++
	}
	if ctx.Err() != nil {
		return sent, errors.New("interrupted")
	}
	return sent, nil
}

// oddRecord is the n-th odd record. No two have both user and time in common:
// that is how a fix is told from others.
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
