package mapping

import (
	"strings"
	"testing"

	"github.com/geodither/geodither/schemas"
)

const tree = `{"a": {"b": {"c": 1}, "x.y": 2, "none": null},
	"list": [10, {"key": "Speed", "v": 3}, {"key": "Location", "v": 4}, {"key": 7, "v": 5}]}`

func decoded(tb testing.TB, text string) any {
	tb.Helper()
	v, err := schemas.DecodeTree([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func TestPath(t *testing.T) {
	whole := decoded(t, tree)
	part := whole.(map[string]any)["a"]
	for _, c := range []struct{ path, want string }{
		{"b.c", "1"},
		{`["x.y"]`, "2"},
		{"$.a.b.c", "1"},
		{`$.a["x.y"]`, "2"},
		{"$.list[0]", "10"},
		{"$.list[key=Location].v", "4"},
		{"$.list[key=7].v", "5"},
		{"$.list[2].v", "4"},
		{"$.list[4]", ""},
		{"$.list[key=Soc].v", ""},
		{"list", ""},
		{"b[0]", ""},
		{"b.c.d", ""},
		{"$.list.key", ""},
		{"b[c=1]", ""},
	} {
		p, err := parsePath(c.path)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		found, ok := p.find(whole, part)
		text, _ := scalarText(found)
		if ok != (c.want != "") || text != c.want {
			t.Errorf("%s leads to %q, %v; want %q", c.path, text, ok, c.want)
		}
	}
	p, err := parsePath("none")
	if found, ok := p.find(whole, part); err != nil || !ok || found != nil {
		t.Errorf("null is %v, %v (%v), want something that is nil", found, ok, err)
	}
	p, err = parsePath("$")
	if _, ok := p.find(whole, part); err != nil || !ok {
		t.Errorf("the whole message is %v (%v)", ok, err)
	}
}

func TestWrongPaths(t *testing.T) {
	for text, words := range map[string]string{
		"": "empty", "a..b": "empty name", "a.": "no name behind", ".a": "empty name",
		"a.[0]": "no name behind", "a[0]b": "lacks a point", "a[": "closing bracket",
		"a[x]": "without a number", "a[-1]": "without a number", "a[99999]": "without a number",
		"a[=x]": "without a number", "a[k=]": "without a number", `a["b]`: `lacks "]`,
		"a b": "needs quotes", "a=b": "needs quotes", "$.": "no name behind",
		"$a": "needs quotes", strings.Repeat("a", 300): "longer than",
		strings.Repeat("a.", 20) + "a": "more than 16",
	} {
		if _, err := parsePath(text); err == nil || !strings.Contains(err.Error(), words) ||
			!strings.Contains(err.Error(), "a[key=Location]") || len(err.Error()) > 600 {
			t.Errorf("%q: %v, want %q and how paths are written", text, err, words)
		}
	}
}

func TestRules(t *testing.T) {
	message := decoded(t, `{"s": "x", "n": 4, "big": 1e2, "q": "4", "t": true, "null": null,
		"o": {}}`)
	no := false
	for _, c := range []struct {
		rule Rule
		want bool
		name string
	}{
		{Rule{Path: "s", Equals: "x"}, true, "s is x"},
		{Rule{Path: "s", Equals: "y"}, false, "s is y"},
		{Rule{Path: "s", NotEquals: "y"}, true, "s is not y"},
		{Rule{Path: "n", Equals: 4}, true, "n is 4"},
		{Rule{Path: "n", Equals: 4.0}, true, "n is 4"},
		{Rule{Path: "n", NotEquals: 5}, true, "n is not 5"},
		{Rule{Path: "big", Equals: 100}, true, "big is 100"},
		{Rule{Path: "big", Equals: "100"}, false, "big is 100"},
		{Rule{Path: "q", Equals: 4}, true, "q is 4"},
		{Rule{Path: "q", Equals: 4.5}, false, "q is 4.5"},
		{Rule{Path: "t", Equals: true}, true, "t is true"},
		{Rule{Path: "t", NotEquals: true}, false, "t is not true"},
		{Rule{Path: "gone", Equals: "x"}, false, "gone is x"},
		{Rule{Path: "gone", NotEquals: "x"}, true, "gone is not x"},
		{Rule{Path: "null", NotEquals: "x"}, true, "null is not x"},
		{Rule{Path: "o", Equals: "x"}, false, "o is x"},
		{Rule{Path: "o", Exists: yes()}, true, "o exists"},
		{Rule{Path: "null", Exists: yes()}, false, "null exists"},
		{Rule{Path: "gone", Exists: &no}, true, "gone does not exist"},
		{Rule{Path: "s", Exists: &no}, false, "s does not exist"},
	} {
		r, err := newRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if r.holds(message, message) != c.want || r.String() != c.name {
			t.Errorf("%q: %v, want %v under %q", r, !c.want, c.want, c.name)
		}
	}
}
