package consumer

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/consumer/wire/wiretest"
)

// harness is a cluster in this process, read by fetchers.
type harness struct{ *wiretest.Harness }

func newHarness(t *testing.T, opts ...kfake.Opt) *harness {
	t.Helper()
	return &harness{wiretest.New(t, opts...)}
}

func (h *harness) fetcher(topic string, partition int32, o FetcherOptions) *Fetcher {
	h.Helper()
	if o.Options == (wire.Options{}) {
		o.Options = wiretest.Quick
	}
	o.MaxWait = cmp.Or(o.MaxWait, 5*time.Millisecond)
	f, err := NewFetcher(h.Client, topic, partition, o)
	h.OK(err)
	return f
}

// readAll fetches from an offset until the stable end, or the end.
func (h *harness) readAll(f *Fetcher, from int64) (values []string, next int64) {
	h.Helper()
	_, end, err := f.Bounds(h.Context())
	h.OK(err)
	values = []string{}
	for rounds := 0; from < end; rounds++ {
		got, err := f.Fetch(h.Context(), from)
		h.OK(err)
		if rounds > 10_000 {
			h.Fatalf("no progress at %d", from)
		}
		for i, r := range got.Records {
			if r.Offset < from || r.Offset >= got.Next ||
				i > 0 && r.Offset <= got.Records[i-1].Offset {
				h.Fatalf("offset %d is out of place from %d to %d", r.Offset, from, got.Next)
			}
		}
		values = append(values, valuesOf(got.Records)...)
		from = got.Next
	}
	return values, from
}

func (h *harness) expect(f *Fetcher, from int64, want ...string) {
	h.Helper()
	if got, _ := h.readAll(f, from); !slices.Equal(got, append([]string{}, want...)) {
		h.Errorf("read %q, want %q", got, want)
	}
}
