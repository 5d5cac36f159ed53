package producer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	kafka "github.com/segmentio/kafka-go"
)

// sanitizedLike makes records as the pipeline writes them: a user id as key, and
// a value of numbers, half of which repeat from record to record.
func sanitizedLike(n, valueBytes int) []Record {
	rng := rand.New(rand.NewPCG(7, 7))
	records := make([]Record, n)
	for i := range records {
		value := make([]byte, valueBytes)
		for j := valueBytes / 2; j+8 <= valueBytes; j += 8 {
			binary.LittleEndian.PutUint64(value[j:], rng.Uint64())
		}
		records[i] = Record{
			Key: fmt.Appendf(nil, "user-%08d", i), Value: value,
			Timestamp: 1_700_000_000_000 + int64(i),
		}
	}
	return records
}

// BenchmarkEncode encodes and seals batches of 1000 records of 176 bytes.
func BenchmarkEncode(b *testing.B) {
	const n = 1000
	records := sanitizedLike(n, 160)
	ses := session{transactionalID: "bench", producerID: 1}
	for _, codec := range []kafka.Compression{0, kafka.Snappy, kafka.Lz4, kafka.Zstd, kafka.Gzip} {
		b.Run(codec.String(), func(b *testing.B) {
			var e encoder
			size := 0
			b.ReportAllocs()
			for b.Loop() {
				e.fill(records, 1<<20)
				frame, err := e.seal(&ses, 0, codec)
				if err != nil {
					b.Fatal(err)
				}
				size = len(frame)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
			b.ReportMetric(float64(size)/n, "bytes/record")
		})
	}
}
