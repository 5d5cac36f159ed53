package fleet

import (
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

// told are what is fed and published in one partition.
type told struct{ raw, sanitized, dead []Entry }

func fix(t *testing.T, codec *schemas.Codec, offset int64) Entry {
	t.Helper()
	value, err := codec.AppendRaw(nil, schemas.Raw{UserID: "u", Timestamp: offset, Latitude: 53})
	if err != nil {
		t.Fatal(err)
	}
	return Entry{Offset: offset, Key: []byte("u"), Value: value}
}

func release(t *testing.T, codec *schemas.Codec, user string, at int64) Entry {
	t.Helper()
	value, err := codec.AppendSanitized(nil, schemas.Sanitized{
		UserID: user, Timestamp: at, Latitude: 53, Mechanism: "codebook",
	})
	if err != nil {
		t.Fatal(err)
	}
	return Entry{Key: []byte(user), Value: value}
}

func refusal(t *testing.T, codec *schemas.Codec, topic string, offset int64) Entry {
	t.Helper()
	value, err := codec.AppendDeadLetter(nil, schemas.DeadLetter{
		Topic: topic, Offset: offset, Reason: schemas.ReasonLate,
	})
	if err != nil {
		t.Fatal(err)
	}
	return Entry{Value: value}
}

// TestLedger plants one fault after the other in a run of five fixes, of which the third has become
// a dead letter, and wants it named.
func TestLedger(t *testing.T) {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		plant  func(*told)
		silent int
		want   []string // all that is broken
	}{
		{name: "a good run", plant: func(*told) {}},
		{
			name: "one in silence", silent: 1,
			plant: func(w *told) { w.sanitized = w.sanitized[1:] },
		},
		{
			name: "lost", plant: func(w *told) { w.sanitized = w.sanitized[1:] },
			want: []string{"1 raw records lost", "5 raw records, but 3 sanitized and 1 dead"},
		},
		{
			name: "lost dead letter", plant: func(w *told) { w.dead = nil },
			want: []string{"1 raw records lost", "5 raw records, but 4 sanitized and 0"},
		},
		{
			name:  "duplicate",
			plant: func(w *told) { w.sanitized = append(w.sanitized, w.sanitized[3]) },
			want:  []string{"1 raw records answered more than once", "but 5 sanitized"},
		},
		{
			name: "one said to be in silence is answered", silent: 1, plant: func(*told) {},
			want: []string{"5 raw records, but 4 sanitized and 1"},
		},
		{
			name:  "duplicate dead letter",
			plant: func(w *told) { w.dead = append(w.dead, w.dead[0]) },
			want:  []string{"1 raw records answered more than once", "and 2 dead letters"},
		},
		{
			name:  "both answers",
			plant: func(w *told) { w.dead = append(w.dead, refusal(t, codec, "raw", 3)) },
			want:  []string{"1 raw records answered more than once", "and 2 dead letters"},
		},
		{
			name: "order",
			plant: func(w *told) {
				w.sanitized[0], w.sanitized[1] = w.sanitized[1], w.sanitized[0]
			},
			want: []string{"1 answers out of order"},
		},
		{
			name: "an answer to no fix, in place of one",
			plant: func(w *told) {
				w.sanitized[3] = release(t, codec, "u", 9)
			},
			want: []string{"1 raw records lost", "1 published records that belong to no raw"},
		},
		{
			name:  "garbage",
			plant: func(w *told) { w.sanitized[3] = Entry{} },
			want:  []string{"1 raw records lost", "1 published records that belong to no raw"},
		},
		{
			name:  "a dead letter of another topic",
			plant: func(w *told) { w.dead[0] = refusal(t, codec, "other", 2) },
			want:  []string{"1 raw records lost", "1 published records that belong to no raw"},
		},
		{
			name:  "fed twice, answered once",
			plant: func(w *told) { w.raw[4].Value = w.raw[3].Value },
			want:  []string{"1 fixes were fed twice", "1 raw records lost", "1 published"},
		},
	} {
		w := &told{dead: []Entry{refusal(t, codec, "raw", 2)}}
		for n := range int64(5) {
			w.raw = append(w.raw, fix(t, codec, n))
			if n != 2 {
				w.sanitized = append(w.sanitized, release(t, codec, "u", n))
			}
		}
		test.plant(w)
		l, err := NewLedger("raw", 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range w.raw {
			l.Fed(r)
		}
		for _, r := range w.sanitized {
			l.Released(r)
		}
		for _, r := range w.dead {
			l.Refused(r)
		}
		l.Count()
		if got := l.Violations(test.silent); !slices.EqualFunc(got, test.want, strings.Contains) {
			t.Errorf("%s: found %q, want %q", test.name, got, test.want)
		}
	}
}
