package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"

	"github.com/geodither/geodither/cmd/internal/files"
)

// countsRecord is what is published of one zone in one window.
type countsRecord struct {
	WindowStart instant  `json:"window_start"`
	WindowEnd   instant  `json:"window_end"`
	Day         string   `json:"day"` // on which the window starts, by the clock of the time zone
	Zone        string   `json:"zone"`
	Latitude    *float64 `json:"latitude"` // of the zone's middle; nil for elsewhere
	Longitude   *float64 `json:"longitude"`
	Vehicles    int64    `json:"vehicles"` // count plus noise
	Low         int64    `json:"low"`
	High        int64    `json:"high"`
	Epsilon     float64  `json:"epsilon"`
	PerDay      int      `json:"per_day"`
	Edition     uint32   `json:"edition"`
}

var countsHeader = []string{
	"window_start", "window_end", "day", "zone", "latitude", "longitude", "vehicles", "low", "high",
	"epsilon", "per_day", "edition",
}

// countsEncoder returns what writes a record as a line of CSV or JSON.
func countsEncoder(format string, out io.Writer) func(countsRecord) error {
	if format != "csv" {
		lines := json.NewEncoder(out)
		return func(r countsRecord) error { return lines.Encode(r) }
	}
	rows := csv.NewWriter(out)
	return func(r countsRecord) error {
		latitude, longitude := "", ""
		if r.Latitude != nil {
			latitude, longitude = files.Degrees(*r.Latitude), files.Degrees(*r.Longitude)
		}
		err := rows.Write([]string{
			inUTC(int64(r.WindowStart)), inUTC(int64(r.WindowEnd)), r.Day, r.Zone,
			latitude, longitude, strconv.FormatInt(r.Vehicles, 10), strconv.FormatInt(r.Low, 10),
			strconv.FormatInt(r.High, 10), files.Number(r.Epsilon), strconv.Itoa(r.PerDay),
			strconv.FormatUint(uint64(r.Edition), 10),
		})
		rows.Flush()
		return err
	}
}
