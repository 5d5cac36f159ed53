package consumer_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/producer"
)

// brokerEnv makes the test binary a broker: a process of its own, so that a
// benchmark's CPU time is the client's alone.
const brokerEnv = "GEODITHER_BENCH_BROKER"

func TestMain(m *testing.M) {
	if os.Getenv(brokerEnv) != "" {
		broker()
		return
	}
	os.Exit(m.Run())
}

// broker prints its address and serves until its standard input ends.
func broker() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "in", "out", "log"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Fprintln(os.Stdout, cluster.ListenAddrs()[0])
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startBroker(b *testing.B) *kafka.Client {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), brokerEnv+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	transport := &kafka.Transport{}
	b.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(strings.TrimSpace(line)), Transport: transport}
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkConsumeProduce is the Kafka part of the pipeline, one operation an
// event: fetch a record of 193 bytes, and write one of 153 and one of 601, in
// transactions of 2000 events with their offset.
func BenchmarkConsumeProduce(b *testing.B) {
	const batch = 2000
	client := startBroker(b)
	preload(b, client, b.N)
	p, err := producer.NewTransactional(client, "bench", producer.Options{})
	must(b, err)
	must(b, p.Init(b.Context()))
	f, err := consumer.NewFetcher(client, "in", 0, consumer.FetcherOptions{})
	must(b, err)
	output, state := make([]byte, 140), make([]byte, 588)
	var out, log []producer.Record
	flush := func(next int64) {
		_, err := p.Produce(b.Context(),
			producer.Batch{TopicPartition: producer.TopicPartition{Topic: "out"}, Records: out},
			producer.Batch{TopicPartition: producer.TopicPartition{Topic: "log"}, Records: log})
		must(b, err)
		must(b, p.CommitOffsets(b.Context(), producer.Member{Group: "group", Generation: -1},
			map[producer.TopicPartition]int64{{Topic: "in"}: next}))
		_, err = p.Commit(b.Context())
		must(b, err)
		out, log = out[:0], log[:0]
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	for next := int64(0); next < int64(b.N); {
		got, err := f.Fetch(b.Context(), next)
		must(b, err)
		for _, r := range got.Records {
			out = append(out, producer.Record{Key: r.Key, Value: output, Timestamp: r.Timestamp})
			log = append(log, producer.Record{Key: r.Key, Value: state, Timestamp: r.Timestamp})
			if len(out) == batch {
				flush(r.Offset + 1)
			}
		}
		if len(out) > 0 { // the records' memory is the next fetch's
			flush(got.Next)
		}
		next = got.Next
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

func preload(b *testing.B, client *kafka.Client, n int) {
	b.Helper()
	p, err := producer.NewIdempotent(client, producer.Options{})
	must(b, err)
	value := make([]byte, 180)
	for from := 0; from < n; from += 10_000 {
		records := make([]producer.Record, min(10_000, n-from))
		for i := range records {
			records[i] = producer.Record{
				Key: fmt.Appendf(nil, "user-%08d", from+i), Value: value,
				Timestamp: int64(from + i),
			}
		}
		_, err := p.Produce(b.Context(),
			producer.Batch{TopicPartition: producer.TopicPartition{Topic: "in"}, Records: records})
		must(b, err)
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
