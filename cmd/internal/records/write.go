package records

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/schemas"
)

// Writer writes sanitized records in one text format.
type Writer interface {
	Write(r schemas.Sanitized) error
	// Close writes what completes the output. It does not close what it writes to.
	Close() error
}

// NewWriter returns a writer of csv, json (one object a line, ndjson for short) or geojson.
func NewWriter(format string, out io.Writer) (Writer, error) {
	switch format {
	case "json", "ndjson":
		return jsonWriter{json.NewEncoder(out)}, nil
	case "csv":
		rows := csv.NewWriter(out)
		return csvWriter{rows}, rows.Write(header)
	case "geojson":
		return geoJSONWriter{NewCollection(out)}, nil
	}
	return nil, CheckFormat(format)
}

// CheckFormat refuses a format that [NewWriter] does not know.
func CheckFormat(format string) error {
	switch format {
	case "json", "ndjson", "csv", "geojson":
		return nil
	}
	return fmt.Errorf("output format %q is unknown: choose json, csv or geojson", format)
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
	}
	return "", cli.Usagef("--out %s: the extension is the format; write .csv, .ndjson (or .json, "+
		"one object a line) or .geojson", path)
}

type jsonWriter struct{ lines *json.Encoder }

// Write implements [Writer].
func (w jsonWriter) Write(r schemas.Sanitized) error { return w.lines.Encode(r) }

// Close implements [Writer].
func (w jsonWriter) Close() error { return nil }

type csvWriter struct{ rows *csv.Writer }

// header has the columns of a CSV file of sanitized records.
var header = []string{
	"user_id", "timestamp", "latitude", "longitude", "estimate_latitude", "estimate_longitude",
	"radius_m", "epsilon", "delta", "mechanism", "model_id", "step", "release",
	"kind", "factor_200m", "factor_1km", "factor_set",
}

// Write implements [Writer].
func (w csvWriter) Write(r schemas.Sanitized) error {
	return w.rows.Write([]string{
		r.UserID, time.UnixMilli(r.Timestamp).UTC().Format(time.RFC3339Nano),
		Degrees(r.Latitude), Degrees(r.Longitude),
		Degrees(r.EstimateLatitude), Degrees(r.EstimateLongitude),
		strconv.FormatFloat(r.RadiusM, 'f', 1, 64), Number(r.Epsilon), Number(r.Delta),
		r.Mechanism, r.ModelID, strconv.FormatInt(r.Step, 10), strconv.FormatInt(r.Release, 10),
		r.Kind, factor(r.Factor200M), factor(r.Factor1KM), factor(r.FactorSet),
	})
}

// Close implements [Writer].
func (w csvWriter) Close() error {
	w.rows.Flush()
	return w.rows.Error()
}

// Degrees prints seven decimals of a degree, which is a centimetre.
func Degrees(x float64) string { return strconv.FormatFloat(x, 'f', 7, 64) }

// Number prints a number with as many digits as it takes to read the same number again.
func Number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// factor prints nothing for 0, which stands for no factor.
func factor(x float64) string {
	if x == 0 {
		return ""
	}
	return Number(x)
}
