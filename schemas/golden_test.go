package schemas

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"
)

var update = flag.Bool("update", false, "rewrite testdata/records.golden")

// TestGolden pins what stored topics depend on: each schema's canonical form
// and fingerprint, and the bytes of one record in each encoding. If it fails,
// records written before can no longer be read: add a schema, change none. The
// fingerprints were compared with those of another implementation (fastavro).
func TestGolden(t *testing.T) {
	var got bytes.Buffer
	avro, text := must(NewCodec(Avro)), must(NewCodec(JSON))
	for _, s := range []struct {
		schema string
		append func(*Codec) ([]byte, error)
	}{
		{rawSchema, func(c *Codec) ([]byte, error) { return c.AppendRaw(nil, exampleRaw()) }},
		{sanitizedSchema, func(c *Codec) ([]byte, error) {
			return c.AppendSanitized(nil, exampleSanitized())
		}},
		{sanitizedSchema1, nil},
		{deadLetterSchema, func(c *Codec) ([]byte, error) {
			return c.AppendDeadLetter(nil, exampleDeadLetter())
		}},
	} {
		codec := must(plainCodec(must(parse(s.schema))))
		fmt.Fprintf(&got, "%s\nfingerprint %016x\n", codec.CanonicalSchema(), codec.Rabin)
		if s.append != nil { // else it is only read: TestFirstVersion has its bytes
			fmt.Fprintf(&got, "avro %x\njson %s\n", must(s.append(avro)), must(s.append(text)))
		}
		got.WriteByte('\n')
	}
	const path = "testdata/records.golden"
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := must(os.ReadFile(path)); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("schemas or encodings changed:\n%s\nwant:\n%s", got.Bytes(), want)
	}
}

// TestPlainCodec shows the fault that plainCodec avoids: with a logical type in
// the schema, goavro's canonical form is not the specification's, nor then its
// fingerprint.
func TestPlainCodec(t *testing.T) {
	const logical = `{"type": "record", "name": "R", "fields": [
		{"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}`
	const want = `{"name":"R","type":"record","fields":[{"name":"t","type":"long"}]}`
	if got := must(goavro.NewCodec(logical)).CanonicalSchema(); got == want {
		t.Error("goavro now strips logical types itself: plainCodec is no longer needed")
	}
	if got := must(plainCodec(must(parse(logical)))).CanonicalSchema(); got != want {
		t.Errorf("canonical form\n%s\nwant\n%s", got, want)
	}
}

// TestFirstVersion: sanitized records from before there were kinds are read, and
// get theirs; the bytes are those that the golden file had for them.
func TestFirstVersion(t *testing.T) {
	const (
		avro = "c301ff977b3601e00bd70c6275732d3331f6a1abfef962e17a14ae47c14a409a999999999905c0" +
			"780b24287eb44a4045d8f0f44ad907c000000000008a9340000000000000f03f7b14ae47e17a843f" +
			"0670696d2030313233343536373839616263646566aad4821b22"
		text = `{"user_id":"bus-31","timestamp":1700000000123,"latitude":53.51,"longitude":-2.7,` +
			`"estimate_latitude":53.4101,"estimate_longitude":-2.9811,"radius_m":1250.5,` +
			`"epsilon":1,"delta":0.01,"mechanism":"pim","model_id":"0123456789abcdef",` +
			`"step":28333333,"release":17}`
	)
	want := exampleSanitized()
	want.Factor200M, want.Factor1KM, want.FactorSet = 0, 0, 0
	written := map[Encoding][]byte{Avro: must(hex.DecodeString(avro)), JSON: []byte(text)}
	for encoding, data := range written {
		c := must(NewCodec(encoding))
		if got, err := c.DecodeSanitized(data); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", encoding, got, err)
		}
		if got := must(c.DecodeSanitized(must(c.AppendSanitized(nil, want)))); got != want {
			t.Errorf("%s: written again it is %+v", encoding, got)
		}
	}
	repeated := strings.Replace(text, `"epsilon":1`, `"epsilon":0`, 1)
	got := must(must(NewCodec(JSON)).DecodeSanitized([]byte(repeated)))
	if got.Kind != KindRepeated {
		t.Errorf("a record that cost nothing is %q", got.Kind)
	}
	missing := strings.Replace(text, `"epsilon":1,`, "", 1)
	_, err := must(NewCodec(JSON)).DecodeSanitized([]byte(missing))
	if reasonOf(t, err) != ReasonMissingField.At("epsilon") {
		t.Errorf("without an epsilon: %v", err)
	}
}

// TestFactorsAreAtLeastOne: what is no factor is refused on both ways.
func TestFactorsAreAtLeastOne(t *testing.T) {
	for _, c := range codecs() {
		bad := exampleSanitized()
		bad.Factor1KM = .99
		if _, err := c.AppendSanitized(nil, bad); err == nil {
			t.Errorf("%s: a factor below 1 was written", c.encoding)
		}
		data := must(c.AppendSanitized(nil, exampleSanitized()))
		for _, wrong := range []float64{0, .5, -2} {
			broken := bytes.Replace(data,
				must(c.sanitized.primitives.double.BinaryFromNative(nil, 1.5)),
				must(c.sanitized.primitives.double.BinaryFromNative(nil, wrong)), 1)
			broken = bytes.Replace(broken, []byte(`"factor_1km":1.5`),
				fmt.Appendf(nil, `"factor_1km":%v`, wrong), 1)
			if _, err := c.DecodeSanitized(broken); reasonOf(t, err) != ReasonMalformed {
				t.Errorf("%s: a factor of %v was read: %v", c.encoding, wrong, err)
			}
		}
	}
}
