package countfiles

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/schemas"
)

var header = []string{
	"window_start", "window_end", "day", "zone", "latitude", "longitude", "vehicles", "low", "high",
	"estimate", "epsilon", "per_day", "edition",
}

var typicalHeader = slices.Concat([]string{
	"from", "to", "days", "day_count", "slot", "slot_end", "windows",
}, header[3:])

// encoder returns what writes a zone of a publication as a line of CSV or JSON.
func (o *options) encoder(format string, out io.Writer, p *counts.Publisher) (
	encode func(counts.Published, int32) error, err error,
) {
	record := func(published counts.Published, zone int32) schemas.Counts {
		return counting.Record(p, o.zones, o.settings, published, zone)
	}
	if format != "csv" && o.typical == nil {
		lines, err := schemas.NewCodec(schemas.JSONText)
		return func(published counts.Published, zone int32) error {
			line, err := lines.AppendCounts(nil, record(published, zone))
			if err == nil {
				_, err = out.Write(append(line, '\n'))
			}
			return err
		}, err
	}
	columns, row := header, dayRow
	if o.typical != nil {
		columns, row = typicalHeader, o.typicalRow
	}
	if format != "csv" {
		return func(published counts.Published, zone int32) error {
			_, err := out.Write(object(columns, row(published, record(published, zone))))
			return err
		}, nil
	}
	rows := csv.NewWriter(out)
	write := func(fields []string) error {
		err := rows.Write(fields)
		rows.Flush()
		return err
	}
	return func(published counts.Published, zone int32) error {
		return write(row(published, record(published, zone)))
	}, write(columns)
}

func dayRow(_ counts.Published, r schemas.Counts) []string {
	latitude, longitude := "", ""
	if r.Latitude.Known {
		latitude, longitude = files.Degrees(r.Latitude.Number), files.Degrees(r.Longitude.Number)
	}
	return []string{
		files.Time(r.WindowStart), files.Time(r.WindowEnd), r.Day, r.Zone, latitude, longitude,
		strconv.FormatInt(r.Vehicles, 10), strconv.FormatInt(r.Low, 10),
		strconv.FormatInt(r.High, 10), files.Number(r.Estimate), files.Number(r.Epsilon),
		strconv.Itoa(int(r.PerDay)), strconv.FormatInt(r.Edition, 10),
	}
}

// typicalRow has averages in the place of sums, in hundredths: the interval is rounded outwards.
func (o *options) typicalRow(published counts.Published, c schemas.Counts) []string {
	windows := float64(published.Windows)
	hundredths := func(round func(float64) float64, sum int64) string {
		return files.Number(round(100*float64(sum)/windows)/100 + 0) // -0 is 0
	}
	row := dayRow(published, c)
	row[6] = hundredths(math.Round, c.Vehicles)
	row[7], row[8] = hundredths(math.Floor, c.Low), hundredths(math.Ceil, c.High)
	return slices.Concat([]string{
		o.first.String(), o.end.String(), o.weekdays.String(), strconv.Itoa(len(o.days)),
		clock(published.StartMS), clock(published.EndMS), strconv.Itoa(published.Windows),
	}, row[3:])
}

// clock prints a time of the day as 08:00.
func clock(ms int64) string {
	minutes := ms / 60_000
	return string([]byte{
		byte('0' + minutes/600), byte('0' + minutes/60%10), ':', byte('0' + minutes%60/10),
		byte('0' + minutes%10),
	})
}

// object returns a line of JSON of a row: no text is null, and only numbers are not quoted.
func object(names, row []string) []byte {
	texts := []string{"from", "to", "days", "slot", "slot_end", "zone"}
	var b bytes.Buffer
	for i, name := range names {
		value := row[i]
		if slices.Contains(texts, name) {
			quoted, _ := json.Marshal(value) // a string has JSON
			value = string(quoted)
		} else if value == "" {
			value = "null"
		}
		b.WriteString(strings.Repeat(",", min(i, 1)) + strconv.Quote(name) + ":" + value)
	}
	return append(append([]byte{'{'}, b.Bytes()...), '}', '\n')
}
