package erase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
)

// Options are those of the service, and whom to erase. Required is what Settings and Cluster
// require, and Users. The service may be at work or not.
type Options struct {
	engine.Settings
	topics.Cluster
	StateDir string // the state folder on this machine; "": none
	Users    []string
	// ResetBudget also drops the accounts: a user who comes back starts at Σε = 0, beside what is
	// published already.
	ResetBudget bool
	// Wait is how long to wait for a running service to carry out what it has to. Default 2 min.
	Wait          time.Duration
	MaxBatchBytes int          // size of a record batch that is written; default the producer's
	Logger        *slog.Logger // default slog.Default()
}

// eraser is one call of Run.
type eraser struct {
	o      Options
	client *kafka.Client
	names  *engine.Eraser
	wanted map[string]string // key in the changelog → its user
	now    func() time.Time
}

func newEraser(o Options) (*eraser, error) {
	if err := errors.Join(o.Cluster.Validate(), o.Settings.Validate()); err != nil {
		return nil, err
	}
	if len(o.Users) == 0 {
		return nil, errors.New("name at least one user to erase")
	}
	o.Settings, o.Cluster = o.Settings.WithDefaults(), o.Cluster.WithDefaults()
	o.Wait = cmp.Or(o.Wait, 2*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	e := &eraser{
		o: o, client: o.Client(), names: engine.NewEraser(o.Key), wanted: map[string]string{},
		now: time.Now,
	}
	for i, user := range o.Users {
		if !task.ValidKey([]byte(user)) {
			return nil, fmt.Errorf("user %d is empty or begins with a zero byte, as no user id "+
				"does", i+1)
		}
		if _, twice := e.wanted[user]; twice {
			return nil, fmt.Errorf("user %d is named twice", i+1)
		}
		e.want(user)
	}
	return e, nil
}

// want makes e look for the records of a user.
func (e *eraser) want(user string) {
	key := []byte(user)
	for _, of := range [][]byte{key, e.names.Kept(key), e.names.RequestKey(key)} {
		e.wanted[string(of)] = user
	}
}

// advice says what has to happen for requests to be carried out.
func (e *eraser) advice(ctx context.Context) string {
	if e.members(ctx) == 0 {
		return "No instance of the service is at work, and the last one did not stop cleanly, so " +
			"only the service can erase without a second release of what it had in hand: start " +
			"it, and repeat this command for the receipt"
	}
	return "The service is at work: repeat this command for the receipt, with a longer --wait if " +
		"the service is far behind"
}

// members is how many instances the group has, as far as it is known.
func (e *eraser) members(ctx context.Context) int {
	res, err := e.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{
		GroupIDs: []string{e.o.Group},
	})
	if err != nil {
		return 0
	}
	n := 0
	for _, g := range res.Groups {
		if g.GroupState != "" && g.GroupState != "Empty" && g.GroupState != "Dead" {
			n += max(len(g.Members), 1)
		}
	}
	return n
}
