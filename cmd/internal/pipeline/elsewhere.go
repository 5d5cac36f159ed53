package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/state"
)

// ElsewhereError is a LostError of which no changelog was lost here: the state folder was
// written for another raw topic, and the group has processed nothing of this one. A cluster
// that keeps its topics in memory looks so after it was started again.
type ElsewhereError struct {
	Raw  string
	gone bool // the raw topic is missing, else it is another one under its name
	lost *LostError
}

// Error says whose the folder is, and what to do.
func (e *ElsewhereError) Error() string {
	is := "is not the topic that the state folder was written for"
	if e.gone {
		is = "is missing"
	}
	return fmt.Sprintf("the state folder %s is of another cluster or of an earlier raw topic: %s %s, "+
		"and group %s has processed nothing here. If the cluster is the wrong one, or topics.raw "+
		"misspelt, correct that. If it was made anew, remove the folder with \"geodither state "+
		"reset --discard-account\": what each user has spent so far then counts no more, and adds "+
		"to what is spent from there on", e.lost.Folder, e.Raw, is, e.lost.Group)
}

// Unwrap returns the LostError.
func (e *ElsewhereError) Unwrap() error { return e.lost }

// elsewhere tells a folder of another raw topic from a loss: an ElsewhereError says that it
// is one, nil that it is a loss.
func (c *lossCheck) elsewhere(ctx context.Context, found *LostError) error {
	for _, e := range found.lost {
		if e.committed >= 0 || e.stored < 0 {
			return nil // the group knows this raw topic
		}
	}
	raw := c.o.Topics.Raw
	ids, err := admin.TopicIDs(ctx, c.client, c.call, raw)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return &ElsewhereError{Raw: raw, gone: true, lost: found}
	}
	if err != nil {
		return err
	}
	store, err := state.Open(c.o.StateDir, state.Options{ReadOnly: true, Logger: c.o.Logger})
	if err != nil {
		return nil //nolint:nilerr // it cannot be told
	}
	id, other := ids[raw], 0
	for n := range found.lost {
		source := sourceOf(store.Partition(n))
		if len(source) > 0 && id != [16]byte{} && !bytes.Equal(source, id[:]) {
			other++
		}
	}
	if err := store.Close(); err != nil || other < len(found.lost) {
		return err
	}
	return &ElsewhereError{Raw: raw, lost: found}
}

// sourceOf is the id of the raw topic that a partition's mark was written for; empty if it
// is not known.
func sourceOf(p *state.Partition) []byte {
	value, err := p.Get([]byte(state.MarkName))
	if err != nil || len(value) == 0 {
		return nil
	}
	mark, err := task.DecodeMark(value)
	if err != nil {
		return nil
	}
	return bytes.Clone(mark.Source)
}

// changelogBefore says of a folder of this service that only its changelog is another one by
// now: it was written back, say, or a reset of everything has made it anew.
func (s *Service) changelogBefore(cluster string) func(identity []byte) string {
	return func(identity []byte) string {
		t := s.options.Topics
		if _, ours := copyOf(identity, cluster, s.options.Group, t); !ours {
			return ""
		}
		return fmt.Sprintf("it belongs to the changelog before: %s was made again since, which is "+
			"expected after a rebuild of the changelog", t.Changelog)
	}
}
