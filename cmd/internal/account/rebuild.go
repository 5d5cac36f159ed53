package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/state"
)

// Rebuild is what a lost changelog can be written back from, or was.
type Rebuild struct {
	Changelog  string             `json:"changelog"`
	Made       bool               `json:"made"` // the topic is missing, and is made
	Partitions []RebuiltPartition `json:"partitions"`
}

// RebuiltPartition is one partition of a Rebuild.
type RebuiltPartition struct {
	Number int32 `json:"number"`
	// Folder has the states, or From is the changelog itself. Both are empty if there is nothing to
	// write: nothing was processed, or Kept.
	Folder string `json:"folder"`
	From   string `json:"from"`
	Input  int64  `json:"input"` // the raw offset that the states belong to
	Users  int    `json:"users"` // with an account, those of erased users that are kept among them
	Kept   bool   `json:"kept"`  // the changelog holds what it must, and is left as it is
	// NoOffset: the group has none here, so nothing could be compared with it. It gets
	// that of the states.
	NoOffset bool `json:"no_offset"`
	// Published is the raw offset up to which the service processes the records again without
	// publishing what comes of them: it was published before. 0: there are none.
	Published int64 `json:"published"`

	unknown bool // no folder has it, and the group has no offset

	committed int64 // by the group; -1: nothing
	rewrites  bool  // the changelog holds something that the states replace
	mark      task.Mark
	value     []byte           // of the mark
	store     *state.Partition // of the folder
	at        state.Positions
}

// writes reports whether there is something to write.
func (p *RebuiltPartition) writes() bool { return p.Folder != "" || p.From != "" }

// rebuildTimeout is what the transaction of one partition may take: all its states go
// into one, so that a crash leaves nothing half written. Brokers allow 15 minutes as a
// rule (transaction.max.timeout.ms).
const rebuildTimeout = 10 * time.Minute

// RebuildChangelog writes a lost changelog, or what it has lost at its end, back from state folders
// of the service's instances, which must have stopped. Of each partition it takes the states at the
// group's committed offset, or else the newest. If these lag behind the group, or there is no
// folder and the changelog itself lags, the service brings them up from the raw records, and
// publishes nothing of that. It refuses while the group has members, and leaves a partition alone
// that lacks nothing, so that it can be repeated until it ends.
//
// The transactional id of each partition is fenced first, so that nothing of an instance
// that is still about can come in between.
func RebuildChangelog(ctx context.Context, o Options, folders []string) (plan Rebuild,
	err error,
) {
	if o, err = o.prepare(); err != nil {
		return Rebuild{}, err
	}
	r := newRebuilder(o)
	if err := requireEmpty(ctx, r.client, o.Group); err != nil {
		return Rebuild{}, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.open(ctx, folders); err != nil {
		return Rebuild{}, err
	}
	if plan, err = r.plan(ctx); err != nil || o.DryRun {
		return plan, err
	}
	if plan.Made {
		missing := r.o.Topics.ChangelogOf(len(plan.Partitions))
		if err := admin.CreateTopics(ctx, r.client, wire.Options{}, missing); err != nil {
			return plan, err
		}
	}
	for i := range plan.Partitions {
		if p := &plan.Partitions[i]; p.writes() {
			if err := r.write(ctx, p); err != nil {
				return plan, fmt.Errorf("write back partition %d of %s: %w", p.Number,
					o.Topics.Changelog, err)
			}
		}
	}
	return plan, nil
}

// rebuilder holds the folders open, so that no instance can use them meanwhile.
type rebuilder struct {
	client *kafka.Client
	look   *Check
	o      Options
	stores []*state.Store
	names  []string // of the folders
	copied []byte   // the id of the changelog that all of them are copies of
	source []byte   // the id of the raw topic
	id     [16]byte // of the changelog; zero: it is missing
}

func newRebuilder(o Options) *rebuilder {
	r := &rebuilder{client: o.Client(), o: o}
	r.look = o.account(r.client, wire.Options{})
	return r
}

// open opens the folders and makes sure that they are of this service.
func (r *rebuilder) open(ctx context.Context, folders []string) error {
	cluster, err := admin.ClusterID(ctx, r.client, wire.Options{})
	if err != nil {
		return err
	}
	for _, name := range folders {
		name = filepath.Clean(name)
		if slices.Contains(r.names, name) {
			continue // it is open, and so locked
		}
		store, err := state.Open(name, state.Options{ReadOnly: true, Logger: r.o.Logger})
		if err != nil {
			return err
		}
		r.stores, r.names = append(r.stores, store), append(r.names, name)
		id, ours := CopyOf(store.Identity(), cluster, r.o.Group, r.o.Topics)
		if !ours {
			return fmt.Errorf("folder %s: %w", name, state.ErrForeign)
		}
		// Offsets of two changelogs cannot be compared, so which states are newer is not known.
		if r.copied != nil && !bytes.Equal(r.copied, id) {
			return fmt.Errorf("folders %s and %s are copies of two changelogs (folder-unknown)",
				r.names[0], name)
		}
		r.copied = id
	}
	return nil
}

func (r *rebuilder) close() error {
	var errs []error
	for _, s := range r.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// plan finds for each partition the folder to write it from.
func (r *rebuilder) plan(ctx context.Context) (Rebuild, error) {
	t := r.o.Topics
	plan := Rebuild{Changelog: t.Changelog}
	counts, err := admin.Partitions(ctx, r.client, wire.Options{}, t.Raw)
	if err != nil {
		return plan, err
	}
	if r.source, err = topics.ID(ctx, r.client, t.Raw); err != nil {
		return plan, err
	}
	_, err = admin.CoPartitioned(ctx, r.client, wire.Options{}, t.Raw, t.Changelog)
	var missing *admin.MissingTopicsError
	switch {
	case errors.As(err, &missing):
		plan.Made = true
	case err != nil:
		return plan, topics.ExplainPartitions(err, t)
	default:
		if err := admin.CheckConfigs(ctx, r.client, wire.Options{}, t.Changelog,
			topics.Compacted); err != nil {
			return plan, err
		}
		ids, err := admin.TopicIDs(ctx, r.client, wire.Options{}, t.Changelog)
		if err != nil {
			return plan, err
		}
		r.id = ids[t.Changelog]
	}
	var problems []error
	some, evidence := false, false
	for n := range int32(counts[t.Raw]) {
		p, err := r.partition(ctx, n, plan.Made)
		if err != nil {
			problems = append(problems, fmt.Errorf("partition %d: %w", n, err))
		}
		some = some || p.writes()
		published, err := r.look.Published(ctx, n, int32(counts[t.Raw]))
		if err != nil {
			return plan, err
		}
		evidence = evidence || p.writes() || p.Kept || published
		plan.Partitions = append(plan.Partitions, p)
	}
	for _, p := range plan.Partitions {
		if p.unknown && evidence {
			problems = append(problems, fmt.Errorf("partition %d: no folder has its states, and "+
				"the group has no offset (folder-unknown)", p.Number))
		}
	}
	if len(problems) > 0 {
		return plan, fmt.Errorf("nothing was written to %s: %w", t.Changelog,
			errors.Join(problems...))
	}
	if !some {
		return plan, fmt.Errorf("nothing to write back: %s has all partitions that group %s has "+
			"processed", t.Changelog, r.o.Group)
	}
	return plan, nil
}

// partition plans one.
func (r *rebuilder) partition(ctx context.Context, n int32, made bool) (RebuiltPartition, error) {
	p := RebuiltPartition{Number: n}
	var there held
	if !made {
		var err error
		if there, err = r.holds(ctx, n); err != nil {
			return p, err
		}
	}
	committed, found, err := consumer.Committed(ctx, r.client, wire.Options{}, r.o.Group,
		r.o.Topics.Raw, n)
	if !found {
		committed = -1
	}
	if err != nil {
		return p, err
	}
	best, err := r.newest(n, committed, found)
	if err != nil {
		return p, err
	}
	if there.marked {
		p.Kept = committed <= there.mark.Input
		if best != nil && r.leads(best, there) {
			p.Kept = false
		} else {
			best = nil
		}
	}
	switch {
	case p.Kept, best == nil && committed == 0:
		return p, nil // nothing is lost, or was ever processed
	case best == nil && there.marked:
		p.From, p.Input, p.mark = r.o.Topics.Changelog, there.mark.Input, there.mark
	case best == nil && !found:
		raw, err := topics.Open(ctx, r.client, r.o.Topics.Raw, n, consumer.FetcherOptions{})
		p.unknown = err == nil && raw.End > 0 // something of it may have been processed
		return p, err
	case best == nil:
		return p, fmt.Errorf("group %s is at raw offset %d, and no folder has states of it "+
			"(folder-unknown)", r.o.Group, committed)
	default:
		p = *best
	}
	p.Number, p.NoOffset, p.committed, p.rewrites = n, !found, committed, there.marked
	if err := r.check(ctx, &p); err != nil {
		return p, err
	}
	p.complete()
	return p, p.count()
}

// count counts the accounts of a folder.
func (p *RebuiltPartition) count() error {
	if p.store == nil {
		return nil
	}
	if err := p.store.Iterate(func(_, _ []byte) error { p.Users++; return nil }); err != nil {
		return err
	}
	return p.store.Reserved(state.KeptName, func(_, value []byte) error {
		kept, err := engine.DecodeKept(value)
		if err != nil {
			return err
		}
		spent, err := kept.Spent()
		if spent > 0 {
			p.Users++
		}
		return err
	})
}

// complete makes the mark that is written.
func (p *RebuiltPartition) complete() {
	// A mark alone commits the offset of the mark before it, so the store may have missed
	// one. That the last worker has left something open is therefore to be assumed.
	p.mark.Open = true
	p.mark.Rebuilt = time.Now().UnixMilli()
	p.mark.Published = max(p.mark.Published, p.committed, 0)
	if p.mark.Published > p.Input {
		p.Published = p.mark.Published
	}
	p.value = task.AppendMark(nil, p.mark)
}

// held is what a partition of the changelog holds.
type held struct {
	mark   task.Mark // the last one
	marked bool      // there is one
	end    int64
}

// errCut says that users' accounts may be missing.
var errCut = errors.New("the changelog does not begin at offset 0 (changelog-cut)")

// holds looks at a partition of the changelog. If it has a mark, it must have its beginning.
func (r *rebuilder) holds(ctx context.Context, n int32) (h held, err error) {
	topic := r.o.Topics.Changelog
	if h.mark, h.marked, err = topics.LastMark(ctx, r.client, topic, n); err != nil {
		return h, err
	}
	if h.marked {
		log, err := topics.Open(ctx, r.client, topic, n, consumer.FetcherOptions{})
		if err == nil && log.First > 0 {
			err = fmt.Errorf("%s: %w", topic, errCut)
		}
		if err == nil {
			h.end = log.End
		}
		return h, err
	}
	some, err := r.look.Holds(ctx, n)
	if some {
		err = fmt.Errorf("%s has records, but no mark of geodither's (changelog-foreign)", topic)
	}
	return h, err
}

// leads reports whether a folder has what the changelog has lost at its end. One that is a copy of
// an earlier topic of this name, or of what was there before the changelog was written back, has
// other offsets.
func (r *rebuilder) leads(p *RebuiltPartition, h held) bool {
	return bytes.Equal(r.copied, r.id[:]) && p.mark.Rebuilt == h.mark.Rebuilt &&
		(p.Input > h.mark.Input || p.Input == h.mark.Input && p.at.Changelog > h.end)
}

// check refuses states that cannot be those at the group's offset, and cannot become them; and
// those that have not the mark that belongs to them.
func (r *rebuilder) check(ctx context.Context, p *RebuiltPartition) error {
	switch {
	case !p.NoOffset && p.Input > p.committed:
		return fmt.Errorf("the states in %s are those at raw offset %d, and the group is at %d "+
			"(group-moved)", p.Folder, p.Input, p.committed)
	case p.store != nil && len(p.value) == 0:
		return fmt.Errorf("the store in %s has no mark", p.Folder)
	case p.mark.Input != p.Input:
		return fmt.Errorf("the store in %s has states at raw offset %d, its mark says %d", p.Folder,
			p.Input, p.mark.Input)
	case len(r.source) > 0 && len(p.mark.Source) > 0 && !bytes.Equal(r.source, p.mark.Source):
		return fmt.Errorf("%w since the states in %s were made (raw-remade)", task.ErrSource,
			p.Folder+p.From)
	case p.Input >= p.committed:
		return nil
	}
	return r.checkLag(ctx, p)
}

// checkLag refuses states that lag behind the group if the service could not bring them to where
// they were: from the same records, and with the same settings.
func (r *rebuilder) checkLag(ctx context.Context, p *RebuiltPartition) error {
	raw, err := topics.Open(ctx, r.client, r.o.Topics.Raw, p.Number, consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	lag := fmt.Sprintf("the newest states, at raw offset %d in %s, lag behind the group, at %d",
		p.Input, p.Folder+p.From, p.committed)
	switch {
	case raw.First > p.Input || raw.End < p.committed:
		return fmt.Errorf("%s, and the raw topic has only offsets %d to %d (folder-unknown)", lag,
			raw.First, raw.End)
	case !bytes.Equal(p.mark.Settings, r.o.Fingerprint()):
		return fmt.Errorf("%s, and were made under other settings: %s (folder-unknown)", lag,
			r.o.Differences(p.mark.Settings))
	}
	if err := r.o.CheckVersions(p.mark); err != nil {
		return fmt.Errorf("%s: %w", lag, err)
	}
	// What came after these states may have been released under either list.
	left := p.mark
	left.Open = true
	if task.CheckOpen(left, p.mark.Settings, r.o.Versions()) != nil {
		return fmt.Errorf("%s, and were made under another list of models (folder-unknown)", lag)
	}
	return nil
}

// newest is the folder that is where the group is, or else the one that is furthest;
// nil if none has the partition.
func (r *rebuilder) newest(n int32, committed int64, found bool) (best *RebuiltPartition,
	err error,
) {
	var highest [3]int64 // of best: is it where the group is, then its offsets
	for i, s := range r.stores {
		p := s.Partition(n)
		at, there, err := p.Positions()
		if err != nil {
			return nil, err
		}
		rank := [3]int64{0, at.Input, at.Changelog}
		if found && at.Input == committed {
			rank[0] = 1
		}
		if !there || at.Input < 0 || best != nil && slices.Compare(rank[:], highest[:]) <= 0 {
			continue
		}
		best = &RebuiltPartition{Folder: r.names[i], Input: at.Input, store: p, at: at}
		highest = rank
		value, err := p.Get([]byte(state.MarkName))
		if err != nil {
			return nil, err
		}
		if best.value = slices.Clone(value); len(value) > 0 {
			if best.mark, err = task.DecodeMark(best.value); err != nil {
				return nil, err
			}
		}
	}
	return best, nil
}

// transaction begins a transaction of a partition, which shuts out what is left of an instance.
func (r *rebuilder) transaction(ctx context.Context, n int32) (*producer.Transactional, error) {
	tx, err := producer.NewTransactional(r.client, r.o.TransactionalID(n), producer.Options{
		TransactionTimeout: max(r.o.TransactionTimeout, rebuildTimeout),
		MaxBatchBytes:      r.o.MaxBatchBytes,
	})
	if err != nil {
		return nil, err
	}
	return tx, tx.Init(ctx)
}

// write writes a partition back in one transaction, its mark at the end.
func (r *rebuilder) write(ctx context.Context, p *RebuiltPartition) error {
	tx, err := r.transaction(ctx, p.Number)
	if err != nil {
		return err
	}
	// What was open when this began may have been committed by now, or somebody has
	// started the service.
	committed, found, err := consumer.Committed(ctx, r.client, wire.Options{}, r.o.Group,
		r.o.Topics.Raw, p.Number)
	if err != nil {
		return err
	}
	if found && committed != p.committed || !found && !p.NoOffset {
		return fmt.Errorf("the group has moved to raw offset %d (group-active)", committed)
	}
	if err := r.fill(ctx, tx, p); err != nil {
		return errors.Join(err, tx.Abort(context.WithoutCancel(ctx)))
	}
	_, err = tx.Commit(ctx)
	return err
}

func (r *rebuilder) fill(ctx context.Context, tx *producer.Transactional,
	p *RebuiltPartition,
) error {
	w := r.writer(ctx, tx, p.Number)
	if p.store == nil { // the changelog has its own states
		return w.finish(p.value, p.Input)
	}
	if p.rewrites {
		if err := r.remove(ctx, p, w.addRecord); err != nil {
			return err
		}
	}
	err := p.store.Iterate(w.addRecord)
	// What remains of erased users, requests that were not carried out, the partition's own state.
	for _, name := range []string{state.KeptName, state.RequestName, state.PartitionName} {
		if err == nil {
			err = p.store.Reserved(name, w.addRecord)
		}
	}
	if err != nil {
		return err
	}
	return w.finish(p.value, p.Input)
}

// remove adds the removal of what the changelog holds and the states lack: its lost end has removed
// it, such as an erased user's state.
func (r *rebuilder) remove(ctx context.Context, p *RebuiltPartition,
	add func(key, value []byte) error,
) error {
	log, err := topics.Open(ctx, r.client, r.o.Topics.Changelog, p.Number,
		consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	var gone [][]byte
	err = log.Entries(ctx, func(e task.Entry) error {
		if e.Kind == task.Marked || e.Kind == task.Foreign || len(e.Value) == 0 {
			return nil
		}
		value, err := p.store.Get(e.Key)
		if err == nil && len(value) == 0 {
			gone = append(gone, bytes.Clone(e.Key))
		}
		return err
	})
	for _, key := range gone {
		if err == nil {
			err = add(key, nil)
		}
	}
	return err
}

// chunk is how many records are sent at once.
const chunk = 1000

// writer writes to a partition of the changelog, as a part of a transaction.
type writer struct {
	ctx   context.Context
	r     *rebuilder
	tx    *producer.Transactional
	batch producer.Batch
	now   int64
}

func (r *rebuilder) writer(ctx context.Context, tx *producer.Transactional, n int32) *writer {
	at := producer.TopicPartition{Topic: r.o.Topics.Changelog, Partition: n}
	return &writer{
		ctx: ctx, r: r, tx: tx, batch: producer.Batch{TopicPartition: at},
		now: time.Now().UnixMilli(),
	}
}

// addRecord adds a record; a nil value removes the key.
func (w *writer) addRecord(key, value []byte) error {
	w.batch.Records = append(w.batch.Records, producer.Record{
		Key: slices.Clone(key), Value: slices.Clone(value), Timestamp: w.now,
	})
	if len(w.batch.Records) < chunk {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	_, err := w.tx.Produce(w.ctx, w.batch)
	w.batch.Records = w.batch.Records[:0]
	return err
}

// finish adds the mark, and the raw offset that the group commits.
func (w *writer) finish(mark []byte, input int64) error {
	err := w.addRecord([]byte(task.MarkKey), mark)
	if err == nil && len(w.batch.Records) > 0 {
		err = w.flush()
	}
	if err != nil {
		return err
	}
	raw := producer.TopicPartition{Topic: w.r.o.Topics.Raw, Partition: w.batch.Partition}
	return w.tx.CommitOffsets(w.ctx, producer.Member{Group: w.r.o.Group, Generation: -1},
		map[producer.TopicPartition]int64{raw: input})
}
