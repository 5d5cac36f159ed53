package schemas

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"testing"
)

const rounds = 2000

func TestRoundTripRaw(t *testing.T) {
	for _, c := range codecs() {
		t.Run(string(c.encoding), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 1))
			for range rounds {
				want := randomRaw(rng)
				data := must(c.AppendRaw(nil, want))
				got, err := c.DecodeRaw(data)
				if err != nil || !sameRaw(got, want) {
					t.Fatalf("%q: decoded another record (%v)", data, err)
				}
				if again := must(c.AppendRaw(nil, got)); !bytes.Equal(again, data) {
					t.Fatalf("encoded again\n%q, first\n%q", again, data)
				}
			}
		})
	}
}

func TestRoundTripSanitized(t *testing.T) {
	for _, c := range codecs() {
		t.Run(string(c.encoding), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 2))
			for range rounds {
				want := randomSanitized(rng)
				data := must(c.AppendSanitized(nil, want))
				if got := must(c.DecodeSanitized(data)); got != want {
					t.Fatalf("got\n%+v, want\n%+v", got, want)
				}
			}
		})
	}
}

func TestRoundTripDeadLetter(t *testing.T) {
	for _, c := range codecs() {
		t.Run(string(c.encoding), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 3))
			for range rounds {
				want := randomDeadLetter(rng)
				data := must(c.AppendDeadLetter(nil, want))
				if got := must(c.DecodeDeadLetter(data)); got != want {
					t.Fatalf("got\n%+v, want\n%+v", got, want)
				}
			}
		})
	}
}

func TestRoundTripCounts(t *testing.T) {
	for _, c := range codecs() {
		t.Run(string(c.encoding), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, 5))
			for range rounds {
				want := randomCounts(rng)
				data := must(c.AppendCounts(nil, want))
				if got := must(c.DecodeCounts(data)); got != want {
					t.Fatalf("got\n%+v, want\n%+v", got, want)
				}
			}
			for _, bad := range []Counts{
				{Epsilon: math.NaN()}, {Latitude: Some(1)}, {Zone: "\xff"},
			} {
				if out, err := c.AppendCounts([]byte("before"), bad); err == nil ||
					string(out) != "before" {
					t.Errorf("%+v gave %q, %v", bad, out, err)
				}
			}
		})
	}
}

// TestJSONIsOrdinary holds our JSON against encoding/json and the Go types'
// tags: any JSON library reads it, with the field names of the schemas.
func TestJSONIsOrdinary(t *testing.T) {
	c := must(NewCodec(JSON))
	rng := rand.New(rand.NewPCG(2, 4))
	for range rounds {
		s, d, n := randomSanitized(rng), randomDeadLetter(rng), randomCounts(rng)
		var gotS Sanitized
		var gotD DeadLetter
		var gotN Counts
		if err := strictly(must(c.AppendCounts(nil, n)), &gotN); err != nil || gotN != n {
			t.Fatalf("encoding/json read\n%+v (%v), want\n%+v", gotN, err, n)
		}
		if err := strictly(must(c.AppendSanitized(nil, s)), &gotS); err != nil || gotS != s {
			t.Fatalf("encoding/json read\n%+v (%v), want\n%+v", gotS, err, s)
		}
		if err := strictly(must(c.AppendDeadLetter(nil, d)), &gotD); err != nil || gotD != d {
			t.Fatalf("encoding/json read\n%+v (%v), want\n%+v", gotD, err, d)
		}
		if got := must(c.DecodeSanitized(must(json.Marshal(s)))); got != s {
			t.Fatalf("read of encoding/json's output\n%+v, want\n%+v", got, s)
		}
	}
}

func strictly(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// TestAppendKeepsPrefix appends to what is there and leaves it alone, also
// when it refuses.
func TestAppendKeepsPrefix(t *testing.T) {
	for _, c := range codecs() {
		t.Run(string(c.encoding), func(t *testing.T) {
			prefix := []byte("before")
			out := must(c.AppendSanitized(prefix, exampleSanitized()))
			if !bytes.HasPrefix(out, prefix) ||
				must(c.DecodeSanitized(out[len(prefix):])) != exampleSanitized() {
				t.Errorf("appended %q", out)
			}
			bad := exampleSanitized()
			bad.RadiusM = math.NaN()
			if out, err := c.AppendSanitized(prefix, bad); err == nil || string(out) != "before" {
				t.Errorf("a record with NaN gave %q, %v", out, err)
			}
			if out, err := c.AppendDeadLetter(prefix, DeadLetter{Topic: "\xff"}); err == nil ||
				string(out) != "before" {
				t.Errorf("a topic that is not UTF-8 gave %q, %v", out, err)
			}
			if out, err := c.AppendRaw(prefix, Raw{}); err == nil || string(out) != "before" {
				t.Errorf("an empty fix gave %q, %v", out, err)
			}
		})
	}
}

// TestDecodedIsIndependent overwrites the input after decoding, as a fetch
// buffer is, and decodes another record with the same codec.
func TestDecodedIsIndependent(t *testing.T) {
	for _, c := range codecs() {
		t.Run(string(c.encoding), func(t *testing.T) {
			other := exampleRaw()
			other.UserID, other.AccuracyM = "other", nil
			data, otherData := must(c.AppendRaw(nil, exampleRaw())), must(c.AppendRaw(nil, other))
			got := must(c.DecodeRaw(data))
			clear(data)
			if next := must(c.DecodeRaw(otherData)); !sameRaw(next, other) {
				t.Error("a record took over what the one before it left in the codec")
			}
			if !sameRaw(got, exampleRaw()) {
				t.Error("the record changed with the buffer it was decoded from")
			}
		})
	}
}

func sameRaw(a, b Raw) bool {
	if (a.AccuracyM == nil) != (b.AccuracyM == nil) ||
		a.AccuracyM != nil && *a.AccuracyM != *b.AccuracyM {
		return false
	}
	a.AccuracyM, b.AccuracyM = nil, nil
	return a == b
}

// A reader that guesses columns from the first records has to find all of them, each with its type:
// every record has every field, and a double a point, also where it is 0.
func TestJSONShowsItsColumns(t *testing.T) {
	number := regexp.MustCompile(`^-?\d+\.\d+(e[+-]\d+)?$`)
	rng := rand.New(rand.NewPCG(2, 6))
	for _, e := range []Encoding{JSON, JSONText} {
		c := must(NewCodec(e))
		for range rounds {
			for _, line := range []struct {
				data []byte
				of   *layout
			}{
				{must(c.AppendSanitized(nil, randomSanitized(rng))), c.sanitized},
				{must(c.AppendCounts(nil, randomCounts(rng))), c.counts},
				{must(c.AppendDeadLetter(nil, randomDeadLetter(rng))), c.deadLetter},
				{must(c.AppendRaw(nil, randomRaw(rng))), c.raw},
			} {
				var members map[string]json.RawMessage
				if err := json.Unmarshal(line.data, &members); err != nil {
					t.Fatal(err)
				}
				for _, column := range line.of.columns {
					text := string(members[column.name])
					isNull := text == "null" && (column.kind == kindNullOrDouble ||
						column.kind == kindTimestamp && e == JSONText)
					double := column.kind == kindDouble || column.kind == kindNullOrDouble
					if text == "" || double && !isNull && !number.MatchString(text) {
						t.Fatalf("%s: %s is %q in %s", e, column.name, text, line.data)
					}
				}
			}
		}
	}
}
