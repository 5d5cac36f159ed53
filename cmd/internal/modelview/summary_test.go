package modelview

import (
	"maps"
	"testing"
)

func TestParameters(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                                   {},
		`a=1 b="two words" c=x=y  d="q\"q" `: {"a": "1", "b": "two words", "c": "x=y", "d": `q"q`},
		`a= b=2`:                             {"a": "", "b": "2"},
		`a=1 words without a value`:          {"a": "1"},
		`a="open`:                            {"a": `"open`},
	} {
		if got := parameters(text); !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
