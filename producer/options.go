package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// Options are the settings of a producer. The zero value is usable.
type Options struct {
	// TransactionTimeout is how long Kafka leaves a transaction open before it aborts it. So a dead
	// worker blocks readers of its output for at most that long. Default 60 s; the broker's
	// transaction.max.timeout.ms is the upper limit.
	TransactionTimeout time.Duration
	// RequestTimeout bounds one request and its answer. Default 10 s.
	RequestTimeout time.Duration
	// RetryTimeout is how long a request is repeated, also that of Commit and Abort. No attempt
	// begins after it, and one that has begun may take its RequestTimeout. Init waits as long for a
	// predecessor's transaction to end. Default 60 s.
	RetryTimeout time.Duration
	// MinBackoff and MaxBackoff are the first and the longest pause between two attempts; each
	// pause is twice the one before. Default 5 ms and 500 ms.
	MinBackoff, MaxBackoff time.Duration
	// MaxBatchBytes bounds an encoded record batch before compression. Default 1 MiB, just under
	// the broker's default message.max.bytes of 1,048,588.
	MaxBatchBytes int
	// Retrying is told of each attempt that failed and is made again, before the pause: a caller
	// hears of RetryTimeout's end only. Default: nobody is told.
	Retrying func(context.Context, *Error)
	// Compression of the record batches; none by default: posteriors are dense already.
	Compression kafka.Compression
}

// Smallest and largest MaxBatchBytes: a batch of one small record, and what the batch's 32-bit
// length can hold with room for the request around it.
const (
	minBatchBytes = 1 << 10
	maxBatchBytes = 1 << 30
)

// Validate returns an error about settings that cannot work.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.TransactionTimeout < time.Millisecond || o.TransactionTimeout > 1<<31*time.Millisecond-1:
		return fmt.Errorf("producer: TransactionTimeout %v is not 1 ms to 24 days",
			o.TransactionTimeout)
	case o.RequestTimeout < 0 || o.RetryTimeout < 0 || o.MinBackoff < 0 || o.MaxBackoff < 0:
		return errors.New("producer: a negative timeout or backoff")
	case o.MaxBackoff < o.MinBackoff:
		return fmt.Errorf("producer: MaxBackoff %v is below MinBackoff %v",
			o.MaxBackoff, o.MinBackoff)
	case o.MaxBatchBytes < minBatchBytes || o.MaxBatchBytes > maxBatchBytes:
		return fmt.Errorf("producer: MaxBatchBytes %d is not %d to %d", o.MaxBatchBytes,
			minBatchBytes, maxBatchBytes)
	case o.Compression != 0 && o.Compression.Codec() == nil:
		return fmt.Errorf("producer: compression %d: use gzip, snappy, lz4 or zstd", o.Compression)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.TransactionTimeout = cmp.Or(o.TransactionTimeout, time.Minute)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 10*time.Second)
	o.RetryTimeout = cmp.Or(o.RetryTimeout, time.Minute)
	o.MinBackoff = cmp.Or(o.MinBackoff, 5*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 500*time.Millisecond)
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 1<<20)
	if o.Retrying == nil {
		o.Retrying = func(context.Context, *Error) {}
	}
	return o
}
