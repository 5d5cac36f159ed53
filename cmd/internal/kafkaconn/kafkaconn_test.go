package kafkaconn

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/consumer/wire"
)

// TestCheckBrokers: an address that no client could connect to is refused with what is wrong.
func TestCheckBrokers(t *testing.T) {
	for address, want := range map[string]string{
		"kafka-1:9092": "", "[::1]:9092": "", "10.0.0.1:65535": "",
		"":                     "is empty",
		" ":                    "is empty",
		"a:1,b:1":              "has a comma",
		"PLAINTEXT://a:9092":   "names a protocol",
		"https://a.example":    "names a protocol",
		"a:9092 ":              "holds a space",
		"a b:9092":             "holds a space",
		"::1:9092":             "in brackets",
		"fe80::1":              "in brackets",
		"kafka":                "has no port",
		"kafka:":               "has no port",
		"[::1]":                "has no port",
		"kafka:0":              "is no number from 1 to 65535",
		"kafka:65536":          "is no number from 1 to 65535",
		"kafka:kafka":          "is no number from 1 to 65535",
		":9092":                "no host name",
		"user@kafka:9092":      "no host name",
		"kafka/path:9092":      "no host name",
		"u:hunter2@kafka:9092": `"...@kafka:9092"`,
	} {
		err := CheckBrokers([]string{"good:9092", address})
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}

// TestConnect: the error names a broker that does not answer, and what to do.
func TestConnect(t *testing.T) {
	_, err := (*Connection)(nil).Connect(t.Context(), nil)
	if !errors.As(err, new(cli.UsageError)) {
		t.Errorf("no brokers: %v", err)
	}
	const hint = "127.0.0.1:1: is Kafka running there?"
	if _, err := (*Connection)(nil).Connect(t.Context(), []string{"127.0.0.1:1"}); err == nil ||
		!strings.Contains(err.Error(), hint) {
		t.Errorf("nobody listens: %v", err)
	}

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := silent.Addr().String()
	if _, err := (*Connection)(nil).connect(t.Context(), []string{addr},
		50*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "no answer from "+addr+" within 50ms") {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// TestLog: an operator hears once a minute that
// brokers throttle this client, and at level debug that sessions are renewed.
func TestLog(t *testing.T) {
	var told bytes.Buffer
	c, clock := connection(t, Options{TLS: &TLS{}, ClientID: "truck"})
	transport := c.Client([]string{"b:1"}).Transport.(*wire.Transport)
	transport.Throttled(protocol.Fetch, time.Second) // nobody listens yet
	c.Log(slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for range 100 {
		transport.Throttled(protocol.Produce, time.Second)
		clock.pass(time.Second)
	}
	c.renewed("b:1", time.Minute)
	text := told.String()
	for words, times := range map[string]int{
		"level=WARN msg=\"brokers throttle this client":                                        2,
		"client_id=truck request=Produce held=1s held_in_all=2s":                               1,
		"client_id=truck request=Produce held=1s held_in_all=1m2s":                             1,
		"level=DEBUG msg=\"logged in again before the session ended\" broker=b:1 session=1m0s": 1,
	} {
		if got := strings.Count(text, words); got != times {
			t.Errorf("%q is said %d times, want %d:\n%s", words, got, times, text)
		}
	}
}

// TestProtocol: the log says at the start how far the connection is protected, in Kafka's words.
func TestProtocol(t *testing.T) {
	login := &SASL{
		Mechanism: Plain, Username: "u", Password: NewSecret("p"), AllowPlaintext: true,
	}
	for want, o := range map[string]Options{
		"PLAINTEXT": {}, "SSL": {TLS: &TLS{}}, "SASL_PLAINTEXT": {SASL: login},
		"SASL_SSL": {TLS: &TLS{}, SASL: login},
	} {
		c, _ := connection(t, o)
		var told bytes.Buffer
		c.Log(slog.New(slog.NewTextHandler(&told, nil)))
		if !strings.Contains(told.String(), "protocol="+want+"\n") {
			t.Errorf("%s: %s", want, &told)
		}
	}
	if got := (*Connection)(nil).Protocol(); got != "PLAINTEXT" {
		t.Errorf("no connection: %s", got)
	}
}

// TestDroppedClientCloses: what kafka-go runs for a client ends once nobody can use the client.
func TestDroppedClientCloses(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	client, err := (*Connection)(nil).Connect(t.Context(), cluster.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	if watching() == 0 {
		t.Fatal("a client in use has no goroutine that looks for brokers: this test sees nothing")
	}
	runtime.KeepAlive(client)
	for deadline := time.Now().Add(time.Minute); watching() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody has the client, and brokers are still looked for")
		}
		runtime.GC()
	}
}

// watching counts the goroutines in which kafka-go looks for brokers.
func watching() int {
	stacks := make([]byte, 1<<22)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("kafka-go.(*connPool).discover("))
}
