package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/avro"
)

// TestFullTransitive holds the schema of sanitized records to every published one, in
// testdata/published: each reads what the other wrote. It fails for a change that needs a
// new topic. A version is published with the release of the program that writes it; then its copy
// goes there, and stays.
func TestFullTransitive(t *testing.T) {
	paths, err := filepath.Glob("testdata/published/sanitized_*.avsc")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no published schema was found: %v", err)
	}
	for _, path := range paths {
		published := string(must(os.ReadFile(path)))
		if err := fullyCompatible(published, sanitizedSchema); err != nil {
			t.Errorf("%s and sanitized.avsc: %v. Add fields that are nullable, with null first "+
				"and as the default; change and remove none", path, err)
		}
	}
}

// TestFullTransitiveFinds plants changes in the schema. The allowed ones pass, the others do not.
func TestFullTransitiveFinds(t *testing.T) {
	const last = `      "name": "release_longitude",
      "type": ["null", "double"],`
	added := func(field string) func(string) string {
		return func(s string) string {
			i := strings.LastIndex(s, "}\n  ]")
			return s[:i+1] + "," + field + s[i+1:]
		}
	}
	replaced := func(before, after string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, before) {
				t.Fatalf("the schema has no %s", before)
			}
			return strings.Replace(s, before, after, 1)
		}
	}
	for _, test := range []struct {
		name   string
		change func(string) string
		want   string // in the error, empty for none
	}{
		{"nothing", func(s string) string { return s }, ""},
		{"another doc", replaced("One differentially", "A differentially"), ""},
		{"a nullable field", added(`{"name":"speed","type":["null","double"],"default":null}`), ""},
		{"a field of a number", added(`{"name":"speed","type":"double","default":0}`), "speed"},
		{"a field without a default", added(`{"name":"speed","type":"double"}`), "speed"},
		{
			"a nullable field without a default",
			added(`{"name":"speed","type":["null","double"]}`), "speed",
		},
		{
			"a default of the second branch",
			added(`{"name":"speed","type":["null","double"],"default":0}`), "speed",
		},
		{
			"a default of another type",
			added(`{"name":"speed","type":"long","default":""}`), "speed",
		},
		{"a renamed field", replaced(`"name": "radius_m"`, `"name": "radius_km"`), "radius"},
		{"a renamed nullable field", replaced(`"name": "azimuth_deg"`, `"name": "azimuth"`), ""},
		{"a wider type", replaced(`"name": "release",
      "type": "long"`, `"name": "release",
      "type": "double"`), "release"},
		{"another type", replaced(`"name": "step",
      "type": "long"`, `"name": "step",
      "type": "string"`), "step"},
		{"no null any more", replaced(last, strings.Replace(last, `["null", "double"]`, `"double"`,
			1)), "release_longitude"},
		{"a branch more", replaced(last, strings.Replace(last, `"double"]`, `"double", "string"]`,
			1)), "release_longitude"},
		{"another record", replaced(`"name": "Sanitized"`, `"name": "Released"`), "name"},
	} {
		published := string(must(os.ReadFile("testdata/published/sanitized_1.avsc")))
		err := fullyCompatible(published, test.change(published))
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want an error about %s", test.name, err, test.want)
		}
	}
}

// fullyCompatible returns an error unless data of each of two schemas can be read with the other.
func fullyCompatible(a, b string) error {
	one, err := avro.Parse(a)
	other, failed := avro.Parse(b)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	return errors.Join(avro.CheckCompatibility(one, other), avro.CheckCompatibility(other, one),
		addsNullable(a, b))
}

// addsNullable returns an error unless the fields that a schema has more are null by default, which
// registries want of the first type of a union.
func addsNullable(before, after string) error {
	var old, now struct {
		Fields []struct {
			Name    string
			Type    any
			Default json.RawMessage
		}
	}
	err := errors.Join(json.Unmarshal([]byte(before), &old), json.Unmarshal([]byte(after), &now))
	for _, f := range now.Fields[min(len(old.Fields), len(now.Fields)):] {
		union, ok := f.Type.([]any)
		if !ok || union[0] != "null" || string(f.Default) != "null" {
			err = errors.Join(err, fmt.Errorf("field %s is not null by default", f.Name))
		}
	}
	return err
}
