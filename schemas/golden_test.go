package schemas

import (
	"bytes"
	"flag"
	"fmt"
	"os"
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
		{deadLetterSchema, func(c *Codec) ([]byte, error) {
			return c.AppendDeadLetter(nil, exampleDeadLetter())
		}},
	} {
		codec := must(plainCodec(must(parse(s.schema))))
		fmt.Fprintf(&got, "%s\nfingerprint %016x\n", codec.CanonicalSchema(), codec.Rabin)
		fmt.Fprintf(&got, "avro %x\njson %s\n\n", must(s.append(avro)), must(s.append(text)))
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
