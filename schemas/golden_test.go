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
		{countsSchema, func(c *Codec) ([]byte, error) {
			return c.AppendCounts(nil, exampleCounts())
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
