package schemas

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	change := func(f func(*Raw)) Raw { r := exampleRaw(); f(&r); return r }
	accuracy := func(x float64) Raw { return change(func(r *Raw) { r.AccuracyM = &x }) }
	user := func(id string) Raw { return change(func(r *Raw) { r.UserID = id }) }
	at := func(ms int64) Raw { return change(func(r *Raw) { r.Timestamp = ms }) }
	place := func(lat, lon float64) Raw {
		return change(func(r *Raw) { r.Latitude, r.Longitude = lat, lon })
	}
	for _, test := range []struct {
		name string
		r    Raw
		want Reason
	}{
		{"sound", exampleRaw(), ""},
		{"no accuracy", change(func(r *Raw) { r.AccuracyM = nil }), ""},
		{"zero", Raw{}, ReasonUserMissing},
		{"no user", user(""), ReasonUserMissing},
		{"longest user", user(strings.Repeat("é", 127) + "x"), ""},
		{"user too long", user(strings.Repeat("é", 128)), ReasonUserTooLong},
		{"NUL first", user("\x00"), ReasonUserReserved},
		{"NUL inside", user("a\x00"), ""},
		{"user not UTF-8", user("a\xc3"), ReasonInvalidUTF8},
		{"epoch", at(0), ""},
		{"before the epoch", at(-1), ReasonBefore1970},
		{"last instant", at(lastTimestamp), ""},
		{"after the last instant", at(lastTimestamp + 1), ReasonAfter9999},
		{"north-east corner", place(90, 180), ""},
		{"south-west corner", place(-90, -180), ""},
		{"beyond the pole", place(math.Nextafter(90, 91), 0), ReasonLatitudeOutOfRange},
		{"beyond the other pole", place(math.Nextafter(-90, -91), 0), ReasonLatitudeOutOfRange},
		{"beyond the date line", place(0, math.Nextafter(180, 181)), ReasonLongitudeOutOfRange},
		{
			"beyond the date line west", place(0, math.Nextafter(-180, -181)),
			ReasonLongitudeOutOfRange,
		},
		{"latitude NaN", place(math.NaN(), 0), ReasonNotFinite},
		{"longitude infinite", place(0, math.Inf(1)), ReasonNotFinite},
		{"accuracy zero", accuracy(0), ""},
		{"accuracy negative", accuracy(-1), ReasonAccuracyNegative},
		{"accuracy NaN", accuracy(math.NaN()), ReasonNotFinite},
		{"accuracy infinite", accuracy(math.Inf(1)), ReasonNotFinite},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := reasonOf(t, test.r.Validate()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestReasons holds the list to its form: a snake_case word, perhaps with a field,
// each once, and complete.
func TestReasons(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*(: [a-z0-9]+(_[a-z0-9]+)*)?$`)
	all := Reasons()
	for i, r := range all {
		if !form.MatchString(string(r)) || slices.Contains(all[:i], r) {
			t.Errorf("reason %q is of another form, or not the only one of its name", r)
		}
	}
	for _, r := range declaredReasons(t) {
		if !slices.ContainsFunc(all, func(listed Reason) bool { return listed.Kind() == r }) {
			t.Errorf("reason %q is declared but not listed", r)
		}
	}
	for _, c := range must(newLayout(rawSchema)).columns {
		if r := ReasonWrongType.At(c.field); !slices.Contains(all, r) {
			t.Errorf("reason %q is not listed", r)
		}
		r := ReasonMissingField.At(c.field)
		if slices.Contains(all, r) != (c.kind != kindNullOrDouble) {
			t.Errorf("reason %q is listed, or is not, and the field is otherwise", r)
		}
	}
	if got := ReasonWrongType.At("latitude").Kind(); got != ReasonWrongType ||
		ReasonLate.Kind() != ReasonLate {
		t.Errorf("the kind of a reason is %q", got)
	}
}

// TestReasonsAreDocumented: REASONS.md has a row for each kind of reason, and no other. The reasons
// of files, in a section of their own, are those of cmd/internal/traces.
func TestReasonsAreDocumented(t *testing.T) {
	text, _, _ := strings.Cut(string(must(os.ReadFile("REASONS.md"))), "\n## Lines of files\n")
	var rows []Reason
	tableRows := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|")
	for _, row := range tableRows.FindAllStringSubmatch(text, -1) {
		rows = append(rows, Reason(row[1]))
	}
	for i, r := range rows {
		if !slices.Contains(Reasons(), r) && r != ReasonMissingField ||
			slices.Contains(rows[:i], r) {
			t.Errorf("REASONS.md has a row for %q, which is no reason or has two", r)
		}
	}
	for _, r := range Reasons() {
		if !slices.Contains(rows, r.Kind()) {
			t.Errorf("REASONS.md has no row for %q", r)
		}
	}
}

// TestRejectionSaysNothingElse: the error is its reason.
func TestRejectionSaysNothingElse(t *testing.T) {
	r := exampleRaw()
	r.Latitude = 91.25
	err := r.Validate()
	if got, want := err.Error(), "record refused: latitude_out_of_range"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if !errors.As(err, new(*Rejection)) {
		t.Errorf("error %T is no *Rejection", err)
	}
}

// TestSchemasAreDocumented: every record and field of every schema says what
// it is.
func TestSchemasAreDocumented(t *testing.T) {
	for _, schema := range []string{
		RawSchema(), SanitizedSchema(), DeadLetterSchema(), CountsSchema(),
	} {
		var d struct {
			Name, Namespace, Doc string
			Fields               []struct{ Name, Doc string }
		}
		if err := json.Unmarshal([]byte(schema), &d); err != nil {
			t.Fatal(err)
		}
		if d.Namespace == "" || d.Doc == "" {
			t.Errorf("schema %s lacks a namespace or a doc", d.Name)
		}
		for _, f := range d.Fields {
			if f.Doc == "" {
				t.Errorf("schema %s: field %s lacks a doc", d.Name, f.Name)
			}
		}
	}
}

// TestRepeatsAreExplained: a repeated record has an old release under the settings of the moment,
// which a reader learns nowhere else.
func TestRepeatsAreExplained(t *testing.T) {
	var schema struct{ Fields []struct{ Name, Doc string } }
	if err := json.Unmarshal([]byte(sanitizedSchema), &schema); err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{
		"release_latitude": false, "delta": false, "mechanism": false,
		"model_id": false, "step": false, "release": false,
	}
	for _, f := range schema.Fields {
		if _, asked := explained[f.Name]; asked {
			explained[f.Name] = strings.Contains(f.Doc, "repeated record")
		}
	}
	for name, ok := range explained {
		if !ok {
			t.Errorf("the description of %s does not say what it is in a repeated record", name)
		}
	}
}

// TestColumnsMatchTypes: the codec binds fields by position, so each schema
// must have the Go type's fields in the Go type's order.
func TestColumnsMatchTypes(t *testing.T) {
	c := must(NewCodec(Avro))
	for _, test := range []struct {
		columns []column
		record  any
	}{{c.sanitized.columns, Sanitized{}}, {c.deadLetter.columns, DeadLetter{}}} {
		record := reflect.TypeOf(test.record)
		if len(test.columns) != record.NumField() {
			t.Errorf("%s: %d columns, %d fields", record, len(test.columns), record.NumField())
			continue
		}
		for i, col := range test.columns {
			if tag, _, _ := strings.Cut(record.Field(i).Tag.Get("json"), ","); tag != col.name {
				t.Errorf("%s: column %s at field %s", record, col.name, tag)
			}
		}
	}
}
