package topics

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/geodither/geodither/consumer/admin"
)

// LostTopic puts into an error of a missing changelog what must not be done about it.
// Whatever makes the topic again, empty, hides the loss. Other errors stay as they are.
func LostTopic(err error, changelog string) error {
	var missing *admin.MissingTopicsError
	if !errors.As(err, &missing) || !slices.Contains(missing.Topics, changelog) {
		return err
	}
	return &LostTopicError{changelog, missing}
}

// Renamed is what to do about a changelog that is missing because its default name follows from the
// group's.
const Renamed = "If the group was renamed, set topics.changelog: OLD, the changelog of the old name"

// LostTopicError is a consumer.MissingTopicsError of a changelog.
type LostTopicError struct {
	Changelog string
	missing   *admin.MissingTopicsError
}

// Error says what to do, and what not.
func (e *LostTopicError) Error() string {
	others := slices.DeleteFunc(slices.Clone(e.missing.Topics), func(name string) bool {
		return name == e.Changelog
	})
	and := ""
	if len(others) > 0 {
		and = fmt.Sprintf(" (nor %s)", strings.Join(others, ", "))
	}
	return fmt.Sprintf("there is no changelog %s%s. %s. Else do not create it; see state "+
		"rebuild-changelog", e.Changelog, and, Renamed)
}

// Unwrap returns the consumer.MissingTopicsError.
func (e *LostTopicError) Unwrap() error { return e.missing }

// ExplainPartitions adds to an error about numbers of partitions what must not be done about it.
func ExplainPartitions(err error, t Set) error {
	var differ *admin.PartitionsError
	if !errors.As(err, &differ) || differ.Topic == t.Raw {
		return err
	}
	if differ.Topic != t.Changelog {
		return fmt.Errorf("%w. If %s is new, name another one, or make it with %d partitions. If "+
			"the raw topic was given more partitions: %s",
			err, differ.Topic, differ.Want, Growing)
	}
	return fmt.Errorf("%w. If the raw topic was given more partitions: %s", err, Growing)
}

// Growing is what to do with a raw topic that has to be larger.
const Growing = "a user's records may be in another partition now than the user's state. Do not " +
	"delete or grow the changelog to match: it " +
	"holds every user's state and account of ε, and each account would start at 0 again. Feed a " +
	"new raw topic of the new size, and give it " +
	"a group, a sanitized topic and a changelog of its own; there too each account starts at 0, " +
	"and adds to what this service has spent"
