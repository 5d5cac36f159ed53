package counting

import (
	"fmt"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/schemas"
)

// BenchmarkWindows processes fixes of 1,000 users, a minute apart for each of them. Most fixes do
// not count, as in a service.
func BenchmarkWindows(b *testing.B) {
	s := testSettings(b)
	for _, encoding := range []schemas.Encoding{schemas.JSON, schemas.Avro} {
		b.Run(fmt.Sprint(encoding), func(b *testing.B) {
			codec, err := schemas.NewCodec(encoding)
			if err != nil {
				b.Fatal(err)
			}
			source := engine.Source{Encoding: encoding, MaxAhead: engine.DefaultMaxAhead}
			w, err := NewWindows(s, source, engine.Murmur2, engine.Partition{Of: 1}, 1)
			if err != nil {
				b.Fatal(err)
			}
			if err := w.Restored(nil); err != nil {
				b.Fatal(err)
			}
			const users = 1000
			var states [users][]byte
			var fx task.Effects
			var value []byte
			at := s.Plan.Windows(s.First)[0].StartMS
			keys := make([][]byte, users)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "vehicle-%04d", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				user := i % users
				at += 60
				value, err = codec.AppendRaw(value[:0], schemas.Raw{
					UserID: string(keys[user]), Timestamp: at, Latitude: 51.5, Longitude: -1.5,
				})
				if err != nil {
					b.Fatal(err)
				}
				if i%users == 0 {
					for ms, _ := w.Deadline(); ms < at; ms, _ = w.Deadline() {
						if err := w.Passed(ms, &fx); err != nil {
							b.Fatal(err)
						}
					}
				}
				rec := task.Record{Timestamp: at, Key: keys[user], Value: value}
				key, _, err := w.Key(rec)
				if err != nil || len(key) == 0 {
					b.Fatal(key, err)
				}
				fx = task.Effects{Output: fx.Output[:0]}
				if err := w.Process(rec, states[user], &fx); err != nil {
					b.Fatal(err)
				}
				if len(fx.State) > 0 {
					states[user] = append(states[user][:0], fx.State...)
				}
				if i%users == 0 {
					w.Changes()
				}
			}
		})
	}
}
