package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/state"
)

// Service is one running instance: a member of the consumer group that runs a
// task for each partition it is given.
type Service struct {
	options Options
	job     job
	client  *kafka.Client
	log     *slog.Logger

	patience  time.Duration // of one look at the topics
	grace     time.Duration // what a transaction in hand gets to end; 0: the task's default
	openStore func(dir string, o state.Options) (*state.Store, error)

	keep       []any // the last versions of the model, so that they are there when they start
	alarmEvery time.Duration
	outages    *outages
	outputs    *outputs
	changes    *changes

	changelogEvery time.Duration

	partitions int32  // of the input topic, at the start
	source     []byte // the input topic's id
	copied     []byte // the changelog's id

	census *census // nil: nobody asks

	holdQuiet time.Duration
	probation *probation // nil: nothing to look at, as in a replay, or not begun

	mu      sync.Mutex
	failure error // the first fatal one
	stop    context.CancelFunc
	waits   map[int32]time.Duration // how long a partition that was lost waited last
}

// host makes a service that has no job yet.
func host(o Options) *Service {
	var counted *census
	if o.Board != nil {
		counted = new(census)
	}
	o = o.WithDefaults()
	o.Registry = o.Registry.NoWait() // a wait inside a transaction would outlast it
	return &Service{
		options: o, client: o.Client(), log: o.Logger, census: counted,
		alarmEvery: alarmInterval, outages: newOutages(o.Logger), outputs: newOutputs(o.Logger),
		changelogEvery: changelogEvery, patience: topics.CallPatience, openStore: state.Open,
		holdQuiet: holdQuiet,
	}
}

// does gives the service its job.
func (s *Service) does(j job) *Service {
	s.job, s.changes = j, &changes{own: j, log: s.log}
	return s
}

// replays reports whether the service goes through windows only, after another one.
func (s *Service) replays() bool { return s.options.Windows != nil }

// Run works until the context ends, and then finishes or aborts the open
// transactions, leaves the group and returns nil. It returns the first error
// that trying again does not help against.
func (s *Service) Run(ctx context.Context) (err error) {
	board := s.options.Board
	defer context.AfterFunc(ctx, board.Draining)()
	defer func() {
		if err != nil {
			board.Failed()
		}
	}()
	s.client = wire.Observed(s.client, board.Requested)
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	found, err := s.prepare(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it began
		}
		return s.job.explained(err)
	}
	store, err := s.openStore(s.options.StateDir, state.Options{
		CacheBytes: s.options.CacheBytes,
		Identity:   found.identity,
		Foreign:    s.changelogBefore(found.cluster),
		Logger:     s.log,
	})
	if err != nil {
		return err
	}
	s.announce()
	var beside sync.WaitGroup
	beside.Go(func() { s.report(ctx) })
	beside.Go(func() { s.watchChangelog(ctx) })
	if s.census != nil {
		board.Watch(monitor.Watch{
			Away: s.outages.away, Unwritten: s.outputs.unwritten,
			Store: s.census.storeStats(store), Models: s.models,
		})
		beside.Go(func() { s.census.run(ctx, board, store) })
	}
	err = s.work(ctx, store)
	err = errors.Join(err, store.Close())
	s.stop()
	beside.Wait()
	total := s.options.Counters.Snapshot()
	s.log.Info("stopped", total.Counted()...)
	return err
}

// changelogBefore says of a folder of this service that only its changelog is another one by
// now: it was written back, say, or a reset of everything has made it again.
func (s *Service) changelogBefore(cluster string) func(identity []byte) string {
	return func(identity []byte) string {
		t := s.options.Topics
		if _, ours := account.CopyOf(identity, cluster, s.options.Group, t); !ours {
			return ""
		}
		return fmt.Sprintf("it belongs to the changelog before: %s was made again since, which is "+
			"expected after a rebuild of the changelog", t.Changelog)
	}
}

// prepare waits for what the service needs, and makes sure that it may begin.
func (s *Service) prepare(ctx context.Context) (found ready, err error) {
	if found, err = s.check(ctx); err != nil {
		return found, err
	}
	s.partitions, s.source, s.copied = found.partitions, found.source, found.copied
	if s.options.SchemaIDs, err = awaitSchemas(ctx, s.options); err != nil || s.replays() {
		return found, err
	}
	return found, s.job.begin(ctx)
}

// announce logs the start, and warns of each flag that is for one start only.
func (s *Service) announce() {
	s.log.Info("started", s.job.started()...)
	for _, once := range []struct {
		flag string
		set  bool
	}{
		{"--accept=lost-account", s.options.AcceptLost},
		{"--accept=settings", s.options.AcceptSettings},
		{"--accept=lost-records", s.options.SkipLost},
		{"--accept=refused", s.options.AcceptRefused},
	} {
		if once.set {
			s.log.Warn("a flag for one start is set: take it out, or the next loss goes on unseen",
				"flag", once.flag)
		}
	}
}

// keptVersions is how many of the last versions stay in memory, whether or not a
// partition works with them already: the newest, and the one before.
const keptVersions = 2

// tryVersions tries later versions and keeps the last ones. What the settings can be used with is a
// matter of the map, so an older version of a map that was tried is not read for it.
func (s *Service) tryVersions() (keep []any, err error) {
	later := s.options.Later
	tried := map[string]bool{s.options.Model.Grid.ID(): true}
	for i, v := range later {
		if i < len(later)-keptVersions && tried[v.GridID()] {
			continue
		}
		tried[v.GridID()] = true
		model, err := s.options.Try(v)
		if err != nil {
			return nil, err
		}
		if i >= len(later)-keptVersions {
			keep = append(keep, model)
		}
	}
	return keep, nil
}

// models are the versions of the model.
func (s *Service) models() []monitor.Model {
	if s.options.Model == nil {
		return []monitor.Model{}
	}
	all := []monitor.Model{{ID: s.options.Model.ID()}}
	for _, v := range s.options.Later {
		all = append(all, monitor.Model{
			ID: v.ID.Model.String(), From: time.UnixMilli(v.ID.StartMS).UTC(),
		})
	}
	return all
}

// work follows the group from generation to generation.
func (s *Service) work(ctx context.Context, store *state.Store) error {
	board := s.options.Board
	board.Joining()
	client := wire.Observed(s.client, board.GroupRequested)
	member, err := group.Join(client, group.Options{
		ID: s.options.Group, Topic: s.options.Topics.Raw,
		InstanceID:     s.options.InstanceID,
		Settings:       s.job.GroupFingerprint(),
		Copies:         func() []group.Copy { return copies(store, time.Now()) },
		SessionTimeout: s.options.SessionTimeout,
		// The others wait for this member no longer than for its sign of life. A
		// member that has no work waits as long to leave.
		RebalanceTimeout: max(s.options.SessionTimeout, 10*time.Second),
		Retrying:         s.joining(),
	})
	if err != nil {
		return err
	}
	for {
		generation, err := member.Next(ctx)
		if err != nil {
			// Closing waits for the tasks, which finish under the generation's context.
			// An instance that has failed is not back soon: a static one's partitions go
			// to the others at once.
			end := member.Close
			if s.failed() != nil {
				end = member.Leave
			}
			closed := end()
			if ctx.Err() == nil {
				return errors.Join(named(s.job, err), closed)
			}
			if closed != nil {
				s.log.Warn("the group may wait for this instance until its session times out",
					"cause", closed)
			}
			return s.failed() // or of a task at its end
		}
		s.outages.succeeded(groupCaller)
		s.log.Info("partitions assigned", "generation", generation.ID, "partitions",
			generation.Partitions)
		board.Assigned(generation.ID, generation.Partitions)
		for _, lease := range generation.Leases {
			lease.Start(func(ctx context.Context) { s.runTask(ctx, store, lease) })
		}
	}
}

// joining logs that joining fails: quietly at first, since a coordinator that has
// just come up answers so for a second or two.
func (s *Service) joining() func(error) {
	const usual = 5 * time.Second
	begun := time.Now()
	var lines pace
	return func(err error) {
		now := time.Now()
		level := slog.LevelDebug
		switch {
		case now.Sub(begun) < usual:
		case isAway(err):
			s.outages.failed(groupCaller, err)
			return
		case lines.due(now):
			level = slog.LevelWarn
		}
		s.log.Log(context.Background(), level, "joining the group again", "cause", err)
	}
}

// groupCaller is the group's membership among those that call Kafka.
const groupCaller = "group"

// runTask runs one partition until its lease is over. If the task leaves before that,
// this member joins again; a fatal error stops the service.
func (s *Service) runTask(ctx context.Context, store *state.Store, lease *group.Lease) {
	partition := lease.Partition
	log := s.log.With("partition", partition)
	if partition >= s.partitions {
		s.fail(fmt.Errorf("%s has grown from %d partitions (partitions-differ)",
			s.options.Topics.Raw, s.partitions))
		return
	}
	if s.replays() && (int(partition) >= len(s.options.Windows) ||
		s.options.Windows[partition].Empty()) {
		return // nothing to replay here
	}
	defer s.outages.gone(caller(partition))
	defer s.outputs.gone(caller(partition))
	began := time.Now()
	board := s.options.Board.Begin(partition)
	defer board.End()
	t, err := s.newTask(store, lease, board, log)
	if err == nil {
		err = t.Run(ctx)
	}
	switch {
	case err == nil || ctx.Err() != nil && task.RemedyOf(err) != task.Fatal:
		if err != nil {
			log.Info("partition given up", "cause", err)
		}
	case task.RemedyOf(err) == task.Leave:
		board.End() // it waits, and works no more
		if lease.Settle(ctx) != nil {
			// The new owner was quicker than the news of it.
			log.Info("partition given up", "cause", err)
			return
		}
		s.options.Board.Lost()
		wait := s.nextWait(partition, time.Since(began))
		log.Warn("partition lost, joining the group again", "cause", err, "wait", wait)
		// The member that took the partition needs a moment to show in the group.
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			lease.Rejoin()
		}
	default:
		s.fail(fmt.Errorf("partition %d: %w", partition, named(s.job, err)))
	}
}

// nextWait is how long to stay away from a partition that was lost after it ran
// for a while: twice as long each time, for each rejoining stops everybody.
func (s *Service) nextWait(partition int32, ran time.Duration) time.Duration {
	const shortest, longest = time.Second, 30 * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := min(max(2*s.waits[partition], shortest), longest)
	if ran > time.Minute {
		wait = shortest
	}
	if s.waits == nil {
		s.waits = map[int32]time.Duration{}
	}
	s.waits[partition] = wait
	return wait
}

// fail keeps the first fatal error and stops the service.
func (s *Service) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = s.job.explained(err)
	}
	s.options.Board.Failed()
	s.stop()
}

func (s *Service) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// copies returns what the store has of partitions' states, the newest first. A copy that is too old
// to be caught up is of no use to anybody. A store that fails reports it itself, so its error is
// left to those that use it.
func copies(store *state.Store, now time.Time) []group.Copy {
	numbers, err := store.Partitions()
	if err != nil {
		return nil
	}
	type aged struct {
		group.Copy
		ms int64
	}
	var found []aged
	for _, n := range numbers {
		at, there, err := store.Partition(n).Positions()
		old := now.Sub(time.UnixMilli(at.AppliedMS)) > task.DefaultMaxStoreAge
		if err != nil || !there || old {
			continue
		}
		found = append(found, aged{group.Copy{Partition: n, Offset: at.Changelog}, at.AppliedMS})
	}
	slices.SortStableFunc(found, func(a, b aged) int { return cmp.Compare(b.ms, a.ms) })
	all := make([]group.Copy, len(found))
	for i, c := range found {
		all[i] = c.Copy
	}
	return all
}

const (
	// countEvery is the least time between two counts of the users of the same partitions.
	countEvery = time.Minute
	// countShare bounds the share of the time that counting takes: it reads every state.
	countShare = 50
	// countLook is how often it looks whether the partitions have changed.
	countLook = time.Second
)

// census counts the users with a state in an assigned partition, now and then: the store does not
// know how many there are.
type census struct {
	last atomic.Pointer[monitor.Store] // with what was counted last, and when; nil: nothing yet
}

// run counts until the context ends.
func (c *census) run(ctx context.Context, board *monitor.Board, store *state.Store) {
	look := time.NewTicker(countLook)
	defer look.Stop()
	var counted []int32
	var next time.Time
	for {
		if now := board.Restored(); !slices.Equal(now, counted) || !time.Now().Before(next) {
			began := time.Now()
			if users, err := countUsers(ctx, now, store); err == nil {
				at := began.UTC().Truncate(time.Second)
				c.last.Store(&monitor.Store{Users: users, CountedAt: at})
			} // else the store is closing, or has failed and reports it itself
			counted, next = now, time.Now().Add(max(countEvery, countShare*time.Since(began)))
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// countUsers counts the users of some partitions.
func countUsers(
	ctx context.Context, partitions []int32, store *state.Store,
) (users int64, err error) {
	for _, n := range partitions {
		err := store.Partition(n).Iterate(func(_, _ []byte) error {
			users++
			return ctx.Err()
		})
		if err != nil {
			return 0, err
		}
	}
	return users, ctx.Err()
}

// storeStats returns how the store is, whenever it is asked.
func (c *census) storeStats(store *state.Store) func() monitor.Store {
	return func() (shown monitor.Store) {
		if last := c.last.Load(); last != nil {
			shown = *last
		}
		s := store.Stats()
		shown.Bytes, shown.CacheHits, shown.CacheMisses = s.DiskBytes, s.CacheHits, s.CacheMisses
		return shown
	}
}
