package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/schemas"
)

var countsHeader = []string{
	"window_start", "window_end", "day", "zone", "latitude", "longitude", "vehicles", "low", "high",
	"estimate", "epsilon", "per_day", "edition",
}

// countsLine is a record as JSON prints it for people: with times as text, instead of those of the
// record.
type countsLine struct {
	WindowStart instant `json:"window_start"`
	WindowEnd   instant `json:"window_end"`
	schemas.Counts
}

// countsEncoder returns what writes a record as a line of CSV or JSON.
func countsEncoder(format string, out io.Writer) func(schemas.Counts) error {
	if format != "csv" {
		lines := json.NewEncoder(out)
		return func(r schemas.Counts) error {
			return lines.Encode(countsLine{instant(r.WindowStart), instant(r.WindowEnd), r})
		}
	}
	rows := csv.NewWriter(out)
	return func(r schemas.Counts) error {
		latitude, longitude := "", ""
		if r.Latitude.Known {
			latitude, longitude = files.Degrees(r.Latitude.Number),
				files.Degrees(r.Longitude.Number)
		}
		err := rows.Write([]string{
			inUTC(r.WindowStart), inUTC(r.WindowEnd), r.Day, r.Zone, latitude, longitude,
			strconv.FormatInt(r.Vehicles, 10), strconv.FormatInt(r.Low, 10),
			strconv.FormatInt(r.High, 10), files.Number(r.Estimate), files.Number(r.Epsilon),
			strconv.Itoa(int(r.PerDay)), strconv.FormatInt(r.Edition, 10),
		})
		rows.Flush()
		return err
	}
}
