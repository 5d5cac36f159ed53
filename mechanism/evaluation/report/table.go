package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Table is results as data: each row is one of them, and each column is a named field. A table to
// read ([Table.Pivot]), the lines of a figure ([Table.Lines]) and the files ([Table.CSV],
// [Table.Text]) are projections of one table, so that a number is computed once.
type Table struct {
	// Name is the name of the table's file without an ending: lower-case letters, digits and
	// hyphens. A table without a name has no file.
	Name, Caption string
	Columns       []string
	Rows          []Row
}

// Row has a cell for each column: a string, an integer, a float64, a [Band], or nil for nothing.
type Row []any

// Add appends a row.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, cells) }

// at returns the number of a column. It panics if the table has none of that name, because names
// of columns are part of the program.
func (t *Table) at(column string) int {
	i := slices.Index(t.Columns, column)
	if i < 0 {
		panic(fmt.Sprintf("report: table %q has no column %q", t.Name, column))
	}
	return i
}

// Where returns the rows whose cell in a column is one of some values.
func (t *Table) Where(column string, values ...any) *Table {
	at := t.at(column)
	return t.filter(func(row Row) bool { return slices.Contains(values, row[at]) })
}

// Equal returns the rows with equal cells in two columns.
func (t *Table) Equal(column, other string) *Table {
	a, b := t.at(column), t.at(other)
	return t.filter(func(row Row) bool { return row[a] == row[b] })
}

func (t *Table) filter(keep func(Row) bool) *Table {
	part := *t
	part.Rows = nil
	for _, row := range t.Rows {
		if keep(row) {
			part.Rows = append(part.Rows, row)
		}
	}
	return &part
}

// Values returns the different cells of a column, in the order of the rows.
func (t *Table) Values(column string) (values []any) {
	at := t.at(column)
	for _, row := range t.Rows {
		if !slices.Contains(values, row[at]) {
			values = append(values, row[at])
		}
	}
	return values
}

// Pivot returns a table to read: a row for each combination of cells in the columns rows, in the
// order of the table, and a column for each cell of another one. Its cells are the last column's.
// names are what its columns are called, if not as here.
func (t *Table) Pivot(rows []string, column string, names map[string]string) *Table {
	named := func(text string) string {
		if name, ok := names[text]; ok {
			return name
		}
		return text
	}
	out := &Table{Name: t.Name, Caption: t.Caption}
	for _, name := range rows {
		out.Columns = append(out.Columns, named(name))
	}
	across := t.Values(column)
	for _, value := range across {
		out.Columns = append(out.Columns, named(shown(value)))
	}
	numbers := map[string]int{}
	for _, row := range t.Rows {
		var head Row
		for _, name := range rows {
			head = append(head, shown(row[t.at(name)]))
		}
		key := fmt.Sprintf("%q", head)
		number, ok := numbers[key]
		if !ok {
			number = len(out.Rows)
			numbers[key] = number
			out.Rows = append(out.Rows, append(head, make(Row, len(across))...))
		}
		place := len(rows) + slices.Index(across, row[t.at(column)])
		out.Rows[number][place] = shown(row[len(row)-1])
	}
	return out
}

// Lines returns a line for each cell of the column by, in the order of the table, of the last
// column over x. If x has several columns, a point lies at the mean of their cells. A row without x
// holds everywhere: its point is drawn at each of all.
func (t *Table) Lines(by string, x []string, all []float64) (lines []Series) {
	numbers := map[any]int{}
	for _, row := range t.Rows {
		name := row[t.at(by)]
		number, ok := numbers[name]
		if !ok {
			number = len(lines)
			numbers[name] = number
			lines = append(lines, Series{Name: shown(name)})
		}
		places := all
		if row[t.at(x[0])] != nil {
			sum := 0.0
			for _, column := range x {
				sum += number64(row[t.at(column)])
			}
			places = []float64{sum / float64(len(x))}
		}
		for _, place := range places {
			appendPoint(&lines[number], place, bandOf(row[len(row)-1]))
		}
	}
	return lines
}

func appendPoint(line *Series, x float64, y Band) {
	line.X, line.Y = append(line.X, x), append(line.Y, y.Value)
	line.Low, line.High = append(line.Low, y.Low), append(line.High, y.High)
}

func bandOf(cell any) Band {
	if band, ok := cell.(Band); ok {
		return band
	}
	return Exact(number64(cell))
}

// number64 returns a cell's number, NaN if it is none.
func number64(cell any) float64 {
	switch cell := cell.(type) {
	case float64:
		return cell
	case int:
		return float64(cell)
	case Band:
		return cell.Value
	}
	return math.NaN()
}

// shown writes a cell for people.
func shown(cell any) string {
	switch cell := cell.(type) {
	case nil:
		return ""
	case float64:
		return Short(cell)
	}
	return fmt.Sprint(cell)
}

// mostShown is the number of rows above which a table is only in its file.
const mostShown = 40

func (t *Table) markdown(to *bytes.Buffer) {
	to.WriteString(escape.Replace(t.Caption))
	if t.Name != "" {
		fmt.Fprintf(to, " ([%[1]s.csv](tables/%[1]s.csv), rows: %[2]d)", t.Name, len(t.Rows))
	}
	to.WriteString("\n\n")
	if len(t.Rows) > mostShown {
		return
	}
	line := func(cells []any) {
		for _, cell := range cells {
			fmt.Fprintf(to, "| %s ", escape.Replace(shown(cell)))
		}
		to.WriteString("|\n")
	}
	header := make([]any, len(t.Columns))
	for i, column := range t.Columns {
		header[i] = column
	}
	line(header)
	to.WriteString(strings.Repeat("|---", len(t.Columns)) + "|\n")
	for _, row := range t.Rows {
		line(row)
	}
	to.WriteString("\n")
}

func (t *Table) file() (name string, content []byte, err error) {
	if t.Name == "" {
		return "", nil, nil
	}
	var out bytes.Buffer
	for _, row := range t.Rows {
		if len(row) != len(t.Columns) {
			err = fmt.Errorf("%d columns, and a row of %d", len(t.Columns), len(row))
		}
	}
	if err == nil {
		err = t.CSV(&out)
	}
	return "tables/" + t.Name + ".csv", out.Bytes(), err
}

// CSV writes the table with a header. A column with bands is three: its name is the value's, and
// those of the ends are low and high.
func (t *Table) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	var header []string
	for i, column := range t.Columns {
		header = append(header, column)
		if t.banded(i) {
			header = append(header, "low", "high")
		}
	}
	err := out.Write(header)
	for _, row := range t.Rows {
		var fields []string
		for i, cell := range row {
			switch cell := cell.(type) {
			case Band:
				fields = append(fields, Number(cell.Value), Number(cell.Low), Number(cell.High))
			case float64:
				fields = append(fields, Number(cell))
			default:
				fields = append(fields, shown(cell))
			}
			if _, isBand := cell.(Band); t.banded(i) && !isBand {
				fields = append(fields, "", "")
			}
		}
		if err == nil {
			err = out.Write(fields)
		}
	}
	out.Flush()
	if err == nil {
		err = out.Error()
	}
	return err
}

// banded reports whether a column has bands.
func (t *Table) banded(column int) bool {
	return slices.ContainsFunc(t.Rows, func(row Row) bool {
		_, ok := row[column].(Band)
		return ok
	})
}

// Text writes the table for a terminal, with columns of one width each.
func (t *Table) Text(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, strings.Join(t.Columns, "\t"))
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = shown(cell)
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	return out.Flush()
}
