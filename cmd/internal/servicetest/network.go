package servicetest

import (
	"context"
	"errors"
	"net"
	"sync"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/consumer/wire"
)

// Network is a client's way to the brokers. It can be cut, and mended again.
type Network struct {
	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

// Client returns a client that reaches the brokers over this network.
func (n *Network) Client(addr string) *kafka.Client {
	client := kafkaconn.NewClient([]string{addr})
	client.Transport.(*wire.Transport).Dial = n.dial
	return client
}

func (n *Network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the network is cut")}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		n.conns = append(n.conns, conn)
	}
	return conn, err
}

// Cut closes every connection, and lets none through until Mend.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = true
	for _, conn := range n.conns {
		_ = conn.Close() // it is cut either way
	}
	n.conns = nil
}

// Mend lets connections through again.
func (n *Network) Mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.gone = false
}
