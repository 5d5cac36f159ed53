//go:build kafka

package kafkatest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
)

// proxy stands between a client and every broker. Brokers advertise their own
// addresses, so a client is led through it by its Dial. It can cut the
// connection around one kind of request, and notes what versions are spoken.
type proxy struct {
	t  *testing.T
	mu sync.Mutex

	doors map[string]string // a broker's address: the proxy's for it
	rules map[protocol.ApiKey]*rule
	cuts  int
	deaf  bool // new connections are closed at once
	seen  map[spoken]int
}

// spoken is one version of one kind of request.
type spoken struct {
	key     protocol.ApiKey
	version int16
}

// rule says how often to cut the connection, and when: before the request is
// forwarded, or after its answer has come and before that is passed on.
type rule struct {
	times   int // still to come
	forward bool
	// after the last cut every new connection is closed too, and every such request cut
	forGood bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	return &proxy{
		t: t, doors: map[string]string{}, rules: map[protocol.ApiKey]*rule{},
		seen: map[spoken]int{},
	}
}

// cut adds a rule.
func (p *proxy) cut(key protocol.ApiKey, r rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules[key] = &r
}

// open lets connections through again.
func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = false
	clear(p.rules)
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// dial connects to a broker by way of the proxy.
func (p *proxy) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	door, err := p.door(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, door)
}

func (p *proxy) door(broker string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if door, ok := p.doors[broker]; ok {
		return door, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p.t.Cleanup(func() { listener.Close() })
	go p.serve(listener, broker)
	p.doors[broker] = listener.Addr().String()
	return p.doors[broker], nil
}

// serve passes connections on to a broker until the listener is closed.
func (p *proxy) serve(listener net.Listener, broker string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		deaf := p.deaf
		p.mu.Unlock()
		if deaf {
			conn.Close()
			continue
		}
		go p.carry(conn, broker)
	}
}

// carry is one connection.
func (p *proxy) carry(client net.Conn, broker string) {
	defer client.Close()
	server, err := net.Dial("tcp", broker)
	if err != nil {
		return
	}
	defer server.Close()
	var swallow atomic.Bool // the next answer
	go func() {
		defer client.Close()
		defer server.Close()
		for {
			answer, err := frame(server)
			if err != nil || swallow.Load() {
				return
			}
			if _, err := client.Write(answer); err != nil {
				return
			}
		}
	}()
	for {
		request, err := frame(client)
		if err != nil {
			return
		}
		r := p.match(spoken{
			protocol.ApiKey(binary.BigEndian.Uint16(request[4:])),
			int16(binary.BigEndian.Uint16(request[6:])),
		})
		if r != nil && !r.forward {
			return
		}
		swallow.Store(r != nil)
		if _, err := server.Write(request); err != nil {
			return
		}
	}
}

// match returns the rule that applies to a request, nil if none does.
func (p *proxy) match(what spoken) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[what]++
	r := p.rules[what.key]
	switch {
	case r == nil || r.times == 0 && !r.forGood:
		return nil
	case r.times == 0: // on a connection that was there before
		return &rule{}
	}
	p.cuts++
	if r.times--; r.times == 0 && r.forGood {
		p.deaf = true
	}
	return r
}

// frame reads a request or an answer with its size in front.
func frame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size < 4 || size > 1<<28 {
		return nil, errors.New("not Kafka's protocol")
	}
	whole := append(head, make([]byte, size)...)
	_, err := io.ReadFull(r, whole[4:])
	return whole, err
}
