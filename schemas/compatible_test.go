package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
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
	const last = `      "name": "factor_set",
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
		{"a field with a default", added(`{"name":"speed","type":"double","default":0}`), ""},
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
			1)), "factor_set"},
		{"a branch more", replaced(last, strings.Replace(last, `"double"]`, `"double", "string"]`,
			1)), "factor_set"},
		{"another record", replaced(`"name": "Sanitized"`, `"name": "Released"`), "name"},
		{"another namespace", replaced(`"io.github.geodither"`, `"org.example"`), "name"},
		{"another unit of time", replaced("timestamp-millis", "timestamp-micros"), "timestamp"},
	} {
		published := string(must(os.ReadFile("testdata/published/sanitized_3.avsc")))
		err := fullyCompatible(published, test.change(published))
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want an error about %s", test.name, err, test.want)
		}
	}
}

// avroRecord is a record schema of fields that are primitives or unions of primitives.
type avroRecord struct {
	Type, Name, Namespace string
	Fields                []avroField
}

type avroField struct {
	Name    string
	Type    any
	Default json.RawMessage
}

// fullyCompatible returns an error unless data of each of two schemas can be read with the other.
func fullyCompatible(a, b string) error {
	var one, other avroRecord
	if err := errors.Join(json.Unmarshal([]byte(a), &one),
		json.Unmarshal([]byte(b), &other)); err != nil {
		return err
	}
	return errors.Join(reads(one, other), reads(other, one))
}

// reads returns an error if a reader cannot resolve what a writer wrote, by the rules of
// https://avro.apache.org/docs/1.12.0/specification/#schema-resolution for flat records without
// aliases. Beyond them it refuses another logical type, which would change what a number means.
func reads(reader, writer avroRecord) error {
	if reader.Type != "record" || writer.Type != "record" || reader.Name != writer.Name ||
		reader.Namespace != writer.Namespace {
		return errors.New("the records differ in type or name")
	}
	written := map[string]avroField{}
	for _, f := range writer.Fields {
		written[f.Name] = f
	}
	var errs []error
	for _, f := range reader.Fields {
		from, there := written[f.Name]
		switch {
		case there && !resolves(branches(f.Type), branches(from.Type)):
			errs = append(errs, fmt.Errorf("field %s: %v does not read %v", f.Name, f.Type,
				from.Type))
		case !there && !f.defaults():
			errs = append(errs, fmt.Errorf("field %s: the writer lacks it, and it has no default "+
				"of its type, or of the first one of its union", f.Name))
		}
	}
	return errors.Join(errs...)
}

// branches returns the types of a union, or the one type.
func branches(t any) []any {
	if union, ok := t.([]any); ok {
		return union
	}
	return []any{t}
}

// resolves reports whether some type of the reader reads each of the writer's.
func resolves(reader, writer []any) bool {
	for _, w := range writer {
		found := false
		for _, r := range reader {
			found = found || reflect.DeepEqual(r, w) || promotes(w, r)
		}
		if !found {
			return false
		}
	}
	return true
}

// promotes reports whether a reader's primitive type reads the writer's, which is another one.
func promotes(writer, reader any) bool {
	to := map[any]string{
		"int": "long float double", "long": "float double", "float": "double",
		"string": "bytes", "bytes": "string",
	}
	w, isName := writer.(string)
	r, named := reader.(string)
	return isName && named && strings.Contains(" "+to[w]+" ", " "+r+" ")
}

// defaults reports whether a field has a default, which must be of its type and, in a union, of the
// first type.
func (f avroField) defaults() bool {
	if f.Default == nil {
		return false
	}
	var value any
	if json.Unmarshal(f.Default, &value) != nil {
		return false
	}
	t := branches(f.Type)[0]
	if logical, ok := t.(map[string]any); ok {
		t = logical["type"]
	}
	switch value.(type) {
	case nil:
		return t == "null"
	case float64:
		return t == "double" || t == "float" || t == "long" || t == "int"
	case string:
		return t == "string" || t == "bytes"
	case bool:
		return t == "boolean"
	}
	return false
}
