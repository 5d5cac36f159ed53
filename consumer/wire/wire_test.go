package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// TestRequestBytes compares a frame with its layout in Kafka's protocol guide.
func TestRequestBytes(t *testing.T) {
	q := NewRequest(protocol.Heartbeat, 4).String("ab").Nullable("").Nullable("c").Int32(-2)
	q.Count(1).Byte(7).End()
	got := q.Bytes([]byte{8, 9}).End().frame("geodither")
	want := append([]byte{
		0, 0, 0, 37, // size
		0, 12, 0, 4, // key, version
		0, 0, 0, 1, // correlation id
		0, 9,
	}, "geodither"...)
	want = append(want,
		0,           // tags
		3, 'a', 'b', // length plus one, string
		0, 2, 'c', // null, string
		0xff, 0xff, 0xff, 0xfe, // int32
		2, 7, 0, // an array of one structure
		3, 8, 9, 0, // bytes, tags
	)
	if !bytes.Equal(got, want) {
		t.Errorf("the frame is\n%v, want\n%v", got, want)
	}
}

// TestReader reads each field from its bytes, and then from bytes that end too early.
func TestReader(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		read func(r *Reader) any
		want any
	}{
		"int8":  {"\xff", func(r *Reader) any { return r.Int8() }, int8(-1)},
		"int16": {"\x01\x02", func(r *Reader) any { return r.Int16() }, int16(258)},
		"int32": {"\xff\xff\xff\xfe", func(r *Reader) any {
			return r.Int32()
		}, int32(-2)},
		"int64": {strings.Repeat("\xff", 8), func(r *Reader) any {
			return r.Int64()
		}, int64(-1)},
		"varint":       {"\x03", func(r *Reader) any { return r.Varint() }, int64(-2)},
		"varint bytes": {"\x04ab", func(r *Reader) any { return string(r.VarintBytes()) }, "ab"},
		"string":       {"\x00\x02ab", func(r *Reader) any { return string(r.String()) }, "ab"},
		"array": {"\x00\x00\x00\x01abcd", func(r *Reader) any {
			n := r.Count(4)
			r.Take(4)
			return n
		}, 1},
		"compact array": {"\x02abcd", func(r *Reader) any {
			n := r.CompactCount(4)
			r.Take(4)
			return n
		}, 1},
		"compact string": {"\x03ab", func(r *Reader) any {
			return string(r.CompactString())
		}, "ab"},
		"tags of one tag": {"\x01\x05\x02ab", func(r *Reader) any {
			r.SkipTags()
			return nil
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reader{Rest: []byte(c.data)}
			if got := c.read(r); got != c.want || r.Short || len(r.Rest) > 0 {
				t.Errorf("read %v, want %v; short %v, rest %q", got, c.want, r.Short, r.Rest)
			}
			for n := range len(c.data) {
				r := &Reader{Rest: []byte(c.data[:n])}
				if c.read(r); !r.Short {
					t.Errorf("%d bytes of %d are enough", n, len(c.data))
				}
			}
		})
	}
}

func TestReaderNulls(t *testing.T) {
	r := &Reader{Rest: []byte("\x01\x00\xff\xff\x00\xff\xff\xff\xff")}
	if null := r.VarintBytes(); null != nil {
		t.Errorf("null bytes are %q", null)
	}
	if empty := r.VarintBytes(); empty == nil || len(empty) > 0 {
		t.Errorf("no bytes are %v", empty)
	}
	if null, compact := r.String(), r.CompactString(); len(null) > 0 || len(compact) > 0 {
		t.Errorf("null strings are %q and %q", null, compact)
	}
	if n := r.Count(1); n != 0 || r.Short || len(r.Rest) > 0 {
		t.Errorf("a null array has %d elements, short %v, rest %q", n, r.Short, r.Rest)
	}
}

// FuzzReader: no bytes make the reader panic, or claim more than there is.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x02\x00\x05\x01\x02ab"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		r := &Reader{Rest: data}
		r.SkipTags()
		for range r.CompactCount(int(size) + 1) {
			r.CompactString()
			r.SkipTags()
		}
		for range r.Count(int(size) + 1) {
			r.VarintBytes()
			r.String()
		}
		if len(r.Rest) > len(data) || r.Short && len(r.Rest) > 0 {
			t.Errorf("of %d bytes %d are left, short %v", len(data), len(r.Rest), r.Short)
		}
	})
}

func TestReadFrame(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"an answer":          {"\x00\x00\x00\x06\x00\x00\x00\x01ab", ""},
		"of another request": {"\x00\x00\x00\x06\x00\x00\x00\x02ab", "another request"},
		"of TLS":             {"\x15\x03\x01\x00\x02\x02\x0a", "EOF"},
		"too large":          {"\x7f\xff\xff\xff\x00\x00\x00\x01", "TLS is expected"},
		"cut short":          {"\x00\x00\x00\x06\x00\x00\x00\x01a", "EOF"},
	} {
		body, err := readFrame(strings.NewReader(c.data), make([]byte, 0, 1))
		if c.want == "" && (err != nil || string(body) != "ab") {
			t.Errorf("%s: %q, %v", name, body, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRetry: temporary errors are repeated, others are not, and running out of time does not hide
// the error that came before.
func TestRetry(t *testing.T) {
	quick := Options{
		MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
		RetryTimeout: 50 * time.Millisecond,
	}
	refused := Refused("ask", kafka.LeaderNotAvailable)
	late := &Error{Op: "ask", Temporary: true, Err: context.DeadlineExceeded}
	for name, c := range map[string]struct {
		errs []error // of the attempts; the last one is repeated
		want error
		last bool // every attempt is made, and the time runs out
	}{
		"success":         {[]error{nil}, nil, false},
		"passing refusal": {[]error{refused, refused, nil}, nil, false},
		"refusal":         {[]error{refused}, kafka.LeaderNotAvailable, true},
		"then too late":   {[]error{refused, late}, kafka.LeaderNotAvailable, true},
		"for good":        {[]error{Refused("ask", kafka.InvalidTopic)}, kafka.InvalidTopic, false},
	} {
		n := 0
		err := quick.Retry(t.Context(), func(_ context.Context, o Options) error {
			if o.RequestTimeout == 0 {
				t.Errorf("%s: no defaults", name)
			}
			n++
			return c.errs[min(n, len(c.errs))-1]
		})
		if !errors.Is(err, c.want) || c.last != errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v after %d attempts, want %v", name, err, n, c.want)
		}
		if n < len(c.errs) || !c.last && n > len(c.errs) {
			t.Errorf("%s: %d attempts", name, n)
		}
	}
	err := Options{MinBackoff: -1}.Retry(t.Context(), func(context.Context, Options) error {
		t.Error("bad options are used")
		return nil
	})
	if err == nil {
		t.Error("bad options are accepted")
	}
}

func TestNeverSent(t *testing.T) {
	client := &kafka.Client{Addr: kafka.TCP("kafka:9092")}
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, c := range []struct {
		err         error
		never, hint bool
	}{
		{fmt.Errorf("wrapped: %w", dial), true, true},
		{kafka.BrokerNotAvailable, true, true},
		{&routingError{7}, true, false},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, false, false},
		{context.DeadlineExceeded, false, false},
	} {
		hint := ReachHint(client, c.err)
		if NeverSent(c.err) != c.never || strings.Contains(hint, "kafka:9092") != c.hint {
			t.Errorf("%v: never sent %v, hint %q", c.err, NeverSent(c.err), hint)
		}
	}
}
