package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// ErrRawPartitions says that the raw topic has another number of partitions than
// Topics.Partitions.
var ErrRawPartitions = errors.New("the raw topic has another number of partitions than topics.partitions says")

// rawPartitions is the raw topic's number of partitions: its own, which Topics.Partitions
// has to match if it is set, or Topics.Partitions if the topic is missing. Nobody makes a
// missing raw topic without being told how large: its name may be misspelt, and its
// number of partitions can never change.
func rawPartitions(ctx context.Context, client *kafka.Client, o wire.Options, t Topics) (int, error) {
	counts, err := admin.Partitions(ctx, client, o, t.Raw)
	var missing *admin.MissingTopicsError
	switch {
	case err == nil && t.Partitions > 0 && counts[t.Raw] != t.Partitions:
		return 0, fmt.Errorf("%w: %s has %d, and topics.partitions is %d. Set topics.partitions: %d or leave it out; "+
			"it is for a raw topic that is still to be made", ErrRawPartitions, t.Raw, counts[t.Raw], t.Partitions, counts[t.Raw])
	case err == nil:
		return counts[t.Raw], nil
	case errors.As(err, &missing) && t.Partitions > 0:
		return t.Partitions, nil
	case errors.As(err, &missing):
		return 0, fmt.Errorf("%w%s; geodither makes it only if topics.partitions says how large", missing, similarTopics(ctx, client, o, t, missing.Topics))
	}
	return 0, err
}

// checkRawPartitions is the part of rawPartitions that no waiting mends.
func checkRawPartitions(ctx context.Context, client *kafka.Client, o wire.Options, t Topics) error {
	if _, err := rawPartitions(ctx, client, o, t); errors.Is(err, ErrRawPartitions) {
		return err
	}
	return nil
}

// makeTopics is CreateTopics, and says in the log what it has made.
func (s *Service) makeTopics(ctx context.Context, o wire.Options) error {
	t := s.options.Topics
	_, err := admin.Partitions(ctx, s.client, o, t.Raw, t.Sanitized, t.Changelog, t.DeadLetters)
	var missing *admin.MissingTopicsError
	if err != nil && !errors.As(err, &missing) {
		return err
	}
	if err := createTopics(ctx, s.client, o, t); err != nil || missing == nil {
		return err
	}
	// At a first start all are missing. One that alone is missing was there, or is misspelt.
	level := slog.LevelWarn
	if out := slices.DeleteFunc(slices.Clone(missing.Topics), func(name string) bool {
		return name == t.Raw
	}); len(out) == 3 {
		level = slog.LevelInfo
	}
	for _, name := range missing.Topics {
		if name == t.Raw {
			s.log.Warn("the raw topic was missing and has been made, empty: is topics.raw spelt as the producers have it?",
				"topic", name, "partitions", t.Partitions)
			continue
		}
		s.log.Log(ctx, level, "a topic was missing and has been made", "topic", name)
	}
	return nil
}

// similarTopics names topics of the cluster whose names are nearly those that are
// missing, in words to go on with; "" if there are none, or if nobody tells.
func similarTopics(ctx context.Context, client *kafka.Client, o wire.Options, t Topics, missing []string) string {
	all, err := admin.Topics(ctx, client, o)
	if err != nil {
		return "" // whoever asks has an error already
	}
	own := []string{t.Raw, t.Sanitized, t.Changelog, t.DeadLetters}
	var found []string
	for _, name := range all {
		if slices.Contains(own, name) {
			continue
		}
		if slices.ContainsFunc(missing, func(m string) bool { return similar(m, name) }) {
			found = append(found, name)
		}
	}
	if found == nil {
		return ""
	}
	const enough = 3
	return fmt.Sprintf(" (there is %s: a misspelling?)", strings.Join(found[:min(len(found), enough)], ", "))
}

// similar reports whether one name may be a misspelling of another: letters and digits
// are the same, or no more than a quarter of them, and one at least, differ.
func similar(a, b string) bool {
	x, y := letters(a), letters(b)
	return distance(x, y) <= max(1, max(len(x), len(y))/4)
}

// letters are a name's letters and digits in lower case.
func letters(name string) []rune {
	var kept []rune
	for _, r := range strings.ToLower(name) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// distance is the number of letters to insert, remove or replace to make one name of
// another (Levenshtein), in O(len(a)·len(b)).
func distance(a, b []rune) int {
	row := make([]int, len(b)+1) // distances of a's beginning to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
