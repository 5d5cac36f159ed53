package aggregate

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/evaluation/chart"
	"github.com/geodither/geodither/mechanism/grid"
)

// zoneRow is what is written of one zone in one window.
type zoneRow struct {
	WindowStart   string  `json:"window_start"`
	WindowEnd     string  `json:"window_end"`
	Zone          int     `json:"zone"`
	Name          string  `json:"name,omitempty"` // of --zones
	Latitude      float64 `json:"latitude"`       // of its middle
	Longitude     float64 `json:"longitude"`
	Vehicles      float64 `json:"vehicles"`
	Low           float64 `json:"low"`
	High          float64 `json:"high"`
	Share         float64 `json:"share"` // of the fleet
	Posterior     float64 `json:"posterior"`
	PosteriorLow  float64 `json:"posterior_low"`
	PosteriorHigh float64 `json:"posterior_high"`
	Naive         float64 `json:"naive"`
	Model         float64 `json:"model"`

	startMS, endMS int64 // of the window, for parquetZone
}

// parquetZone is a zoneRow as a row of Parquet: the same columns, with times as such, and behind
// them the zone's outline.
type parquetZone struct {
	WindowStart   int64   `parquet:"window_start,timestamp(millisecond:utc)"`
	WindowEnd     int64   `parquet:"window_end,timestamp(millisecond:utc)"`
	Zone          int64   `parquet:"zone"`
	Name          string  `parquet:"name"`
	Latitude      float64 `parquet:"latitude"`
	Longitude     float64 `parquet:"longitude"`
	Vehicles      float64 `parquet:"vehicles"`
	Low           float64 `parquet:"low"`
	High          float64 `parquet:"high"`
	Share         float64 `parquet:"share"`
	Posterior     float64 `parquet:"posterior"`
	PosteriorLow  float64 `parquet:"posterior_low"`
	PosteriorHigh float64 `parquet:"posterior_high"`
	Naive         float64 `parquet:"naive"`
	Model         float64 `parquet:"model"`
	Geometry      []byte  `parquet:"geometry"`
}

func (r zoneRow) parquet(outline []byte) parquetZone {
	return parquetZone{
		WindowStart: r.startMS, WindowEnd: r.endMS, Zone: int64(r.Zone),
		Latitude: r.Latitude, Longitude: r.Longitude, Vehicles: r.Vehicles, Low: r.Low,
		High: r.High, Share: r.Share, Posterior: r.Posterior, PosteriorLow: r.PosteriorLow,
		PosteriorHigh: r.PosteriorHigh, Naive: r.Naive, Model: r.Model, Name: r.Name,
		Geometry: outline,
	}
}

var zoneHeader = []string{
	"window_start", "window_end", "zone", "name", "latitude", "longitude",
	"vehicles", "low", "high", "share",
	"posterior", "posterior_low", "posterior_high", "naive", "model",
}

func (r zoneRow) fields() []string {
	text := []string{
		r.WindowStart, r.WindowEnd,
		strconv.Itoa(r.Zone), r.Name, files.Degrees(r.Latitude), files.Degrees(r.Longitude),
	}
	for _, x := range []float64{
		r.Vehicles, r.Low, r.High, r.Share,
		r.Posterior, r.PosteriorLow, r.PosteriorHigh, r.Naive, r.Model,
	} {
		text = append(text, files.Number(x))
	}
	return text
}

var flowHeader = []string{
	"window_start", "from_zone", "from_latitude", "from_longitude",
	"to_zone", "to_latitude", "to_longitude", "vehicles", "low", "high",
}

// Output says where to write estimates and how.
type Output struct {
	Path string // "-" is standard output, as CSV; the extension of a file is its format
	// Least is the expected number of vehicles below which zones and flows are left out.
	Least float64
	Flows string // file; empty: none
	Map   string // file, .png or .svg; empty: none
	// Areas are the zones of --zones, to write their outlines; nil: none. OffMap others lie off the
	// map and are left out.
	Areas  []aggregate.Area
	OffMap int
}

// Validate reports what cannot be used.
func (o Output) Validate() error {
	if _, err := files.FormatOf(o.Path); err != nil {
		return err
	}
	if !(o.Least >= 0) {
		return cli.Usagef("--least is not a number of vehicles")
	}
	switch ending := strings.ToLower(filepath.Ext(o.Map)); {
	case o.Map == "":
		return nil
	case ending != ".png" && ending != ".svg":
		return cli.Usagef("--map %s: name a file that ends in .png or .svg", o.Map)
	}
	return files.CheckTarget(o.Map)
}

// output writes zones, flows and the map. Files appear when they are complete.
type output struct {
	options Output
	format  string           // of density, as for [files.NewWriter]
	zones   *aggregate.Zones // from the first window on
	density *files.File
	flows   *files.File // nil if there are none

	rows     *csv.Writer
	flowRows *csv.Writer
	features *files.Collection
	table    *files.Parquet[parquetZone]
}

func newOutput(options Output, stdout io.Writer) (*output, error) {
	o := &output{options: options}
	var err error
	if o.format, err = files.FormatOf(options.Path); err != nil {
		return nil, err
	}
	if o.density, err = files.CreateOrStdout(options.Path, stdout); err != nil {
		return nil, err
	}
	o.rows, o.features = csv.NewWriter(o.density), files.NewCollection(o.density)
	if o.format == "parquet" {
		o.table = files.NewParquet[parquetZone](o.density)
	}
	if options.Flows != "" {
		if o.flows, err = files.CreateOrStdout(options.Flows, stdout); err != nil {
			return nil, errors.Join(err, o.density.Discard())
		}
		o.flowRows = csv.NewWriter(o.flows)
		if err := o.flowRows.Write(flowHeader); err != nil {
			return nil, errors.Join(err, o.discard())
		}
	}
	if o.format == "csv" {
		err = o.rows.Write(zoneHeader)
	}
	if err != nil {
		return nil, errors.Join(err, o.discard())
	}
	return o, nil
}

// restrict leaves the files to their owner: the estimates are about a few people.
func (o *output) restrict() error {
	err := o.density.Restrict()
	if o.flows != nil {
		err = errors.Join(err, o.flows.Restrict())
	}
	return err
}

// window writes one window.
func (o *output) window(
	zones *aggregate.Zones, w *aggregate.Window, d aggregate.Density, level float64,
) error {
	o.zones = zones
	for zone := range d.Fitted {
		if d.Fitted[zone] < o.options.Least {
			continue
		}
		lat, lon := middle(zones, int32(zone))
		err := o.zone(zoneRow{
			WindowStart: utc(w.StartMS), WindowEnd: utc(w.EndMS),
			Zone: zone, Latitude: toMetre(lat), Longitude: toMetre(lon),
			Vehicles: rounded(d.Fitted[zone]), Low: d.Low[zone], High: d.High[zone],
			Share:         rounded(d.Fitted[zone] / float64(d.Vehicles)),
			Posterior:     rounded(d.Posterior[zone]),
			PosteriorLow:  d.PosteriorLow[zone],
			PosteriorHigh: d.PosteriorHigh[zone],
			Naive:         d.Naive[zone],
			Model:         rounded(d.Blind[zone]),
			Name:          zones.Name(int32(zone)),
			startMS:       w.StartMS, endMS: w.EndMS,
		})
		if err != nil {
			return err
		}
	}
	if o.flows == nil {
		return nil
	}
	const leastFlow = .01
	for _, f := range w.Flows(max(o.options.Least, leastFlow), level) {
		fromLat, fromLon := middle(zones, f.From)
		toLat, toLon := middle(zones, f.To)
		err := o.flowRows.Write([]string{
			utc(w.StartMS),
			strconv.Itoa(int(f.From)), files.Degrees(fromLat), files.Degrees(fromLon),
			strconv.Itoa(int(f.To)), files.Degrees(toLat), files.Degrees(toLon),
			files.Number(rounded(f.Vehicles)), files.Number(f.Low), files.Number(f.High),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// middle returns the middle of a zone.
func middle(zones *aggregate.Zones, zone int32) (lat, lon float64) {
	return zones.Grid().ToDegrees(zones.Middle(zone))
}

func (o *output) zone(r zoneRow) error {
	switch o.format {
	case "csv":
		return o.rows.Write(r.fields())
	case "geojson":
		return o.features.Add(o.polygon(int32(r.Zone)), r)
	case "parquet":
		return o.table.Write(r.parquet(o.table.Polygons(o.polygons(int32(r.Zone)))))
	}
	return json.NewEncoder(o.density).Encode(r)
}

type polygon struct {
	Type        string `json:"type"`
	Coordinates any    `json:"coordinates"` // longitude first, see RFC 7946
}

func (o *output) polygon(zone int32) polygon {
	all := o.polygons(zone)
	if len(all) == 1 {
		return polygon{"Polygon", all[0]}
	}
	return polygon{"MultiPolygon", all}
}

// polygons returns the polygons of a zone. The rest of the map around zones with names has the
// outline of the map.
func (o *output) polygons(zone int32) [][][][2]float64 {
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
func (o *output) ring(low, high grid.Point) (ring [][2]float64) {
	for _, p := range []grid.Point{low, {X: high.X, Y: low.Y}, high, {X: low.X, Y: high.Y}, low} {
		lat, lon := o.zones.Grid().ToDegrees(p)
		ring = append(ring, [2]float64{toMetre(lon), toMetre(lat)})
	}
	return ring
}

// close completes what is written and draws the map of the window with most vehicles.
func (o *output) close(s aggregate.Summary) error {
	o.rows.Flush()
	err := o.rows.Error()
	switch o.format {
	case "geojson":
		err = errors.Join(err, o.features.Close())
	case "parquet":
		err = errors.Join(err, o.table.Close())
	}
	if o.flows != nil {
		o.flowRows.Flush()
		err = errors.Join(err, o.flowRows.Error())
	}
	if err != nil {
		return errors.Join(err, o.discard())
	}
	err = o.density.Close()
	if o.flows != nil {
		err = errors.Join(err, o.flows.Close())
	}
	if err != nil || o.options.Map == "" || s.Most.Vehicles == 0 {
		return err
	}
	return o.draw(s)
}

// draw draws the fitted density and the model's with the same colours.
func (o *output) draw(s aggregate.Summary) error {
	fit := o.panel("as the releases tell", s.Most.Fitted)
	model := o.panel("the model alone", s.Most.Blind)
	top := 0.0
	for _, m := range []*chart.Map{fit, model} {
		for _, v := range m.Values {
			top = max(top, v)
		}
	}
	fit.Scale.Max, model.Scale.Max = top, top
	figure := &chart.Figure{
		Title: fmt.Sprintf("%d vehicles in the window from %s", s.Most.Vehicles, utc(s.MostMS)),
		Note: "Vehicles to be expected. What does not differ between the two, the releases do " +
			"not tell.",
		Panels: []chart.Panel{fit, model}, PanelWidth: 5, PanelHeight: 4,
	}
	return files.Unwritten(o.options.Map, figure.WriteFile(o.options.Map))
}

// panel is a map of an estimate.
func (o *output) panel(title string, vehicles []float64) *chart.Map {
	return &chart.Map{
		Title: title, Grid: o.zones.Grid(), Degrees: true, Values: o.zones.PerKM2(vehicles),
		Scale: chart.Axis{Label: "vehicles per km²", Zero: true},
	}
}

func (o *output) discard() error {
	err := o.density.Discard()
	if o.flows != nil {
		err = errors.Join(err, o.flows.Discard())
	}
	return err
}

func utc(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// rounded keeps six digits: the estimates know fewer.
func rounded(x float64) float64 {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	return v
}

// toMetre keeps seven decimals of a degree: a centimetre.
func toMetre(x float64) float64 {
	v, _ := strconv.ParseFloat(files.Degrees(x), 64)
	return v
}
