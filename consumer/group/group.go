package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/geodither/geodither/consumer/wire"
	kafka "github.com/segmentio/kafka-go"
)

// Options are the settings of a Group; ID and Topic have no default.
type Options struct {
	wire.Options
	ID    string // of the consumer group
	Topic string // whose partitions the members share
	// InstanceID makes the member static (group.instance.id, KIP-345): a process
	// that comes back under it within SessionTimeout finds its partitions as it
	// left them, and the others do not notice. Each instance needs one of its
	// own. Empty: the member is dynamic.
	InstanceID string
	// Settings are what this member works under, in bytes that are opaque here and equal
	// for members that may work side by side; at most 256. Where members of a group
	// differ, those that have the partitions go on, and the others leave with a
	// SettingsError. Empty: it fits all.
	Settings []byte
	// SessionTimeout is how long the coordinator waits for a sign of life
	// before it gives a member's partitions to others. Default 30 s.
	SessionTimeout time.Duration
	// HeartbeatInterval is the time between signs of life, and so the delay
	// with which a member learns of a new generation. Default 1 s; at most a
	// third of SessionTimeout.
	HeartbeatInterval time.Duration
	// RebalanceTimeout is how long the others wait for a member to finish its
	// work and to join the new generation. Default 30 s.
	RebalanceTimeout time.Duration
	// WatchInterval is how often the topic is checked for new partitions.
	// Default 5 s.
	WatchInterval time.Duration
	// Retrying, if set, is told of errors that the group is going to retry: of
	// the first, and while they last less and less often, down to every 5 s. It
	// is called from the group's own goroutine.
	Retrying func(error)
}

// longestSilence is the longest pause between two calls of Retrying while
// attempts keep failing.
const longestSilence = 5 * time.Second

func (o Options) withDefaults() Options {
	o.Options = o.Options.WithDefaults()
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 30*time.Second)
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, min(time.Second, o.SessionTimeout/3))
	o.RebalanceTimeout = cmp.Or(o.RebalanceTimeout, 30*time.Second)
	o.WatchInterval = cmp.Or(o.WatchInterval, 5*time.Second)
	return o
}

// Validate reports settings that cannot work.
func (o Options) Validate() error {
	if err := o.Options.Validate(); err != nil {
		return err
	}
	if o.ID == "" || o.Topic == "" {
		return errors.New("consumer: a group needs an ID and a Topic")
	}
	if len(o.Settings) > maxSettingsBytes {
		return fmt.Errorf("consumer: Settings have %d bytes, %d are the most", len(o.Settings), maxSettingsBytes)
	}
	if o.SessionTimeout < 0 || o.HeartbeatInterval < 0 || o.RebalanceTimeout < 0 || o.WatchInterval < 0 {
		return errors.New("consumer: a negative timeout or interval: leave it 0 for the default")
	}
	if d := o.withDefaults(); 3*d.HeartbeatInterval > d.SessionTimeout {
		return fmt.Errorf("consumer: HeartbeatInterval %v is more than a third of SessionTimeout %v", d.HeartbeatInterval, d.SessionTimeout)
	}
	return nil
}

// Member is a membership in a consumer group. Every change of members or
// partitions begins a new generation: the old one's work is stopped before the
// next begins. DESIGN.md says how it goes about it.
type Member struct {
	client  *kafka.Client
	options Options

	next    chan *Generation // handed over while it lasts
	running running          // functions of all generations

	closing  context.Context // ends when Close begins
	close    context.CancelFunc
	once     sync.Once
	leaving  atomic.Bool   // Close is to give the membership up
	patience chan struct{} // closed when Close has waited long enough for functions
	done     chan struct{} // closed when the group's goroutine has ended
	failure  error         // why it ended by itself, if it did; after done
	left     error         // what leaving came to; after done

	mu   sync.Mutex
	last error // the last one that is being retried, nil once a generation has begun

	kept memory // the group's goroutine's own
}

// Join starts joining in the background.
func Join(client *kafka.Client, o Options) (*Member, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if client.Addr == nil {
		return nil, errors.New("consumer: the client has no broker address")
	}
	g := &Member{
		client: client, options: o.withDefaults(), next: make(chan *Generation),
		patience: make(chan struct{}), done: make(chan struct{}),
		kept: memory{last: said{claim: claim{generation: -1}, settings: o.Settings}},
	}
	g.closing, g.close = context.WithCancel(context.Background())
	go g.run()
	return g, nil
}

// Next waits for the next generation, and before that for everything that was
// started in the last one. Temporary errors, of which an unreachable broker is
// one, are retried until the context ends. Any other error is final: the member
// is out, and every later call returns it again. kafka.ErrGroupClosed follows
// Close.
func (g *Member) Next(ctx context.Context) (*Generation, error) {
	for {
		select {
		case gen := <-g.next:
			// What was started when its generation had just ended may still run.
			select {
			case <-g.running.idle():
				return gen, nil
			case <-gen.life.ctx.Done():
			case <-ctx.Done():
				return nil, g.unfinished(ctx)
			}
		case <-g.done:
			if g.failure != nil {
				return nil, g.failure
			}
			return nil, kafka.ErrGroupClosed
		case <-ctx.Done():
			return nil, g.unfinished(ctx)
		}
	}
}

// unfinished is the context's error, with what the group was struggling with.
func (g *Member) unfinished(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil {
		return fmt.Errorf("%w; last: %w", ctx.Err(), g.last)
	}
	return ctx.Err()
}

// Close ends the current generation, waits for what was started in it, for
// RebalanceTimeout at most, and stops. A dynamic member leaves the group then. A
// static one says nothing, and keeps its partitions until the session timeout:
// its next process has until then to take them up. An error says that a function
// still runs, or that the coordinator could not be told; the group is closed all
// the same. Safe to repeat.
func (g *Member) Close() error { return g.shut(g.options.InstanceID == "") }

// Leave is Close, but a static member leaves the group too: the others get its
// partitions at once.
func (g *Member) Leave() error { return g.shut(true) }

func (g *Member) shut(leave bool) error {
	g.once.Do(func() {
		g.leaving.Store(leave)
		limit := time.AfterFunc(g.options.RebalanceTimeout, func() { close(g.patience) })
		g.close()
		<-g.done
		limit.Stop()
	})
	<-g.done
	return g.left
}
