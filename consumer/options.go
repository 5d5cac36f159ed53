package consumer

import (
	"errors"
	"time"
)

// Options are the settings of requests. The zero value is usable.
type Options struct {
	// RequestTimeout bounds one request and its answer, beyond the time that
	// the broker is asked to wait. Default 10 s.
	RequestTimeout time.Duration
	// RetryTimeout is how long a request is repeated; no attempt begins after
	// it. Default 30 s.
	RetryTimeout time.Duration
	// MinBackoff and MaxBackoff are the first and the longest pause between two
	// attempts; each pause is twice the one before. Default 10 ms and 500 ms.
	MinBackoff, MaxBackoff time.Duration
}

// Validate reports settings that cannot work.
func (o Options) Validate() error {
	if o.RequestTimeout < 0 || o.RetryTimeout < 0 || o.MinBackoff < 0 || o.MaxBackoff < 0 {
		return errors.New("consumer: a negative timeout or backoff: leave it 0 for the default")
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.RequestTimeout = orDefault(o.RequestTimeout, 10*time.Second)
	o.RetryTimeout = orDefault(o.RetryTimeout, 30*time.Second)
	o.MinBackoff = orDefault(o.MinBackoff, 10*time.Millisecond)
	o.MaxBackoff = max(o.MinBackoff, orDefault(o.MaxBackoff, 500*time.Millisecond))
	return o
}

func orDefault[T comparable](value, byDefault T) T {
	var zero T
	if value == zero {
		return byDefault
	}
	return value
}
