package schemas

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// consumersPage is the page for readers of sanitized records.
func consumersPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("CONSUMERS.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestConsumersPage holds the page's bytes, fields and files to what the codec writes.
func TestConsumersPage(t *testing.T) {
	page := consumersPage(t)
	codec, err := NewCodec(Avro)
	if err != nil {
		t.Fatal(err)
	}
	value, err := codec.AppendSanitized(nil,
		Sanitized{
			UserID: "u", ModelID: strings.Repeat("0", 16), Mechanism: "lattice", Epsilon: 1,
			Delta: .01, Release: 1,
		})
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	hexBytes := regexp.MustCompile(`(?m)^((?:[0-9a-f]{2} )+) `)
	for _, line := range hexBytes.FindAllStringSubmatch(page, -1) {
		shown.WriteString(strings.ReplaceAll(line[1], " ", ""))
	}
	if want := hex.EncodeToString(value[:headerBytes]); shown.String() != want {
		t.Errorf("the page shows the header %q, the codec writes %q", shown.String(), want)
	}
	var schema struct{ Fields []struct{ Name string } }
	known := map[string]bool{}
	for _, text := range []string{sanitizedSchema, countsSchema} {
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		for _, f := range schema.Fields {
			known[f.Name] = true
		}
	}
	readField := regexp.MustCompile(`record(?:\[|\.get\()"([a-z_0-9]+)"`)
	fields := readField.FindAllStringSubmatch(page, -1)
	if len(fields) < 10 {
		t.Errorf("only %d fields were found", len(fields))
	}
	for _, f := range fields {
		if !known[f[1]] {
			t.Errorf("the page reads %q, which the schema has not", f[1])
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.FromSlash(link[1])); err != nil {
			t.Errorf("the page links to %s: %v", link[1], err)
		}
	}
}

// TestConsumersTable: the table in SQL has the columns of a CSV file, in their order.
func TestConsumersTable(t *testing.T) {
	page := consumersPage(t)
	var schema struct{ Fields []struct{ Name string } }
	if err := json.Unmarshal([]byte(sanitizedSchema), &schema); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range schema.Fields {
		want = append(want, f.Name)
	}
	_, table, _ := strings.Cut(page, "CREATE TABLE fleet (\n")
	table, _, _ = strings.Cut(table, "\n);")
	var got []string
	for column := range strings.SplitSeq(table, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(column), " ")
		got = append(got, strings.Trim(name, `"`))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table has the columns %q, a record %q", got, want)
	}
}

// TestConsumersPython runs the page's own decode on a record, where Python has fastavro.
func TestConsumersPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || exec.CommandContext(t.Context(), python, "-c",
		"import fastavro").Run() != nil {
		t.Skip("needs python3 with fastavro")
	}
	_, program, ok := strings.Cut(consumersPage(t), "```python\n")
	program, _, found := strings.Cut(program, "\nconsumer = ")
	if !ok || !found {
		t.Fatal("the page has no program in Python")
	}
	program = strings.ReplaceAll(program, "from confluent_kafka import Consumer\n", "") + `
import json, sys
record = decode(bytes.fromhex(sys.argv[1]))
record["timestamp"] = int(record["timestamp"].timestamp() * 1000)
print(json.dumps(record))
`
	codec, err := NewCodec(Avro)
	if err != nil {
		t.Fatal(err)
	}
	want := Sanitized{
		UserID: "bus-7", Timestamp: 1_769_442_912_000, Latitude: 53.5, Longitude: -2.8,
		RadiusM: 321.5, SigmaMajorM: Some(140), SigmaMinorM: Some(32), AzimuthDeg: Some(90.5),
		ReleaseLatitude: Some(53.4), ReleaseLongitude: Some(-2.9),
		Epsilon: 2, Delta: .01, Mechanism: "lattice", ModelID: "9748cd0d7f99080a", Step: 58981430,
		Release: 3, Kind: KindReleased,
	}
	value, err := codec.AppendSanitized(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", program,
		hex.EncodeToString(value)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	decoder, err := NewCodec(JSON)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decoder.DecodeSanitized(out)
	if err != nil || got != want {
		t.Errorf("Python reads %s (%v), want %+v", out, err, want)
	}
	value[3]++
	if out, err := exec.CommandContext(t.Context(), python, "-c", program,
		hex.EncodeToString(value)).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "another schema") {
		t.Errorf("a record of another schema passes: %s", out)
	}
}
