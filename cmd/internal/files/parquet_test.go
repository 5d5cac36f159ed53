package files

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/geodither/geodither/schemas"
)

// written returns what a writer of a format makes of records.
func written(t *testing.T, format string, records []schemas.Sanitized) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(format, &out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// opened reads the footer of a Parquet file, and its metadata "geo".
func opened(t *testing.T, data []byte) (*parquet.File, geoMetadata) {
	t.Helper()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	text, ok := file.Lookup("geo")
	if !ok {
		t.Fatal("the file has no metadata of GeoParquet")
	}
	var geo geoMetadata
	if err := json.Unmarshal([]byte(text), &geo); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if strings.Contains(text, "crs") || geo.Version != "1.1.0" || geo.PrimaryColumn != "geometry" ||
		geo.Columns["geometry"].Encoding != "WKB" || len(geo.Columns) != 1 {
		t.Errorf("the metadata is %s", text)
	}
	return file, geo
}

// rowsOf are the rows of a file, each by the columns' numbers.
func rowsOf(t *testing.T, file *parquet.File) (rows []parquet.Row) {
	t.Helper()
	for _, group := range file.RowGroups() {
		reader := group.Rows()
		for batch := make([]parquet.Row, 64); ; {
			n, err := reader.ReadRows(batch)
			for _, row := range batch[:n] {
				rows = append(rows, row.Clone())
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// mixed are records with and without what a record may lack.
func mixed() []schemas.Sanitized {
	list := some(4)
	list[1].Kind, list[1].Epsilon = schemas.KindPredicted, 0
	list[1].ReleaseLatitude, list[1].ReleaseLongitude = schemas.Nullable{}, schemas.Nullable{}
	list[2].SigmaMajorM, list[2].SigmaMinorM = schemas.Nullable{}, schemas.Nullable{}
	list[2].AzimuthDeg = schemas.Nullable{}
	list[3].Timestamp += 250
	list[3].Latitude, list[3].Longitude = -33.25, 151.5
	return list
}

// TestParquetIsCSV: a Parquet file has the columns of CSV by name and order, the same values, null
// where CSV has nothing, and the estimate as a point.
func TestParquetIsCSV(t *testing.T) {
	records := mixed()
	table, err := csv.NewReader(bytes.NewReader(written(t, "csv", records))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	file, geo := opened(t, written(t, "parquet", records))
	var names []string
	for _, field := range file.Schema().Fields() {
		names = append(names, field.Name())
	}
	if want := append(slices.Clone(table[0]), "geometry"); !slices.Equal(names, want) {
		t.Fatalf("the columns are\n%v, want\n%v", names, want)
	}
	if at := file.Schema().Fields()[1].Type().String(); at !=
		"TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS)" {
		t.Errorf("the time is a %s", at)
	}
	rows := rowsOf(t, file)
	if len(rows) != len(records) {
		t.Fatalf("%d rows, want %d", len(rows), len(records))
	}
	for i, row := range rows {
		for column, text := range table[i+1] {
			if !sameCell(row[column], names[column], text) {
				t.Errorf("row %d: %s is %v, and %q in CSV", i, names[column], row[column], text)
			}
		}
		shape := row[len(names)-1].ByteArray()
		if lon, lat := pointOf(t, shape); lon != records[i].Longitude ||
			lat != records[i].Latitude {
			t.Errorf("row %d: the point is %g, %g", i, lon, lat)
		}
	}
	column := geo.Columns["geometry"]
	if !slices.Equal(column.GeometryTypes, []string{"Point"}) || column.Box == nil ||
		*column.Box != [4]float64{-2.875, -33.25, 151.5, 53.5} {
		t.Errorf("the shapes are %+v", column)
	}
}

// sameCell compares a value with a cell of CSV, whose numbers are rounded for people.
func sameCell(value parquet.Value, name, text string) bool {
	if value.IsNull() || text == "" {
		return value.IsNull() && text == ""
	}
	kind := value.Kind()
	switch {
	case kind == parquet.ByteArray:
		return string(value.ByteArray()) == text
	case name == "timestamp":
		return time.UnixMilli(value.Int64()).UTC().Format("2006-01-02T15:04:05.000Z") == text
	case kind == parquet.Int64:
		return strconv.FormatInt(value.Int64(), 10) == text
	}
	x, err := strconv.ParseFloat(text, 64)
	tolerance := 0.
	switch {
	case strings.HasSuffix(name, "itude"):
		tolerance = .5e-7
	case strings.HasSuffix(name, "_m"), strings.HasSuffix(name, "_deg"):
		tolerance = .05
	}
	return err == nil && math.Abs(value.Double()-x) <= tolerance
}

// pointOf reads a point in well-known binary.
func pointOf(t *testing.T, shape []byte) (lon, lat float64) {
	t.Helper()
	if len(shape) != 21 || !bytes.Equal(shape[:5], []byte{1, 1, 0, 0, 0}) {
		t.Fatalf("%x is no point in well-known binary", shape)
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(shape[5:])),
		math.Float64frombits(binary.LittleEndian.Uint64(shape[13:]))
}

// TestParquetPolygons: a zone's outline in well-known binary, with its holes, and all outlines of a
// zone of several.
func TestParquetPolygons(t *testing.T) {
	var file bytes.Buffer
	p := NewParquet[parquetRow](&file)
	ring := [][2]float64{{1, 2}, {3, 2}, {3, 4}, {1, 2}}
	hole := [][2]float64{{2, 2}, {2, 3}, {3, 3}, {2, 2}}
	other := [][2]float64{{5, 6}, {7, 6}, {7, 8}, {5, 6}}
	places := func(ring [][2]float64) (shape []byte) {
		shape = []byte{byte(len(ring)), 0, 0, 0}
		for _, at := range ring {
			for _, x := range at {
				shape = binary.LittleEndian.AppendUint64(shape, math.Float64bits(x))
			}
		}
		return shape
	}
	one := slices.Concat([]byte{1, 3, 0, 0, 0, 2, 0, 0, 0}, places(ring), places(hole))
	two := slices.Concat([]byte{1, 6, 0, 0, 0, 2, 0, 0, 0}, one,
		[]byte{1, 3, 0, 0, 0, 1, 0, 0, 0}, places(other))
	holed := [][][2]float64{ring, hole}
	if got := p.Polygons([][][][2]float64{holed}); !bytes.Equal(got, one) {
		t.Errorf("%x, want %x", got, one)
	}
	if got := p.Polygons([][][][2]float64{holed, {other}}); !bytes.Equal(got, two) {
		t.Errorf("%x, want %x", got, two)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`["Polygon","MultiPolygon"]`, `[1,2,7,8]`} {
		if !strings.Contains(file.String(), text) {
			t.Errorf("the file has no %s", text)
		}
	}
}

// counted is a pipe: it can neither be read nor go back.
type counted struct {
	io.Writer
	bytes int
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return c.Writer.Write(p)
}

// TestParquetRowGroups: rows leave the memory a row group at a time, and a file without a record is
// whole too.
func TestParquetRowGroups(t *testing.T) {
	var out bytes.Buffer
	pipe := &counted{Writer: &out}
	w, err := NewWriter("parquet", pipe)
	if err != nil {
		t.Fatal(err)
	}
	record := some(1)[0]
	for i := range int64(2*rowGroup + 1) {
		record.Timestamp += 1000
		record.UserID = fmt.Sprint("bus-", i%1000)
		if err := w.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	if pipe.bytes == 0 {
		t.Error("two row groups are still in memory")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, _ := opened(t, out.Bytes())
	if groups := file.RowGroups(); len(groups) != 3 || groups[2].NumRows() != 1 ||
		file.NumRows() != 2*rowGroup+1 {
		t.Errorf("%d rows in %d row groups", file.NumRows(), len(groups))
	}
	file, geo := opened(t, written(t, "parquet", nil))
	if file.NumRows() != 0 || geo.Columns["geometry"].Box != nil {
		t.Errorf("without a record there are %d rows and the box %v", file.NumRows(),
			geo.Columns["geometry"].Box)
	}
}

// TestParquetIsNotRead: a user who names a Parquet file learns that it is one.
func TestParquetIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.parquet")
	if err := os.WriteFile(path, written(t, "parquet", mixed()), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(schemas.Sanitized, string) error { return nil }
	err := Records(path, nil, nil)(t.Context(), none)
	if err == nil || !strings.Contains(err.Error(), "is a Parquet file") {
		t.Errorf("%v", err)
	}
}
