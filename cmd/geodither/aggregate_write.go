package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/grid"
)

// zoneRow is what is written of one zone in one window.
type zoneRow struct {
	WindowStart   int64   `parquet:"window_start,timestamp(millisecond:utc)"`
	WindowEnd     int64   `parquet:"window_end,timestamp(millisecond:utc)"`
	Zone          int64   `parquet:"zone"`
	Name          string  `parquet:"name"`     // of --zone
	Latitude      float64 `parquet:"latitude"` // of its middle
	Longitude     float64 `parquet:"longitude"`
	Vehicles      float64 `parquet:"vehicles"`
	Low           float64 `parquet:"low"`
	High          float64 `parquet:"high"`
	Share         float64 `parquet:"share"` // of the fleet
	Posterior     float64 `parquet:"posterior"`
	PosteriorLow  float64 `parquet:"posterior_low"`
	PosteriorHigh float64 `parquet:"posterior_high"`
	Naive         float64 `parquet:"naive"`
	Model         float64 `parquet:"model"`
	Outline       []byte  `parquet:"geometry"` // of Parquet alone
}

var zoneHeader = []string{
	"window_start", "window_end", "zone", "name", "latitude", "longitude",
	"vehicles", "low", "high", "share",
	"posterior", "posterior_low", "posterior_high", "naive", "model",
}

func (r zoneRow) fields() []string {
	text := []string{
		files.Time(r.WindowStart), files.Time(r.WindowEnd), strconv.FormatInt(r.Zone, 10),
		r.Name, files.Degrees(r.Latitude), files.Degrees(r.Longitude),
	}
	for _, x := range []float64{
		r.Vehicles, r.Low, r.High, r.Share,
		r.Posterior, r.PosteriorLow, r.PosteriorHigh, r.Naive, r.Model,
	} {
		text = append(text, files.Number(x))
	}
	return text
}

// object is the row as a JSON object of the columns of CSV. A zone without a name has null.
func (r zoneRow) object() []byte {
	var b []byte
	for i, text := range r.fields() {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		switch zoneHeader[i] {
		case "window_start", "window_end", "name":
			quoted, _ := json.Marshal(text) // a text always can be one
			if text == "" {
				quoted = []byte("null")
			}
			text = string(quoted)
		}
		b = append(strconv.AppendQuote(append(b, separator), zoneHeader[i]), ':')
		b = append(b, text...)
	}
	return append(b, '}')
}

// Output says where to write estimates and how.
type aggregateOutput struct {
	Path string // "-" is standard output, as CSV; the extension of a file is its format
	// Areas are the zones of --zone, to write their outlines; nil: none. OffMap others lie off the
	// map and are left out.
	Areas  []aggregate.Area
	OffMap int
}

// Validate reports what cannot be used.
func (o aggregateOutput) Validate() error {
	_, err := files.FormatOf(o.Path)
	return err
}

// aggregateWriter writes zones. Its file appears when it is complete.
type aggregateWriter struct {
	options aggregateOutput
	format  string           // of density, as for [files.NewWriter]
	zones   *aggregate.Zones // from the first window on
	density *files.File

	rows     *csv.Writer
	features *files.Collection
	table    *files.Parquet[zoneRow]
}

func newAggregateWriter(options aggregateOutput, stdout io.Writer) (*aggregateWriter, error) {
	o := &aggregateWriter{options: options}
	var err error
	if o.format, err = files.FormatOf(options.Path); err != nil {
		return nil, err
	}
	if o.density, err = files.CreateOrStdout(options.Path, stdout); err != nil {
		return nil, err
	}
	o.rows, o.features = csv.NewWriter(o.density), files.NewCollection(o.density)
	if o.format == "parquet" {
		o.table = files.NewParquet[zoneRow](o.density)
	}
	if o.format == "csv" {
		err = o.rows.Write(zoneHeader)
	}
	if err != nil {
		return nil, errors.Join(err, o.density.Discard())
	}
	return o, nil
}

// window writes one window.
func (o *aggregateWriter) window(
	zones *aggregate.Zones, w *aggregate.Window, d aggregate.Density,
) error {
	o.zones = zones
	for zone := range d.Fitted {
		lat, lon := middleOfZone(zones, int32(zone))
		err := o.zone(zoneRow{
			WindowStart: w.StartMS, WindowEnd: w.EndMS,
			Zone: int64(zone), Latitude: toMetre(lat), Longitude: toMetre(lon),
			Vehicles: sixDigits(d.Fitted[zone]), Low: d.Low[zone], High: d.High[zone],
			Share:         sixDigits(d.Fitted[zone] / float64(d.Vehicles)),
			Posterior:     sixDigits(d.Posterior[zone]),
			PosteriorLow:  d.PosteriorLow[zone],
			PosteriorHigh: d.PosteriorHigh[zone],
			Naive:         d.Naive[zone],
			Model:         sixDigits(d.Blind[zone]),
			Name:          zones.Name(int32(zone)),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// middle returns the middle of a zone.
func middleOfZone(zones *aggregate.Zones, zone int32) (lat, lon float64) {
	return zones.Grid().ToDegrees(zones.Middle(zone))
}

func (o *aggregateWriter) zone(r zoneRow) error {
	switch o.format {
	case "csv":
		return o.rows.Write(r.fields())
	case "geojson":
		return o.features.Add(o.polygon(int32(r.Zone)), json.RawMessage(r.object()))
	case "parquet":
		r.Outline = o.table.Polygons(o.polygons(int32(r.Zone)))
		return o.table.Write(r)
	}
	_, err := o.density.Write(append(r.object(), '\n'))
	return err
}

type zonePolygon struct {
	Type        string `json:"type"`
	Coordinates any    `json:"coordinates"` // longitude first, see RFC 7946
}

func (o *aggregateWriter) polygon(zone int32) zonePolygon {
	all := o.polygons(zone)
	if len(all) == 1 {
		return zonePolygon{"Polygon", all[0]}
	}
	return zonePolygon{"MultiPolygon", all}
}

// polygons returns the polygons of a zone. The rest of the map around zones with names has the
// outline of the map.
func (o *aggregateWriter) polygons(zone int32) [][][][2]float64 {
	g := o.zones.Grid()
	switch {
	case !o.zones.Named():
		return [][][][2]float64{{o.ring(o.zones.Corners(zone))}}
	case int(zone) < len(o.options.Areas):
		return o.options.Areas[zone].Polygons
	}
	return [][][][2]float64{{o.ring(grid.Point{}, grid.Point{
		X: float64(g.Width()) * g.CellKM(), Y: float64(g.Height()) * g.CellKM(),
	})}}
}

// ring returns the corners of a rectangle, counter-clockwise, and the first one again.
func (o *aggregateWriter) ring(low, high grid.Point) (ring [][2]float64) {
	for _, p := range []grid.Point{low, {X: high.X, Y: low.Y}, high, {X: low.X, Y: high.Y}, low} {
		lat, lon := o.zones.Grid().ToDegrees(p)
		ring = append(ring, [2]float64{toMetre(lon), toMetre(lat)})
	}
	return ring
}

// close completes what is written.
func (o *aggregateWriter) close() error {
	o.rows.Flush()
	err := o.rows.Error()
	switch o.format {
	case "geojson":
		err = errors.Join(err, o.features.Close())
	case "parquet":
		err = errors.Join(err, o.table.Close())
	}
	if err != nil {
		return errors.Join(err, o.density.Discard())
	}
	return o.density.Close()
}

func inUTC(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// rounded keeps six digits: the estimates know fewer.
func sixDigits(x float64) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	return v
}

// toMetre keeps seven decimals of a degree: a centimetre.
func toMetre(x float64) float64 {
	v, _ := strconv.ParseFloat(files.Degrees(x), 64)
	return v
}
