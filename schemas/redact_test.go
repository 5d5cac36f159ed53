package schemas

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"strconv"
	"strings"
	"testing"
)

// secrets are texts that would give away part of secretRaw.
var secrets = []string{
	"mallory", "1712345", "51.4778", "51.47", "0.0014", "33.25",
	"6d616c6c6f7279",
}

func secretRaw() Raw {
	accuracy := 33.25
	return Raw{
		UserID: "mallory", Timestamp: 1712345678901, Latitude: 51.4778, Longitude: -0.0014,
		AccuracyM: &accuracy,
	}
}

func mustBeRedacted(t *testing.T, how, got string) {
	t.Helper()
	if !strings.Contains(got, redacted) {
		t.Errorf("%s: %q does not say %s", how, got, redacted)
	}
	for _, s := range secrets {
		if strings.Contains(got, s) {
			t.Errorf("%s: %q gives away %s", how, got, s)
		}
	}
}

// carriers are the shapes that a raw record is printed in.
func carriers() map[string]any {
	r := secretRaw()
	type nested struct {
		Offset int64
		Fix    Raw
		Next   *Raw
	}
	type embedded struct{ Raw }
	return map[string]any{
		"value":             r,
		"pointer":           &r,
		"struct":            nested{Fix: r, Next: &r},
		"pointer to struct": &nested{Fix: r, Next: &r},
		"embedded":          embedded{r},
		"slice":             []Raw{r},
		"slice of pointers": []*Raw{&r},
		"array":             [1]Raw{r},
		"map":               map[string]Raw{"k": r},
		"interface":         []any{r, &r},
	}
}

func TestFormatRedacts(t *testing.T) {
	var verbs []string
	for _, verb := range "vTtbcdoOqxXUeEfFgGs" { // p is vet's: see Format
		for _, flags := range []string{"", "+", "#", "-", " ", "0", "+#", "12.3", "*[2]"} {
			verbs = append(verbs, "%"+flags+string(verb))
		}
	}
	for name, v := range carriers() {
		for _, verb := range verbs {
			got := fmt.Sprintf(verb, v)
			if strings.ContainsAny(verb, "T*") ||
				name != "value" && name != "pointer" && !strings.HasSuffix(verb, "v") {
				// A type, or a verb refused before the record is reached:
				// all that is asked is that no part of the record shows.
				got += redacted
			}
			mustBeRedacted(t, name+" "+verb, got)
		}
		mustBeRedacted(t, name+" Sprint", fmt.Sprint(v))
	}
	r := secretRaw()
	mustBeRedacted(t, "String", r.String())
	mustBeRedacted(t, "GoString", r.GoString())
	mustBeRedacted(t, "Errorf", fmt.Errorf("decode %v: %w", r, errors.New("no")).Error())
}

func TestMarshalRedacts(t *testing.T) {
	for name, v := range carriers() {
		mustBeRedacted(t, name+" as JSON", string(must(json.Marshal(v))))
	}
	r := secretRaw()
	type report struct{ Fix Raw }
	mustBeRedacted(t, "XML", string(must(xml.Marshal(report{r}))))
	mustBeRedacted(t, "text", string(must(r.MarshalText())))
}

func TestSlogRedacts(t *testing.T) {
	for name, v := range carriers() {
		var out bytes.Buffer
		for _, h := range []slog.Handler{
			slog.NewTextHandler(&out, nil),
			slog.NewJSONHandler(&out, nil),
		} {
			out.Reset()
			slog.New(h).With("with", v).Info("fix", "fix", v, slog.Group("g", "fix", v))
			mustBeRedacted(t, fmt.Sprintf("%s in %T", name, h), out.String())
		}
	}
	// A handler that knows neither fmt nor JSON gets the resolved value.
	if got := slog.AnyValue(secretRaw()).Resolve(); got.Kind() != slog.KindString ||
		got.String() != redacted {
		t.Errorf("resolved to %v", got)
	}
}

// TestRedactionIsNeeded plants the fault: the same record without the methods
// gives itself away under the same checks.
func TestRedactionIsNeeded(t *testing.T) {
	type bare Raw
	if got := fmt.Sprint(bare(secretRaw())); !strings.Contains(got, secrets[0]) ||
		!strings.Contains(got, secrets[2]) {
		t.Errorf("the bare record prints as %q: the checks above find nothing", got)
	}
}

// declaredReasons reads the constants of type Reason out of the source.
func declaredReasons(t *testing.T) (reasons []Reason) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Reason" {
			literal := spec.Values[0].(*ast.BasicLit)
			reasons = append(reasons, Reason(must(strconv.Unquote(literal.Value))))
		}
		return true
	})
	if len(reasons) < 10 {
		t.Fatalf("found only %d constants in reason.go", len(reasons))
	}
	return reasons
}
