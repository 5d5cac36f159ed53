package account

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/geodither/geodither/consumer/task"
)

// evidence is what speaks for states in the changelog of one partition.
type evidence struct {
	// The raw offset that the group has committed, and the one that the states in the
	// local folder belong to; -1 where there is nothing.
	committed, stored int64
	// published: the sanitized or the dead-letter topic has, or had, a committed record.
	published bool
}

// speaks reports whether something was processed. Nothing lies before offset 0.
func (e evidence) speaks() bool { return e.committed > 0 || e.stored >= 0 || e.published }

// LostError is task.ErrLost, found before any partition was begun.
type LostError struct {
	Changelog string
	Missing   bool // the topic; else it is there, and empty
	Group     string
	Folder    string
	Outputs   [2]string // the sanitized and the dead-letter topic
	lost      map[int32]evidence
}

// Error says what is known of the partitions that have lost their changelog.
func (e *LostError) Error() string {
	is := "is empty"
	if e.Missing {
		is = "is missing"
	}
	var group, folder, published []string
	for _, n := range slices.Sorted(maps.Keys(e.lost)) {
		v := e.lost[n]
		if v.committed > 0 {
			group = append(group, fmt.Sprintf("%d (at raw offset %d)", n, v.committed))
		}
		if v.stored >= 0 {
			folder = append(folder, fmt.Sprintf("%d (up to raw offset %d)", n, v.stored))
		}
		if v.published {
			published = append(published, strconv.Itoa(int(n)))
		}
	}
	var known []string
	if len(group) > 0 {
		known = append(known, fmt.Sprintf("group %s has processed partition %s", e.Group,
			someOf(group)))
	}
	if len(folder) > 0 {
		known = append(known, fmt.Sprintf("the state folder %s has the states of partition %s",
			e.Folder, someOf(folder)))
	}
	if len(published) > 0 {
		known = append(known, fmt.Sprintf("%s or %s has records in partition %s", e.Outputs[0],
			e.Outputs[1], someOf(published)))
	}
	return fmt.Sprintf("%v: %s %s, but %s (changelog-lost)", task.ErrLost, e.Changelog, is,
		strings.Join(known, ", and "))
}

// Unwrap returns task.ErrLost.
func (e *LostError) Unwrap() error { return task.ErrLost }

// someOf names the first few of a list.
func someOf(list []string) string {
	const few = 3
	if len(list) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
	}
	return strings.Join(list, ", ")
}

// ElsewhereError is a LostError of which no changelog was lost here: the state folder was
// written for another raw topic, and the group has processed nothing of this one. A cluster
// that keeps its topics in memory looks so after it was started again.
type ElsewhereError struct {
	Raw  string
	gone bool // the raw topic is missing, else it is another one under its name
	lost *LostError
}

// Error says whose the folder is.
func (e *ElsewhereError) Error() string {
	is := "is not the topic that the state folder was written for"
	if e.gone {
		is = "is missing"
	}
	return fmt.Sprintf("the state folder %s is of another cluster or of an earlier raw topic: %s "+
		"%s (folder-elsewhere)", e.lost.Folder, e.Raw, is)
}

// Unwrap returns the LostError.
func (e *ElsewhereError) Unwrap() error { return e.lost }
