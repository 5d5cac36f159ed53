package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// sweep has errors of two mechanisms at three ε; blind has none.
func sweep() *Table {
	t := &Table{Name: "sweep", Columns: []string{"mechanism", "epsilon", "metric", "value"}}
	for _, metric := range []string{"error", "drift"} {
		t.Add("a", .5, metric, Band{4, 3, 5})
		t.Add("a", 1., metric, Band{2, 1, 3})
		t.Add("b", .5, metric, Exact(7))
		t.Add("blind", nil, metric, Exact(9))
	}
	return t
}

// TestProjections: a table to read, and lines where what has no ε is drawn at every ε.
func TestProjections(t *testing.T) {
	read := sweep().Where("mechanism", "a", "blind").
		Pivot([]string{"epsilon", "mechanism"}, "metric", map[string]string{"error": "error, km"})
	want := &Table{
		Name: "sweep", Columns: []string{"epsilon", "mechanism", "error, km", "drift"},
		Rows: []Row{
			{"0.5", "a", "4 (3 to 5)", "4 (3 to 5)"},
			{"1", "a", "2 (1 to 3)", "2 (1 to 3)"},
			{"", "blind", "9", "9"},
		},
	}
	if !reflect.DeepEqual(read, want) {
		t.Errorf("to read: %+v", read)
	}
	lines := sweep().Where("metric", "error").
		Lines("mechanism", []string{"epsilon"}, []float64{.5, 1})
	if len(lines) != 3 || lines[0].Name != "a" ||
		!reflect.DeepEqual(lines[0].X, []float64{.5, 1}) ||
		!reflect.DeepEqual(lines[0].High, []float64{5, 3}) || !math.IsNaN(lines[1].Low[0]) ||
		!reflect.DeepEqual(lines[2].Y, []float64{9, 9}) {
		t.Errorf("lines: %+v", lines)
	}
	spans := &Table{Columns: []string{"who", "from", "to", "value"}}
	spans.Add("x", 1, 4, 3.)
	if line := spans.Lines("who", []string{"from", "to"}, nil)[0]; line.X[0] != 2.5 ||
		line.Y[0] != 3 {
		t.Errorf("the middle of 1 and 4: %+v", line)
	}
	if same := spans.Equal("from", "to"); len(same.Rows) != 0 || len(spans.Rows) != 1 {
		t.Errorf("equal: %+v", same)
	}
}

// TestFiles: one table as CSV and text.
func TestFiles(t *testing.T) {
	table := &Table{Columns: []string{"who", "n", "share", "error"}}
	table.Add("a", 12345, 1./3, Band{4, 3, 5})
	table.Add(nil, 2, math.NaN(), Exact(12345.678))
	table.Add("c", 3, 12000., nil)
	var csvFile, text bytes.Buffer
	if err := errors.Join(table.CSV(&csvFile), table.Text(&text)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&csvFile).ReadAll()
	if err != nil || !reflect.DeepEqual(rows, [][]string{
		{"who", "n", "share", "error", "low", "high"},
		{"a", "12345", "0.3333", "4.0", "3.0", "5.0"},
		{"", "2", "", "1.235e+04", "", ""},
		{"c", "3", "12000.0", "", "", ""},
	}) {
		t.Errorf("CSV %q, %v", rows, err)
	}
	lines := strings.Split(text.String(), "\n")
	if lines[1] != "a    12345  0.333  4 (3 to 5)" || lines[2] != "     2      –      12346" {
		t.Errorf("text %q", lines)
	}
}

// TestUnknownColumn: a name that a table does not have is a fault of the program.
func TestUnknownColumn(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a column that is not there is found")
		}
	}()
	sweep().Where("delta", 1)
}
