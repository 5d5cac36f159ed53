package files

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/schemas"
)

// Writer writes sanitized records in one format.
type Writer interface {
	Write(r schemas.Sanitized) error
	// Close writes what completes the output. It does not close what it writes to.
	Close() error
}

// NewWriter returns a writer of csv, json (one object a line, ndjson for short), geojson or
// parquet.
func NewWriter(format string, out io.Writer) (Writer, error) {
	codec, err := schemas.NewCodec(schemas.JSONText)
	if err != nil {
		return nil, err
	}
	switch format {
	case "json", "ndjson":
		return jsonWriter{out, codec}, nil
	case "csv":
		rows := csv.NewWriter(out)
		return csvWriter{rows}, rows.Write(names())
	case "geojson":
		return geoJSONWriter{NewCollection(out), codec}, nil
	case "parquet":
		return parquetWriter{NewParquet[parquetRow](out)}, nil
	}
	return nil, CheckFormat(format)
}

// names are those of the columns.
func names() (all []string) {
	for _, c := range columns {
		all = append(all, c.name)
	}
	return all
}

// CheckFormat refuses a format that [NewWriter] does not know.
func CheckFormat(format string) error {
	switch format {
	case "json", "ndjson", "csv", "geojson", "parquet":
		return nil
	}
	return fmt.Errorf("output format %q: choose json, csv, geojson or parquet", format)
}

// FormatOf returns the format of a file, for [NewWriter], by its extension. A name without one,
// such as "-" for standard output, is CSV. The error is the user's.
func FormatOf(path string) (string, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case "", ".csv":
		return "csv", nil
	case ".json", ".ndjson", ".jsonl":
		return "json", nil
	case ".geojson":
		return "geojson", nil
	case ".parquet":
		return "parquet", nil
	}
	return "", cli.Usagef("--out %s: end it in .csv, .ndjson, .json, .geojson or .parquet", path)
}

// jsonWriter writes a record a line: all fields of the schema, with its time as text, as CSV has
// it.
type jsonWriter struct {
	out   io.Writer
	codec *schemas.Codec
}

// Write implements [Writer].
func (w jsonWriter) Write(r schemas.Sanitized) error {
	line, err := w.codec.AppendSanitized(nil, r)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(line, '\n'))
	return err
}

// Close implements [Writer].
func (w jsonWriter) Close() error { return nil }

// point is a GeoJSON point: longitude first, in degrees.
type point struct {
	Type        string     `json:"type"`
	Coordinates [2]float64 `json:"coordinates"`
}

// geoJSONWriter writes a point at the estimate of each record, with the record as properties, named
// and written as in a line of JSON.
type geoJSONWriter struct {
	*Collection
	codec *schemas.Codec
}

// Write implements [Writer].
func (w geoJSONWriter) Write(r schemas.Sanitized) error {
	properties, err := w.codec.AppendSanitized(nil, r)
	if err != nil {
		return err
	}
	return w.Add(point{"Point", [2]float64{r.Longitude, r.Latitude}}, json.RawMessage(properties))
}

type csvWriter struct{ rows *csv.Writer }

// Write implements [Writer].
func (w csvWriter) Write(r schemas.Sanitized) error {
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.write(&r)
	}
	return w.rows.Write(row)
}

// Close implements [Writer].
func (w csvWriter) Close() error {
	w.rows.Flush()
	return w.rows.Error()
}
