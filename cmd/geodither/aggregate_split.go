package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/schemas"
)

// splitUsers finds users whose records come from two states: the service keeps a state
// for each partition, so a user whose raw records lay in two partitions was released
// twice, from two budgets. No one filter follows both. The partitions of a topic show it,
// and in a file the numbers of releases do, which every state counts by itself.
type splitUsers struct {
	mu         sync.Mutex // sources are read side by side
	partitions map[string]int32
	apart      map[string]bool // in more than one partition

	numbers map[string]releaseNumber
	again   map[string]bool // a number came again, for another release
}

// releaseNumber is the largest number among a user's releases, and that release.
type releaseNumber struct {
	number, step        int64
	latitude, longitude float64
}

func newSplitUsers() *splitUsers {
	return &splitUsers{
		partitions: map[string]int32{}, apart: map[string]bool{},
		numbers: map[string]releaseNumber{}, again: map[string]bool{},
	}
}

// lies notes in which partition a user's record is.
func (s *splitUsers) lies(user string, partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, known := s.partitions[user]; known && first != partition {
		s.apart[user] = true
		return
	}
	s.partitions[user] = partition
}

// released notes the number of a fresh release.
func (s *splitUsers) released(r schemas.Sanitized) {
	if r.Kind != schemas.KindReleased {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last, this := s.numbers[r.UserID], releaseNumber{r.Release, r.Step, r.Latitude, r.Longitude}
	switch {
	case this.number > last.number:
		s.numbers[r.UserID] = this
	case this != last: // else the record is there twice, as when a file is named twice
		s.again[r.UserID] = true
	}
}

// cause says which users have records of two states, or nothing. It names none of them.
func (s *splitUsers) cause() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	users := func(n int) string {
		if n == 1 {
			return "1 user has"
		}
		return fmt.Sprintf("%d users have", n)
	}
	switch {
	case len(s.apart) > 0:
		return users(len(s.apart)) + " records in more than one partition, so each of these partitions had a state and a budget for the user: " +
			"the raw topic's producers do not agree on a partitioner. \"geodither doctor\" says which ones they use"
	case len(s.again) > 0:
		return users(len(s.again)) + " releases whose numbers go back, so these come from two states of the user, each with a budget: " +
			"the raw topic's producers may not agree on a partitioner (\"geodither doctor\" says which ones they use), " +
			"or the records are of two services or groups"
	}
	return ""
}

// explain adds the cause to an error of records that do not follow.
func (s *splitUsers) explain(err error) error {
	if !errors.Is(err, aggregate.ErrOrder) && !errors.Is(err, aggregate.ErrSettings) {
		return err
	}
	if cause := s.cause(); cause != "" {
		return fmt.Errorf("%w. A likely cause: %s", err, cause)
	}
	return err
}
