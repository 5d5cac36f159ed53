package aggregate

import (
	"fmt"
	"sync"
)

// split finds users whose records come from two states. The service keeps a state for each
// partition, so a user whose raw records lay in two partitions was released twice, from two
// budgets, and no one filter follows both. The partitions of a topic show it. In a file the numbers
// of releases do, because every state counts them by itself.
type split struct {
	mu         sync.Mutex // sources are read side by side
	partitions map[string]int32
	apart      map[string]bool // in more than one partition

	numbers map[string]releaseNumber
	again   map[string]bool // a number came again, for another release
}

// releaseNumber is a release and its number among its user's.
type releaseNumber struct {
	number, step        int64
	latitude, longitude float64
}

func newSplit() *split {
	return &split{
		partitions: map[string]int32{}, apart: map[string]bool{},
		numbers: map[string]releaseNumber{}, again: map[string]bool{},
	}
}

// lies notes in which partition a user's record is.
func (s *split) lies(user string, partition int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, known := s.partitions[user]; known && first != partition {
		s.apart[user] = true
		return
	}
	s.partitions[user] = partition
}

// released notes a user's fresh release.
func (s *split) released(user string, this releaseNumber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch last := s.numbers[user]; {
	case this.number > last.number:
		s.numbers[user] = this
	case this != last: // else the record is there twice, as when a file is named twice
		s.again[user] = true
	}
}

// cause says which users have records of two states, or nothing. It names none of them.
func (s *split) cause() string {
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
		return users(len(s.apart)) + " records in more than one partition, so each of these " +
			"partitions had a state and a budget for the user: the raw topic's producers do not " +
			"agree on a partitioner. \"geodither doctor\" says which ones they use"
	case len(s.again) > 0:
		return users(len(s.again)) + " releases whose numbers go back, so these come from two " +
			"states of the user, each with a budget: the raw topic's producers may not agree on " +
			"a partitioner (\"geodither doctor\" says which ones they use), or the records " +
			"are of two services or groups"
	}
	return ""
}
