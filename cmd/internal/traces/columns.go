package traces

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What a column of a CSV file may be.
const (
	columnUser = iota
	columnTimestamp
	columnLatitude
	columnLongitude
	columnAccuracy
	columnCount
)

// columnNames are the names of each column; the first is the one to use.
var columnNames = [columnCount][]string{
	columnUser:      {"user_id", "user", "uid"},
	columnTimestamp: {"timestamp", "time", "ts"},
	columnLatitude:  {"latitude", "lat"},
	columnLongitude: {"longitude", "lon", "lng", "long"},
	columnAccuracy:  {"accuracy_m"},
}

// checkColumns refuses columns that no file could have.
func (o Options) checkColumns() error {
	if len(o.Columns) == 0 {
		return nil
	}
	if o.Format != "" && !o.Format.named() {
		return fmt.Errorf("a file of %s has no names of columns: leave the columns out", o.Format)
	}
	named := map[string]string{}
	for _, column := range slices.Sorted(maps.Keys(o.Columns)) {
		name := o.Columns[column]
		if !slices.ContainsFunc(columnNames[:], func(known []string) bool { return known[0] == column }) {
			return fmt.Errorf("there is no column %q to be named: name user_id, timestamp, latitude, longitude or accuracy_m", column)
		}
		if strings.TrimSpace(name) == "" || name != strings.TrimSpace(name) {
			return fmt.Errorf("the column for %s has no name, or one with blanks around it", column)
		}
		if other, ok := named[strings.ToLower(name)]; ok {
			return fmt.Errorf("the column %q stands for %s and for %s: name one for each", name, other, column)
		}
		named[strings.ToLower(name)] = column
	}
	for _, known := range columnNames {
		other, taken := named[known[0]]
		if _, renamed := o.Columns[known[0]]; taken && !renamed {
			return fmt.Errorf("the column %q stands for %s: name the one for %s as well", known[0], other, known[0])
		}
	}
	return nil
}

// wantedNames returns the names that each column may have in a header, in lower
// case: the given one alone, or all of its own that are not given to another.
func wantedNames(given map[string]string) [columnCount][]string {
	taken := map[string]bool{}
	for _, name := range given {
		taken[strings.ToLower(name)] = true
	}
	var wanted [columnCount][]string
	for column, known := range columnNames {
		if name, ok := given[known[0]]; ok {
			wanted[column] = []string{strings.ToLower(name)}
			continue
		}
		for _, name := range known {
			if !taken[name] {
				wanted[column] = append(wanted[column], name)
			}
		}
	}
	return wanted
}

// expectedColumns lists the names that a header may use.
func expectedColumns(wanted [columnCount][]string) string {
	parts := make([]string, columnCount)
	for i, known := range wanted {
		parts[i] = known[0]
		if len(known) > 1 {
			parts[i] += " (or " + strings.Join(known[1:], ", ") + ")"
		}
	}
	parts[columnAccuracy] += " (optional)"
	return strings.Join(parts, ", ")
}
