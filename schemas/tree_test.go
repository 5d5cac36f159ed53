package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

func TestDecodeTree(t *testing.T) {
	got, err := schemas.DecodeTree([]byte(
		` { "a" : [ 1.10 , -2e3, "x\u00e9\ud83d\ude00" , true , false , null , { } , [ ] ] ,
			"\u0062" : "c" } `))
	want := map[string]any{
		"a": []any{
			json.Number("1.10"), json.Number("-2e3"), "xé😀", true, false, nil,
			map[string]any{},
			[]any{},
		},
		"b": "c",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v", got, err)
	}
	deep := strings.Repeat(`{"a":`, schemas.MaxTreeDepth)
	for text, want := range map[string]schemas.Reason{
		"":                     schemas.ReasonEmpty,
		`{"a":1} x`:            schemas.ReasonMalformed,
		`{"a":01}`:             schemas.ReasonMalformed,
		"\"\xff\"":             schemas.ReasonInvalidUTF8,
		`{"a\ud83d":1}`:        schemas.ReasonInvalidUTF8,
		`[{"a":1,"\u0061":2}]`: schemas.ReasonDuplicateField,
		deep + "[]" + strings.Repeat("}", schemas.MaxTreeDepth): schemas.ReasonMalformed,
		`"` + strings.Repeat("x", schemas.MaxTreeBytes) + `"`:   schemas.ReasonTooLarge,
	} {
		_, err := schemas.DecodeTree([]byte(text))
		var rejection *schemas.Rejection
		if !errors.As(err, &rejection) || rejection.Reason != want {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
	if _, err := schemas.DecodeTree([]byte(deep + "1" +
		strings.Repeat("}", schemas.MaxTreeDepth))); err != nil {
		t.Errorf("as deep as it may be: %v", err)
	}
}

// FuzzDecodeTree: what is accepted is what encoding/json reads, all of its numbers' digits
// included.
func FuzzDecodeTree(f *testing.F) {
	for _, text := range []string{
		`{"a":[1,2.50,{"b":null}]}`, `"\u00e9\n"`, `[]`, ` true `, `{"a":`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := schemas.DecodeTree(data)
		if err != nil {
			if _, ok := errors.AsType[*schemas.Rejection](err); !ok {
				t.Errorf("the error %v", err)
			}
			return
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		var want any
		if err := decoder.Decode(&want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%#v, want %#v (%v)", got, want, err)
		}
	})
}
