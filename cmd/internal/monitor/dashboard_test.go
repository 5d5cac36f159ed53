package monitor

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDashboard: the dashboard asks for metrics that there are, and its panels have places and
// names of their own.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/compose/grafana/geodither.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	b, _, _ := newTestBoard()
	_, known := get(t, handler(Options{}, source(b)), "/metrics")
	for _, f := range families { // those of partitions have no value without any
		known += "# TYPE " + metricName.FindString(f.desc.String()) + " \n"
	}
	ids, places := map[int]bool{}, map[[2]int]string{}
	asked := 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, has no name or no target, or is there twice", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := places[at]; other != "" || at[0] > 23 {
					t.Errorf("%q is outside, or lies over %q", p.Title, other)
				}
				places[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				asked++
				if !strings.Contains(known, "# TYPE "+strings.TrimSuffix(name, "_bucket")+" ") {
					t.Errorf("%q asks for %s, which /metrics does not have", p.Title, name)
				}
			}
		}
	}
	if asked < 30 {
		t.Errorf("the dashboard asks for %d metrics", asked)
	}
}

var metricName = regexp.MustCompile(`\b(?:geodither|go|process)_[a-z_]+`)
