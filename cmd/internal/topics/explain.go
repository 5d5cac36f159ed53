package topics

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/geodither/geodither/consumer/admin"
)

// LostTopic gives an error of a missing changelog the name of its remedy.
// Whatever makes the topic again, empty, hides the loss. Other errors stay as they are.
func LostTopic(err error, changelog string) error {
	var missing *admin.MissingTopicsError
	if !errors.As(err, &missing) || !slices.Contains(missing.Topics, changelog) {
		return err
	}
	return &LostTopicError{changelog, missing}
}

// LostTopicError is a consumer.MissingTopicsError of a changelog.
type LostTopicError struct {
	Changelog string
	missing   *admin.MissingTopicsError
}

// Error names all that is missing.
func (e *LostTopicError) Error() string {
	others := slices.DeleteFunc(slices.Clone(e.missing.Topics), func(name string) bool {
		return name == e.Changelog
	})
	and := ""
	if len(others) > 0 {
		and = fmt.Sprintf(" (nor %s)", strings.Join(others, ", "))
	}
	return fmt.Sprintf("there is no changelog %s%s (changelog-lost)", e.Changelog, and)
}

// Unwrap returns the consumer.MissingTopicsError.
func (e *LostTopicError) Unwrap() error { return e.missing }

// ExplainPartitions adds to an error about numbers of partitions the name of its remedy.
func ExplainPartitions(err error, t Set) error {
	var differ *admin.PartitionsError
	if !errors.As(err, &differ) || differ.Topic == t.Raw {
		return err
	}
	return fmt.Errorf("%w (partitions-differ)", err)
}
