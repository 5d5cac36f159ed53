package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
)

// Where says at which raw offset of each partition a service goes on: at the first one that is
// there, at the offset that its group has, at a time, or at an offset. The zero Where is none.
type Where struct {
	topics.Bound
	First, Committed bool
}

// Set reads what --from says.
func (w *Where) Set(text string) error {
	switch text {
	case "earliest":
		*w = Where{First: true}
		return nil
	case "committed":
		*w = Where{Committed: true}
		return nil
	}
	*w = Where{}
	return w.Bound.Set(text)
}

// String returns what [Where.Set] reads, empty for the zero Where.
func (w *Where) String() string {
	switch {
	case w.First:
		return "earliest"
	case w.Committed:
		return "committed"
	}
	return w.Bound.String()
}

// Move is what there is to carry over to another raw topic, or was.
type Move struct {
	Changelog  string           `json:"changelog"`
	Partitions []MovedPartition `json:"partitions"`
	Accounts   Report           `json:"accounts"` // of all users
}

// MovedPartition is one partition of a Move.
type MovedPartition struct {
	Number int32 `json:"number"`
	Was    int64 `json:"was"`   // the offset of the earlier raw topic up to which it was processed
	Input  int64 `json:"input"` // the raw offset at which the service goes on
	// Open: the last instance has not stopped cleanly, or not all of the changelog is there.
	Open  bool `json:"open"`
	Empty bool `json:"empty"` // nothing was ever processed, and nothing is written

	mark task.Mark
	kept recorded // what remains of erased users, by the changelog's key
}

// recorded are values of a changelog, by key.
type recorded map[string][]byte

// MoveChangelog makes a changelog that was written for another raw topic go on with this one: for a
// topic that a mirror has copied to another cluster, or a raw topic that was made again. States and
// accounts stay as they are, so a fix up to a user's last step is late, or repeats the user's last
// release byte for byte. Only the marks change, and where users were erased, which are offsets of
// the raw topic; and the group gets its offset. The service must have stopped.
//
// An open last mark says that releases may be missing in the changelog. The service then has to
// begin at a record that the changelog has: the same records give the same releases again.
func MoveChangelog(ctx context.Context, o Options, to Where) (Move, error) {
	o, err := o.prepare()
	if err != nil {
		return Move{}, err
	}
	m := &mover{rebuilder: newRebuilder(o), to: to}
	if err := requireEmpty(ctx, m.client, o.Group); err != nil {
		return Move{}, err
	}
	move, err := m.plan(ctx)
	if err != nil || o.DryRun {
		return move, err
	}
	for i := range move.Partitions {
		if p := &move.Partitions[i]; !p.Empty {
			if err := m.write(ctx, p); err != nil {
				return move, fmt.Errorf("write to partition %d of %s: %w", p.Number, move.Changelog,
					err)
			}
		}
	}
	return move, nil
}

type mover struct {
	*rebuilder
	to      Where
	undated bool // times of the copies are those of the mirror
}

func (m *mover) plan(ctx context.Context) (Move, error) {
	t := m.o.Topics
	move := Move{Changelog: t.Changelog}
	partitions, err := admin.CoPartitioned(ctx, m.client, wire.Options{}, t.Raw, t.Changelog)
	if err != nil {
		return move, topics.ExplainPartitions(err, t)
	}
	err = admin.CheckConfigs(ctx, m.client, wire.Options{}, t.Changelog, topics.Compacted)
	if err != nil {
		return move, err
	}
	if m.source, err = topics.ID(ctx, m.client, t.Raw); err != nil {
		return move, err
	}
	undated, err := topics.Undated(ctx, m.client, t.Raw, t.Changelog)
	if err != nil {
		return move, err
	}
	m.undated = undated[t.Raw] || undated[t.Changelog]
	var problems []error
	some := false
	for n := range int32(partitions) {
		p, err := m.partition(ctx, n, partitions)
		if err != nil {
			problems = append(problems, fmt.Errorf("partition %d: %w", n, err))
		}
		some = some || !p.Empty
		move.Partitions = append(move.Partitions, p)
	}
	switch {
	case len(problems) > 0:
		return move, fmt.Errorf("nothing was written to %s: %w", t.Changelog,
			errors.Join(problems...))
	case !some:
		return move, fmt.Errorf("%s holds no mark (changelog-foreign)", t.Changelog)
	}
	move.Accounts, err = Accounts(ctx, m.o)
	return move, err
}

// partition plans one.
func (m *mover) partition(ctx context.Context, n int32, of int) (MovedPartition, error) {
	p := MovedPartition{Number: n, kept: recorded{}}
	there, err := m.holds(ctx, n)
	if err != nil {
		return p, err
	}
	raw, err := topics.Open(ctx, m.client, m.o.Topics.Raw, n, consumer.FetcherOptions{})
	if err == nil {
		p.Input, err = m.where(ctx, n, raw)
	}
	switch {
	case err != nil:
		return p, err
	case !there.marked && p.Input > raw.First:
		return p, fmt.Errorf("%s has no mark; if nothing was processed there: --from earliest "+
			"(move-incomplete)", m.o.Topics.Changelog)
	case !there.marked:
		p.Empty = true
		return p, nil
	case len(m.source) > 0 && bytes.Equal(m.source, there.mark.Source):
		return p, fmt.Errorf("the accounts in %s are of %s already", m.o.Topics.Changelog,
			m.o.Topics.Raw)
	case task.CheckPartitioner(there.mark, m.o.PartitionerName(of)) != nil:
		return p, task.CheckPartitioner(there.mark, m.o.PartitionerName(of))
	case there.mark.Published > there.mark.Input:
		return p, fmt.Errorf("not all that was published is processed: first reach raw offset %d "+
			"of the earlier topic (move-incomplete)", there.mark.Published)
	}
	last, err := m.read(ctx, &p)
	if err != nil {
		return p, err
	}
	p.Was, p.mark = there.mark.Input, there.mark
	p.mark.Open = p.Open
	p.complete(m.source)
	return p, m.covers(ctx, raw, &p, last)
}

// where is the raw offset at which the service goes on.
func (m *mover) where(ctx context.Context, n int32, raw *topics.Reader) (int64, error) {
	if m.to.First {
		return raw.First, nil
	}
	at, found := int64(0), true
	var err error
	if m.to.Committed {
		at, found, err = consumer.Committed(ctx, m.client, wire.Options{}, m.o.Group,
			m.o.Topics.Raw, n)
	} else {
		at, err = m.to.Resolve(ctx, raw, raw.First)
	}
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, fmt.Errorf("group %s has no offset: set one, or --from", m.o.Group)
	case at < raw.First || at > raw.End:
		return 0, fmt.Errorf("raw offset %d is not between %d and %d of %s", at, raw.First, raw.End,
			m.o.Topics.Raw)
	}
	return at, nil
}

// read goes through the changelog. It returns the raw timestamp of a state before the last mark, 0
// if there is none: all records up to it are in the states. A mirror may stop within a transaction,
// so what follows the last mark may lack states, and the mark then counts as open.
func (m *mover) read(ctx context.Context, p *MovedPartition) (lastMS int64, err error) {
	log, err := topics.Open(ctx, m.client, m.o.Topics.Changelog, p.Number,
		consumer.FetcherOptions{})
	if err != nil {
		return 0, err
	}
	stateMS := int64(0)
	err = log.Entries(ctx, func(e task.Entry) error {
		if p.Open = e.Kind != task.Marked || e.Mark.Open; e.Kind == task.Marked {
			lastMS = stateMS
		}
		if e.Kind == task.Stated {
			stateMS = e.Timestamp
		}
		if e.Kind == task.Kept {
			p.kept[string(e.Key)] = bytes.Clone(e.Value)
		}
		return nil
	})
	return lastMS, err
}

// complete makes the mark that is written. Users had states before, so results from there on depend
// on records that are not in this raw topic.
func (p *MovedPartition) complete(source []byte) {
	m := &p.mark
	m.Input, m.Origin, m.Since, m.Lost, m.Source = p.Input, p.Input, p.Input, true, source
	m.Epoch = -1 // the other cluster's leaders are others
	m.Rebuilt, m.Published = time.Now().UnixMilli(), 0
}

// covers refuses to go on behind releases that the changelog may lack.
func (m *mover) covers(ctx context.Context, raw *topics.Reader, p *MovedPartition,
	lastMS int64,
) error {
	if !p.Open || p.Input == raw.First {
		return nil
	}
	last, until := time.UnixMilli(lastMS).UTC(), raw.First
	dated := !m.undated && lastMS > 0
	if dated {
		var err error
		if until, err = (topics.Bound{Time: last}).Resolve(ctx, raw, raw.First); err != nil {
			return err
		}
	}
	if p.Input <= until {
		return nil
	}
	way := "--from earliest"
	if dated {
		way += " or " + last.Format(time.RFC3339Nano)
	}
	return fmt.Errorf("the end of %s is missing; to go without it: %s (move-incomplete)",
		m.o.Topics.Changelog, way)
}

// write writes one partition in one transaction.
func (m *mover) write(ctx context.Context, p *MovedPartition) error {
	tx, err := m.transaction(ctx, p.Number)
	if err != nil {
		return err
	}
	if err := m.fill(ctx, tx, p); err != nil {
		return errors.Join(err, tx.Abort(context.WithoutCancel(ctx)))
	}
	_, err = tx.Commit(ctx)
	return err
}

func (m *mover) fill(ctx context.Context, tx *producer.Transactional, p *MovedPartition) error {
	w := m.writer(ctx, tx, p.Number)
	for key, value := range p.kept {
		if len(value) == 0 {
			continue
		}
		value, err := engine.MoveKept(value, p.Input)
		if err == nil {
			err = w.addRecord([]byte(key), value)
		}
		if err != nil {
			return err
		}
	}
	return w.finish(task.AppendMark(nil, p.mark), p.Input)
}
