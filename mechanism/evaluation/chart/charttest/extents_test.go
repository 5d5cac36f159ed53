package charttest

import (
	"fmt"
	"strings"
	"testing"
)

// picture is a drawing of 100 × 40 with one text of size 10.
func picture(group, attributes, text string) []byte {
	return fmt.Appendf(nil, `<svg viewBox="0 0 100 40"><g transform="%s">`+
		`<text %s style="font-size:10px">%s</text></g></svg>`, group, attributes, text)
}

// TestFaults: a text that leaves the drawing on any side is noticed, also within turned groups, and
// so is one without a length or with too short a one.
func TestFaults(t *testing.T) {
	const (
		long   = `lengthAdjust="spacingAndGlyphs"`
		mirror = "scale(1, -1) translate(0, -40)"
		turn   = "translate(20, 2) rotate(90)"
	)
	for _, c := range []struct{ name, group, attributes, want string }{
		{"inside", "", `x="5" y="20" textLength="30" ` + long, ""},
		{"at the right", "", `x="75" y="20" textLength="30" ` + long, "outside"},
		{"at the left", "", `x="-2" y="20" textLength="30" ` + long, "outside"},
		{"at the top", "", `x="5" y="7" textLength="30" ` + long, "outside"},
		{"at the foot", "", `x="5" y="39" textLength="30" ` + long, "outside"},
		{"mirrored", mirror, `x="5" y="-20" textLength="30" transform="scale(1, -1)" ` + long, ""},
		{
			"mirrored, at the foot", mirror,
			`x="5" y="-1" textLength="30" transform="scale(1, -1)" ` + long, "outside",
		},
		{"turned", turn, `x="2" y="2" textLength="30" ` + long, ""},
		{"turned, too long", turn, `x="9" y="2" textLength="30" ` + long, "outside"},
		{"without a length", "", `x="5" y="20"`, "no size or length"},
		{"without a number", "", `x="5" y="20" textLength="wide" ` + long, "no place"},
		{"crushed", "", `x="5" y="20" textLength="15" ` + long, "most fonts"},
	} {
		faults, err := Faults(picture(c.group, c.attributes, "letters"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(faults, "; "); c.want == "" && got != "" ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if faults, err := Faults(picture("", `x="500" y="0"`, "")); err != nil || len(faults) > 0 {
		t.Errorf("an empty text: %q, %v", faults, err)
	}
	for _, broken := range []string{
		"", `<svg viewBox="wide">`, `<svg></svg>`, string(picture("skew(3)", "", "a")),
		string(picture("scale(a)", "", "a")), string(picture("scale()", "", "a")),
	} {
		if _, err := Faults([]byte(broken)); err == nil {
			t.Errorf("%q is read", broken)
		}
	}
}
