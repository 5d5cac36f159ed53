package account

import (
	"errors"
	"hash/maphash"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
)

// stray returns a user whose records murmur2 does not put into partition 0.
func stray(t *testing.T) string {
	t.Helper()
	for _, user := range servicetest.Users(100) {
		if at, _ := engine.Murmur2.Partition(user, servicetest.Partitions); at != 0 {
			return string(user)
		}
	}
	t.Fatal("every user is in partition 0")
	return ""
}

// TestHomesAreCleaned: a user whose state the cleaner removes for the sake of a newer one behind
// the end is counted.
func TestHomesAreCleaned(t *testing.T) {
	w, check := newCheck(t)
	topic, user := check.Cluster.Topics.Changelog, stray(t)
	w.Put(t, topic, "first", []byte("-")) // the broker's log begins at its first record
	w.Put(t, topic, user, []byte("state"))
	c := &homeCheck{
		client:   w.Cleaned(t, topic, user, []byte("newer state")),
		settings: engine.Settings{Partitioner: engine.Murmur2}, cluster: check.Cluster,
	}
	users := away{}
	servicetest.OK(t, c.count(t.Context(), 0, servicetest.Partitions, users))
	if _, found := users[maphash.Bytes(awaySeed, []byte(user))]; !found {
		t.Errorf("of %d users away from home none is the one whose state was cleaned", len(users))
	}
}

// TestHomesCountUsers: a user with states in two partitions is one user.
func TestHomesCountUsers(t *testing.T) {
	w, check := newCheck(t)
	topic, user := check.Cluster.Topics.Changelog, stray(t)
	mark := servicetest.Line{
		Key: task.MarkKey, Value: string(task.AppendMark(nil, task.Mark{Input: 1})),
		Timestamp: servicetest.StartMS,
	}
	state := servicetest.Line{Key: user, Value: "state", Timestamp: servicetest.StartMS}
	for n := range int32(servicetest.Partitions) {
		w.Write(t, true, topic, n, state, mark)
	}
	_, err := CheckHomes(t.Context(), w.Client, wire.Options{},
		engine.Settings{Partitioner: engine.Murmur2}, check.Cluster, servicetest.Partitions)
	var moved *MovedError
	if !errors.As(err, &moved) || moved.Moved != 1 {
		t.Errorf("the check answers %v", err)
	}
}

// TestHomesOfAborted: a state whose removal was aborted is there, and one that was never committed
// is not.
func TestHomesOfAborted(t *testing.T) {
	w, check := newCheck(t)
	topic := check.Cluster.Topics.Changelog
	line := func(user, value string) servicetest.Line {
		return servicetest.Line{Key: user, Value: value, Timestamp: servicetest.StartMS}
	}
	user := stray(t)
	w.Write(t, true, topic, 0, line(user, "state"))
	w.Write(t, false, topic, 0, line(user, ""), line(user+"-never", "state"))
	c := &homeCheck{
		client: w.Client, settings: engine.Settings{Partitioner: engine.Murmur2},
		cluster: check.Cluster,
	}
	users := away{}
	servicetest.OK(t, c.count(t.Context(), 0, servicetest.Partitions, users))
	if _, found := users[maphash.Bytes(awaySeed, []byte(user))]; !found || len(users) != 1 {
		t.Errorf("%d users are away from home, among them the one with a state: %t", len(users),
			found)
	}
}
