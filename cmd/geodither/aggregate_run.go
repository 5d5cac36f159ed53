package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/schemas"
)

// aggregateOptions say what to add up and where to write it.
type aggregateOptions struct {
	follow.SumOptions
	zones  aggregateZones
	window time.Duration
	out    string
}

// openWindows is how many windows of a topic are open at a time: a user's partition may be behind
// another's by a window, and memory must not grow with the topic. Files are small enough for all.
const openWindows = 2

// fewVehicles is how many vehicles make a sum one of a fleet.
const fewVehicles = 100

// run reads the input, writes the sums and then a summary to std.Err. A file appears when it is
// complete, and only its owner may read it where a window has few vehicles.
func runAggregate(
	ctx context.Context, in *gather.Input, o aggregateOptions, std cli.Streams,
) error {
	out, err := newAggregateWriter(o.out, o.zones, std.Out)
	if err != nil {
		return err
	}
	sums, err := follow.NewSums(o.SumOptions, out.window)
	if err != nil {
		return errors.Join(cli.Usage(err), out.density.Discard())
	}
	bar := cli.NewProgress(std.Err, in.Progress)
	err = in.Each(ctx, bar, func(record schemas.Sanitized, where string) error {
		return sums.Add(engine.Published(record, where))
	})
	if err == nil {
		err = sums.Finish()
	}
	sums.Close()
	bar.Done()
	summary := sums.Summary()
	if err == nil && summary.Smallest < fewVehicles {
		err = out.density.Restrict()
	}
	if err != nil {
		return errors.Join(gather.Explain(err, summary.Counts), out.density.Discard())
	}
	if err := out.close(); err != nil {
		return err
	}
	files.Wrote(std.Err, o.out, cli.Quantity(int64(summary.Windows), "window"))
	_, err = io.WriteString(std.Err, o.words(summary, in))
	return err
}

// words say what was found, and how far to trust it.
func (o *aggregateOptions) words(s follow.Summary, in *gather.Input) string {
	l := new(cli.Summary)
	fmt.Fprintf(l, "%s of %s; windows of %v, %s\n", cli.Quantity(in.Records, "record"),
		cli.Quantity(int64(s.Users), "user"), o.window,
		cli.Quantity(int64(o.zones.Count()), "zone"))
	if in.Seeded > 0 {
		l.Line("seeded", "%s", files.SeededWords(in.Seeded))
	}
	if o.zones.without > 0 {
		l.Line("WARNING", "%s of --zone without the middle of a cell: nothing is added up there",
			cli.Quantity(int64(o.zones.without), "polygon"))
	}
	switch {
	case s.Wanted == 0:
	case s.Followed == s.Wanted:
		l.Line("followed", "all: every record's estimate follows from the model, the settings and "+
			"the releases")
	default:
		l.Line("followed", "%.1f %% of the records: before the others a record is missing, or "+
			"came under other settings. Their users are left out until a gap of more than %s",
			100*float64(s.Followed)/float64(s.Wanted), cli.Quantity(int64(s.MaxGap), "step"))
	}
	if split := gather.Split(s.Counts); split != "" {
		l.Line("beware", "%s", split)
	}
	if n := s.Before + s.After; n > 0 {
		l.Line("outside", "%s of windows outside --from and --to", cli.Quantity(n, "record"))
	}
	if s.Late > 0 {
		l.Line("late", "%d records came when their window was closed, and have no part in it: of "+
			"a topic, %d windows are open at a time", s.Late, openWindows)
	}
	if s.Windows == 0 {
		fmt.Fprintln(l, "no window has a vehicle that could be followed: nothing is added up")
		return l.String()
	}
	l.Line("windows", "%d with %g vehicles on average, the smallest with %d", s.Windows,
		math.Round(10*float64(s.Vehicles)/float64(s.Windows))/10, s.Smallest)
	inUTC := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	l.Line("partial", "the records are from %s to %s: a window that starts earlier or ends later "+
		"may have only a part of its reports", inUTC(in.FirstMS), inUTC(in.LastMS))
	if s.Smallest < fewVehicles {
		l.Line("beware", "windows of fewer than %d vehicles are about few people, and what a zone "+
			"has there is mostly the model's", fewVehicles)
	}
	return l.String()
}

// zoneRow is what is written of one zone in one window.
type zoneRow struct {
	WindowStart int64    `parquet:"window_start,timestamp(millisecond:utc)"`
	WindowEnd   int64    `parquet:"window_end,timestamp(millisecond:utc)"`
	Zone        string   `parquet:"zone"`              // a name, or a square's number
	Latitude    *float64 `parquet:"latitude,optional"` // of its middle; elsewhere has none
	Longitude   *float64 `parquet:"longitude,optional"`
	Posterior   float64  `parquet:"posterior"`
	Outline     []byte   `parquet:"geometry,optional"` // of Parquet alone
}

var zoneHeader = []string{
	"window_start", "window_end", "zone", "latitude", "longitude", "posterior",
}

func (r zoneRow) fields() []string {
	start, end := files.Time(r.WindowStart), files.Time(r.WindowEnd)
	text := []string{start, end, r.Zone, "", "", files.Number(r.Posterior)}
	if r.Latitude != nil {
		text[3], text[4] = files.Degrees(*r.Latitude), files.Degrees(*r.Longitude)
	}
	return text
}

// object is the row as a JSON object of the columns of CSV, with null for what is missing.
func (r zoneRow) object() []byte {
	b := []byte{'{'}
	for i, text := range r.fields() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, zoneHeader[i]), ':')
		switch {
		case text == "":
			text = "null"
		case i < 3:
			quoted, _ := json.Marshal(text) // a text always can be one
			text = string(quoted)
		}
		b = append(b, text...)
	}
	return append(b, '}')
}

// aggregateWriter writes the sums of windows. A file appears when it is complete.
type aggregateWriter struct {
	format  string // as for [files.NewWriter]
	zones   aggregateZones
	density *files.File

	rows     *csv.Writer
	features *files.Collection
	table    *files.Parquet[zoneRow]
}

func newAggregateWriter(
	path string, zones aggregateZones, stdout io.Writer,
) (*aggregateWriter, error) {
	o := &aggregateWriter{zones: zones}
	var err error
	if o.format, err = files.FormatOf(path); err != nil {
		return nil, err
	}
	if o.density, err = files.CreateOrStdout(path, stdout); err != nil {
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
func (o *aggregateWriter) window(w *follow.Window) error {
	for i, sum := range w.Posterior {
		zone := int32(i)
		r := zoneRow{
			WindowStart: w.StartMS, WindowEnd: w.EndMS, Zone: o.zones.Name(zone),
			Posterior: math.Round(1e6*sum) / 1e6,
		}
		if lat, lon, ok := o.zones.Middle(zone); ok {
			lat, lon = toCentimetre(lat), toCentimetre(lon)
			r.Latitude, r.Longitude = &lat, &lon
		}
		if err := o.write(r, zone); err != nil {
			return err
		}
	}
	return nil
}

func (o *aggregateWriter) write(r zoneRow, zone int32) error {
	switch o.format {
	case "csv":
		return o.rows.Write(r.fields())
	case "geojson":
		return o.features.Add(o.outline(zone), json.RawMessage(r.object()))
	case "parquet":
		if polygons := o.zones.polygons(zone); polygons != nil {
			r.Outline = o.table.Polygons(polygons)
		}
		return o.table.Write(r)
	}
	_, err := o.density.Write(append(r.object(), '\n'))
	return err
}

type zoneOutline struct {
	Type        string `json:"type"`
	Coordinates any    `json:"coordinates"` // longitude first, see RFC 7946
}

// outline returns the geometry of a zone, nil for elsewhere.
func (o *aggregateWriter) outline(zone int32) *zoneOutline {
	switch all := o.zones.polygons(zone); len(all) {
	case 0:
		return nil
	case 1:
		return &zoneOutline{"Polygon", all[0]}
	default:
		return &zoneOutline{"MultiPolygon", all}
	}
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
