package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// connectPatience is how long a command that a person runs waits for a broker
// before it says that there is none.
const connectPatience = 5 * time.Second

// connect returns a client whose brokers have answered. What comes after it
// waits for brokers that are away for longer: they were there.
func connect(ctx context.Context, brokers []string) (*kafka.Client, error) {
	if len(brokers) == 0 {
		return nil, cli.Usagef("--brokers names none: want HOST:PORT,...")
	}
	client := pipeline.NewClient(brokers)
	err := admin.Ping(ctx, client, wire.Options{RequestTimeout: connectPatience})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, fmt.Errorf("no answer from %s within %v: is Kafka running there? (%w)", strings.Join(brokers, ", "), connectPatience, err)
	}
	return client, err
}
