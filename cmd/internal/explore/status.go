package explore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/geodither/geodither/cmd/internal/monitor"
)

const (
	// statusTime is how long an instance may take to say how it is, and maxStatus how many bytes
	// it may need: a partition takes 200.
	statusTime = 3 * time.Second
	maxStatus  = 4 << 20
	// MaxWatched is how many instances a page asks at most.
	MaxWatched = 64
)

// Watched is an instance of a service whose status the page shows. A status has counts and names of
// topics, and nothing of a user.
type Watched struct {
	Name string
	Ask  func(context.Context) (monitor.Status, error)
}

// WatchedAt is the instance that answers at the address of "http.listen", HOST:PORT. Without a host
// it is on this machine.
func WatchedAt(address string) (Watched, error) {
	host, port, err := net.SplitHostPort(address)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 {
		return Watched{}, fmt.Errorf("%q is no address of a service: write HOST:PORT, as in "+
			"http.listen", address)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		address = net.JoinHostPort("localhost", port)
	}
	client := &http.Client{
		Timeout: statusTime,
		// Nothing but the instance itself is asked.
		Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	return Watched{Name: address, Ask: func(ctx context.Context) (monitor.Status, error) {
		return askStatus(ctx, client, "http://"+address+"/status")
	}}, nil
}

// askStatus asks an instance. What it says beyond monitor.Status is dropped.
func askStatus(ctx context.Context, client *http.Client, url string) (monitor.Status, error) {
	var s monitor.Status
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return s, errors.New("nothing answers there: is the service running, and is http.listen " +
			"this address?")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return s, fmt.Errorf("/status has the answer %d: is this address a geodither service?",
			answer.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatus)).Decode(&s); err != nil {
		return s, errors.New("what answers there is no status: is this address a geodither " +
			"service?")
	}
	return s, nil
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
