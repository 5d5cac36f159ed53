package monitor

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// dashboard is the part of Grafana's JSON that is checked here.
type dashboard struct {
	Panels []panel
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource datasource
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ Expr, RawSQL string }
	// FieldConfig has the values at which a panel's colour changes.
	FieldConfig struct {
		Defaults struct {
			Thresholds struct{ Steps []struct{ Color string } }
		}
	}
	Options struct {
		ColorMode string
		Layers    []struct {
			Location struct{ Mode, Latitude, Longitude string }
			Config   struct {
				Style  struct{ Size, Text struct{ Field string } }
				Weight struct{ Field string }
			}
		}
	}
}

type datasource struct{ Type, UID string }

const composeDir = "../../../deploy/compose"

// readBoard reads a dashboard, and checks that its panels have places and names of their own.
func readBoard(t *testing.T, name string) (board dashboard) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(composeDir, "grafana", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids, places := map[int]bool{}, map[[2]int]string{}
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
	}
	return board
}

// TestTypicalBoard: the map of a typical day asks for columns that the documented table has, and
// shows what it asks for.
func TestTypicalBoard(t *testing.T) {
	text, err := os.ReadFile("../../../schemas/CONSUMERS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "CREATE TABLE fleet_typical (")
	table, _, _ = strings.Cut(table, ");")
	for _, p := range readBoard(t, "typical.json").Panels {
		chosen, _, _ := strings.Cut(p.Targets[0].RawSQL, "\nFROM ")
		for name := range strings.SplitSeq(strings.TrimPrefix(chosen, "SELECT "), ", ") {
			if !strings.Contains(table, " "+name+" ") {
				t.Errorf("%q asks for %q, which %s lacks", p.Title, name, table)
			}
		}
		layer := p.Options.Layers[0]
		if style := layer.Config.Style; style.Size.Field != "estimate" ||
			layer.Location.Latitude != "latitude" || !strings.Contains(chosen, ", estimate,") {
			t.Errorf("%q shows %+v", p.Title, layer)
		}
	}
}

// TestDashboard: the dashboard asks for metrics that there are.
func TestDashboard(t *testing.T) {
	b, _, _ := newTestBoard()
	_, known := get(t, handler(Options{}, source(b)), "/metrics")
	for _, f := range families { // those of partitions have no value without any
		known += "# TYPE " + metricName.FindString(f.desc.String()) + " \n"
	}
	asked := 0
	for _, p := range readBoard(t, "geodither.json").Panels {
		colours := len(p.FieldConfig.Defaults.Thresholds.Steps)
		if p.Type == "stat" && (p.Options.ColorMode != "value" || colours < 2) {
			t.Errorf("%q does not change its colour where something is wrong", p.Title)
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

// TestMap: the panels of the map say that places are sanitized or that counts have noise, ask the
// source that is provisioned for tables that the sink makes, leave predictions out, and show
// columns that they ask for. TestPostgreSQL of kafkatest runs the queries.
func TestMap(t *testing.T) {
	var sources struct {
		Datasources []datasource
	}
	text, err := os.ReadFile(filepath.Join(composeDir, "grafana", "datasources.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &sources); err != nil {
		t.Fatal(err)
	}
	sink, err := os.ReadFile(filepath.Join(composeDir, "connect", "sink.properties"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(sink), "\ncollection.name.format=${topic}\n") {
		t.Error("the sink does not name tables after topics")
	}
	_, topics, _ := strings.Cut(string(sink), "\ntopics=")
	topics, _, _ = strings.Cut(topics, "\n")
	tables := strings.Split(strings.ReplaceAll(topics, ".", "_"), ",")
	asked := map[string]bool{}
	layers := 0
	for _, p := range readBoard(t, "map.json").Panels {
		if !strings.HasSuffix(p.Title, ": sanitized, not where anybody was") &&
			!strings.HasSuffix(p.Title, ": counts with noise") {
			t.Errorf("%q does not say that places are sanitized, or counts noisy", p.Title)
		}
		if !slices.Contains(sources.Datasources, p.Datasource) {
			t.Errorf("%q asks %+v, which is not provisioned", p.Title, p.Datasource)
		}
		chosen, rest, _ := strings.Cut(p.Targets[0].RawSQL, "\nFROM ")
		for _, table := range tableName.FindAllString(p.Targets[0].RawSQL, -1) {
			asked[table] = true
			if !slices.Contains(tables, table) {
				t.Errorf("%q asks the table %q; the sink makes %q", p.Title, table, tables)
			}
		}
		if strings.HasPrefix(rest, "fleet_sanitized\n") &&
			!strings.Contains(rest, "\nWHERE kind = 'released' AND ") {
			t.Errorf("%q shows predictions, which drift to where the model expects everybody:\n%s",
				p.Title, rest)
		}
		for _, layer := range p.Options.Layers {
			layers++
			for _, name := range []string{
				layer.Location.Latitude, layer.Location.Longitude,
				layer.Config.Style.Size.Field + layer.Config.Weight.Field,
				cmp.Or(layer.Config.Style.Text.Field, layer.Location.Latitude),
			} {
				if !regexp.MustCompile(`[ ,]` + name + `(,|$)`).MatchString(chosen) {
					t.Errorf("%q shows %q and does not ask for it", p.Title, name)
				}
			}
		}
	}
	if layers != 3 || len(asked) != len(tables) {
		t.Errorf("the map has %d layers, and asks %v", layers, asked)
	}
}

var tableName = regexp.MustCompile(`\bfleet_\w+`)
