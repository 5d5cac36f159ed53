package wiretest

import (
	"context"
	"errors"
	"net"
	"sync"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Network is a transport that can lose answers of one kind, lose requests, or hold
// them up.
type Network struct {
	real  kafka.RoundTripper
	mutex sync.Mutex
	key   protocol.ApiKey
	times int
	drop  bool            // requests, not answers
	held  <-chan struct{} // requests wait for it, whatever their context says
}

// Lose loses the next answers to a kind of request.
func (n *Network) Lose(key protocol.ApiKey, times int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.key, n.times, n.drop, n.held = key, times, false, nil
}

// Lost returns how many are still to be lost.
func (n *Network) Lost() int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.times
}

// DropNext loses the next requests of a kind before they arrive.
func (n *Network) DropNext(key protocol.ApiKey, times int) {
	n.Lose(key, times)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.drop = true
}

// Hold lets all requests of a kind wait until the function is called.
func (n *Network) Hold(key protocol.ApiKey) (release func()) {
	held := make(chan struct{})
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.key, n.times, n.held = key, 0, held
	return sync.OnceFunc(func() {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		n.held = nil
		close(held)
	})
}

// take reports what becomes of a request or its answer.
func (n *Network) take(key protocol.ApiKey, answer bool) (lost bool, held <-chan struct{}) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if key != n.key {
		return false, nil
	}
	if n.times > 0 && n.drop != answer {
		n.times--
		return true, nil
	}
	return false, n.held
}

// RoundTrip implements kafka.RoundTripper.
func (n *Network) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	errLost := errors.New("connection reset by test")
	lost, held := n.take(req.ApiKey(), false)
	if lost {
		return nil, errLost
	}
	if held != nil {
		<-held
	}
	res, err := n.real.RoundTrip(ctx, addr, req)
	if lost, _ := n.take(req.ApiKey(), true); lost {
		return nil, errLost
	}
	return res, err
}
