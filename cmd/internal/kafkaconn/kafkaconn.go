// Package kafkaconn is where commands and the service get their connections to Kafka.
package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// NewClient returns a client of brokers given as host:port. It connects to nothing before it is
// used. TLS, SASL and the client id are set on its transport, here and nowhere else.
func NewClient(brokers []string) *kafka.Client {
	return &kafka.Client{
		Addr: kafka.TCP(brokers...),
		Transport: &kafka.Transport{
			ClientID:    "geodither",
			DialTimeout: 5 * time.Second,
			MetadataTTL: time.Second, // how long a new topic or a moved leader goes unnoticed
		},
	}
}

// patience is how long Connect waits for a broker before it says that there is none.
const patience = 5 * time.Second

// Connect returns a client whose brokers have answered, for commands that a person waits for.
// Requests that follow wait longer for brokers that are away, because they were there.
func Connect(ctx context.Context, brokers []string) (*kafka.Client, error) {
	return connect(ctx, brokers, patience)
}

func connect(ctx context.Context, brokers []string, patience time.Duration) (
	*kafka.Client, error,
) {
	if len(brokers) == 0 {
		return nil, cli.Usagef("--brokers names none: want HOST:PORT,...")
	}
	client := NewClient(brokers)
	err := admin.Ping(ctx, client, wire.Options{RequestTimeout: patience})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, fmt.Errorf("no answer from %s within %v: is Kafka running there? (%w)",
			strings.Join(brokers, ", "), patience, err)
	}
	return client, err
}
