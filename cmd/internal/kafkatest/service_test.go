//go:build kafka

package kafkatest

import (
	"strings"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
)

// running is a service at work in this process.
type running struct {
	*servicetest.Running
	h   *harness
	log captured
}

// serve runs a service with its log captured. It is stopped at the test's end if not before.
func (h *harness) serve(o service.Options) *running {
	h.Helper()
	r := atwork.Start(h, o).Running
	h.Cleanup(func() {
		if h.Failed() {
			h.Logf("the log of a service:\n%s", r.Log)
		}
	})
	return &running{r, h, captured{r.Log}}
}

// stop ends the service as a signal would, and requires that it ends well.
func (r *running) stop() {
	r.h.Helper()
	r.Stop(r.h)
}

func (r *running) wait() error {
	r.h.Helper()
	return r.Wait(r.h)
}

// says waits until the log holds a text.
func (h *harness) says(r *running, text string) {
	h.Helper()
	h.eventually("the log says "+text, func() bool { return r.log.has(text) || r.ended() })
	if r.ended() && !r.log.has(text) {
		h.Fatalf("the service has ended: %v", r.Err)
	}
}

func (r *running) ended() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// captured is a log in memory.
type captured struct{ *servicetest.Log }

func newLog() captured { return captured{new(servicetest.Log)} }

func (c captured) has(text string) bool { return strings.Contains(c.String(), text) }

// first are the first n lines with a text, for the log of a test.
func (c captured) first(n int, text string) []string {
	var found []string
	for l := range strings.Lines(c.String()) {
		if strings.Contains(l, text) && len(found) < n {
			found = append(found, strings.TrimSpace(l))
		}
	}
	return found
}
