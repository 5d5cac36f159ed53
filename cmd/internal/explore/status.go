package explore

import (
	"context"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/monitor"
)

// statusTime is how long an instance may take to say how it is.
const statusTime = 3 * time.Second

// Watched is an instance of a service whose status the page shows. A status has counts and names of
// topics, and nothing of a user.
type Watched struct {
	Name string
	Ask  func(context.Context) (monitor.Status, error)
}

// Instances are what the watched instances say, in the order in which they were named.
type Instances struct {
	Instances []Instance `json:"instances"`
}

// Instance is one of them.
type Instance struct {
	Name    string          `json:"name"`
	Trouble string          `json:"trouble"` // why there is no status; empty if there is one
	Status  *monitor.Status `json:"status"`
}

// statusOf asks all instances at a time.
func statusOf(ctx context.Context, watched []Watched) Instances {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	all := make([]Instance, len(watched))
	var asking sync.WaitGroup
	for i, w := range watched {
		asking.Go(func() {
			s, err := w.Ask(ctx)
			if all[i].Name = w.Name; err != nil {
				all[i].Trouble = err.Error()
				return
			}
			all[i].Status = &s
		})
	}
	asking.Wait()
	return Instances{all}
}
