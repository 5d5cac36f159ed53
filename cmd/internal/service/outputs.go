package service

import (
	"context"
	"log/slog"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/wire"
)

// outputs tells in the log, and on /ready, that a topic cannot be written: it was deleted, has too
// few replicas in sync, or its leader is away. The service reads on until its memory for a
// transaction is full, and waits. So nothing else shows it soon: a producer repeats a request for a
// minute before it gives up.
//
// A partition's task notices when it has something to write, and the watch of topics when one is
// gone.
type outputs struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	failing map[string]*unwritten // by topic
}

// unwritten is a topic that somebody could not write when they tried last.
type unwritten struct {
	began   time.Time
	cause   error               // of the last failure
	callers map[string]struct{} // none if all that failed are gone, and none has written since
	told    bool
	pace    pace
}

// ofTransactions stands for the topics of all that a transaction needs beside its outputs.
const ofTransactions = "transactions"

// theWatch is the caller that only looks whether the topics are there.
const theWatch = "watch"

// outputPatience is how long a topic may refuse its records without a word, as it does while its
// leader changes.
const outputPatience = 2 * time.Second

func newOutputs(log *slog.Logger) *outputs {
	return &outputs{log: log, now: time.Now, failing: map[string]*unwritten{}}
}

// failed books an attempt of a caller to write to a topic.
func (o *outputs) failed(topic, caller string, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.failing[topic]
	if u == nil {
		u = &unwritten{callers: map[string]struct{}{}}
		o.failing[topic] = u
	}
	if len(u.callers) == 0 {
		u.began = o.now()
	}
	u.cause = cause
	u.callers[caller] = struct{}{}
}

// written books that a caller has written to a topic, or that the watch has found it there.
func (o *outputs) written(topic, caller string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := o.failing[topic]
	if u == nil {
		return
	}
	_, missed := u.callers[caller]
	delete(u.callers, caller)
	// A topic that is there may refuse its records all the same.
	if len(u.callers) > 0 || caller == theWatch && !missed {
		return
	}
	if u.told {
		o.log.Info("an output can be written again", "topic", topic, "after",
			o.now().Sub(u.began).Round(time.Millisecond))
	}
	delete(o.failing, topic)
}

// gone books that a caller writes no more, which says nothing of the topics. What the log was told
// of is kept for who writes there next: a topic that is made again fences all tasks first.
func (o *outputs) gone(caller string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for topic, u := range o.failing {
		delete(u.callers, caller)
		if len(u.callers) == 0 && !u.told {
			delete(o.failing, topic)
		}
	}
}

// unwritten are the topics that cannot be written by now. It tells the log of them, now and then.
func (o *outputs) unwritten() map[string]monitor.Unwritten {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[string]monitor.Unwritten{}
	now := o.now()
	for topic, u := range o.failing {
		since := now.Sub(u.began)
		if len(u.callers) == 0 || since < outputPatience {
			continue
		}
		found[topic] = monitor.Unwritten{Seconds: since.Seconds(), Cause: u.cause.Error()}
		if u.pace.due(now) {
			u.told = true
			o.log.Warn("an output cannot be written: its records wait and are not committed",
				"topic", topic, "for", since.Round(time.Second), "cause", u.cause)
		}
	}
	return found
}

// growing returns what keeps up the lag of a partition while its task waits for an output, and so
// reads nothing. It asks for the input's end once a second at most.
func growing(client *kafka.Client, topic string, partition int32, board *monitor.Partition) (
	func(ctx context.Context), error,
) {
	f, err := consumer.NewFetcher(client, topic, partition, consumer.FetcherOptions{
		Options: wire.Options{RequestTimeout: time.Second, RetryTimeout: time.Millisecond},
	})
	var asked time.Time
	return func(ctx context.Context) {
		if time.Since(asked) < time.Second {
			return
		}
		asked = time.Now()
		if end, err := f.High(ctx); err == nil {
			board.Ended(end)
		}
	}, err
}
