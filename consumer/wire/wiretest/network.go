package wiretest

import (
	"context"
	"errors"
	"net"
	"sync"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/geodither/geodither/consumer/wire"
)

// Network is a transport that can lose requests or answers of one kind, or hold requests up.
type Network struct {
	// Sending, if set, sees every message before it is sent.
	Sending func(protocol.Message)

	transport kafka.RoundTripper
	mutex     sync.Mutex
	losses    map[protocol.ApiKey][]Loss
	held      map[protocol.ApiKey]<-chan struct{}
	sent      map[protocol.ApiKey]int
}

func newNetwork(transport kafka.RoundTripper) *Network {
	return &Network{
		transport: transport, losses: map[protocol.ApiKey][]Loss{},
		held: map[protocol.ApiKey]<-chan struct{}{}, sent: map[protocol.ApiKey]int{},
	}
}

// Loss says what a Network loses of one kind of request.
type Loss struct {
	Times  int  // how many; -1 for all
	Answer bool // the request arrives, and its answer is lost
}

// Lose loses the next requests of a kind, after those that are to be lost already.
func (n *Network) Lose(key protocol.ApiKey, loss Loss) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.losses[key] = append(n.losses[key], loss)
}

// Heal loses no more requests.
func (n *Network) Heal() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	clear(n.losses)
}

// Lost reports whether all requests of a kind that are to be lost have been lost.
func (n *Network) Lost(key protocol.ApiKey) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, loss := range n.losses[key] {
		if loss.Times != 0 {
			return false
		}
	}
	return true
}

// Hold makes all requests of a kind wait until release is called, whatever their context says.
func (n *Network) Hold(key protocol.ApiKey) (release func()) {
	held := make(chan struct{})
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.held[key] = held
	return sync.OnceFunc(func() {
		n.mutex.Lock()
		defer n.mutex.Unlock()
		delete(n.held, key)
		close(held)
	})
}

// Sent returns how many requests of a kind were sent, or of all kinds if none is given.
func (n *Network) Sent(keys ...protocol.ApiKey) (sum int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for _, key := range keys {
		sum += n.sent[key]
	}
	if len(keys) == 0 {
		for _, count := range n.sent {
			sum += count
		}
	}
	return sum
}

// next counts a request, and returns what to do with it.
func (n *Network) next(key protocol.ApiKey) (lose bool, loss Loss, held <-chan struct{}) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.sent[key]++
	for i := range n.losses[key] {
		if l := &n.losses[key][i]; l.Times != 0 {
			l.Times--
			return true, *l, nil
		}
	}
	return false, Loss{}, n.held[key]
}

// RoundTrip implements kafka.RoundTripper.
func (n *Network) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (
	kafka.Response, error,
) {
	if x, ok := req.(*wire.Exchange); ok && n.Sending != nil {
		n.Sending(x.Message)
	}
	lose, loss, held := n.next(req.ApiKey())
	if held != nil {
		<-held
	}
	if lose && !loss.Answer {
		return nil, errLost
	}
	res, err := n.transport.RoundTrip(ctx, addr, req)
	if err == nil && lose {
		return nil, errLost
	}
	return res, err
}

var errLost = errors.New("connection reset by test")
