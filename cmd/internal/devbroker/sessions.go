package devbroker

import (
	"context"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// minSessionTimeout lets tests have a dead member removed soon. Kafka's own default is 6 s.
const minSessionTimeout = 100 * time.Millisecond

// sessions removes members that a group has not heard from for two session timeouts.
//
// kfake does so after one. But it starts a new member's session only when the member has received
// its first answer. A member that is cut off before that would keep its partitions as long as the
// broker runs.
type sessions struct {
	client *kafka.Client
	mu     sync.Mutex
	heard  map[string]heard // by member id
}

type heard struct {
	group   string
	at      time.Time
	timeout time.Duration // of the session
}

// watch begins to listen to the groups' requests, and looks for silent members until ctx ends.
func watch(ctx context.Context, cluster *kfake.Cluster) {
	s := &sessions{
		client: &kafka.Client{Addr: kafka.TCP(cluster.ListenAddrs()[0])},
		heard:  map[string]heard{},
	}
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat} {
		cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			s.hear(r)
			return nil, nil, false
		})
	}
	go func() {
		tick := time.NewTicker(minSessionTimeout)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				for id, h := range s.silent(now) {
					s.remove(ctx, h.group, id)
				}
			}
		}
	}()
}

// hear notes a sign of life. A member's first request has no id yet.
func (s *sessions) hear(r kmsg.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := r.(type) {
	case *kmsg.JoinGroupRequest:
		if r.MemberID != "" {
			s.heard[r.MemberID] = heard{
				group: r.Group, at: time.Now(),
				timeout: time.Duration(r.SessionTimeoutMillis) * time.Millisecond,
			}
		}
	case *kmsg.SyncGroupRequest:
		s.touch(r.MemberID)
	case *kmsg.HeartbeatRequest:
		s.touch(r.MemberID)
	}
}

func (s *sessions) touch(id string) {
	if h, ok := s.heard[id]; ok {
		h.at = time.Now()
		s.heard[id] = h
	}
}

// silent returns the members that should have been removed.
func (s *sessions) silent(now time.Time) map[string]heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]heard{}
	for id, h := range s.heard {
		if now.Sub(h.at) > 2*h.timeout {
			found[id] = h
		}
	}
	return found
}

// remove ends a silent member's membership, unless its group is between two generations: members
// say nothing while they wait for the next one. What fails is tried again at the next tick.
func (s *sessions) remove(ctx context.Context, group, id string) {
	ask := kafka.DescribeGroupsRequest{GroupIDs: []string{group}}
	got, err := s.client.DescribeGroups(ctx, &ask)
	if err != nil {
		return
	}
	if state := got.Groups[0].GroupState; state == "PreparingRebalance" ||
		state == "CompletingRebalance" {
		return
	}
	_, err = s.client.LeaveGroup(ctx, &kafka.LeaveGroupRequest{
		GroupID: group, Members: []kafka.LeaveGroupRequestMember{{ID: id}},
	})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.heard, id)
}
