package files

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/schemas"
)

// Parquet writes rows of a type as one Parquet file with a column of shapes: GeoParquet 1.1
// (geoparquet.org). The type is a struct with tags of parquet-go and a field
//
//	Geometry []byte `parquet:"geometry"`
//
// that [Parquet.Point] or [Parquet.Polygons] makes. It writes from the beginning to the end, so a
// pipe can take it, and keeps the rows of one row group in memory: some 10 MB. The file can be read
// once Close has written its footer.
type Parquet[T any] struct {
	rows  *parquet.GenericWriter[T]
	types []string // of the shapes so far, each once
	box   *[4]float64
}

// rowGroup is how many rows are written together. Readers skip whole row groups by the least and
// the greatest value of their columns.
const rowGroup = 50_000

// NewParquet returns a writer of rows. It writes nothing yet.
func NewParquet[T any](out io.Writer) *Parquet[T] {
	build := cli.ThisBuild()
	// Readers parse the version, and brackets are not of its grammar: (devel) would be "unknown".
	version := strings.Trim(build.Version, "()")
	return &Parquet[T]{
		rows: parquet.NewGenericWriter[T](out, parquet.Compression(&parquet.Snappy),
			parquet.MaxRowsPerRowGroup(rowGroup),
			parquet.CreatedBy("geodither", version, build.Revision)),
		types: []string{},
	}
}

// Write writes one row.
func (p *Parquet[T]) Write(row T) error {
	_, err := p.rows.Write([]T{row})
	return err
}

// Close writes what completes the file.
func (p *Parquet[T]) Close() error {
	metadata, err := json.Marshal(geoMetadata{
		Version: "1.1.0", PrimaryColumn: "geometry",
		Columns: map[string]geoColumn{"geometry": {
			Encoding: "WKB", GeometryTypes: p.types, Box: p.box,
		}},
	})
	if err != nil {
		return err
	}
	p.rows.SetKeyValueMetadata("geo", string(metadata))
	return p.rows.Close()
}

// geoMetadata is the file's metadata "geo". Without a crs the coordinates are OGC:CRS84: longitude
// and latitude on WGS 84, in degrees.
type geoMetadata struct {
	Version       string               `json:"version"`
	PrimaryColumn string               `json:"primary_column"`
	Columns       map[string]geoColumn `json:"columns"`
}

type geoColumn struct {
	Encoding      string   `json:"encoding"`
	GeometryTypes []string `json:"geometry_types"`
	// Box is west, south, east, north of all shapes; nil: there are none.
	Box *[4]float64 `json:"bbox,omitempty"`
}

// Types of shapes in WKB, the well-known binary of OGC 06-103r4 (8.2).
const (
	wkbLittleEndian = 1
	wkbPoint        = 1
	wkbPolygon      = 3
	wkbMultiPolygon = 6
)

// Point returns a point in well-known binary, longitude first.
func (p *Parquet[T]) Point(longitude, latitude float64) []byte {
	p.has("Point")
	return p.corner(head(wkbPoint), longitude, latitude)
}

// Polygons returns a polygon, or several as one shape. Each has rings that end where they begin:
// its outline, and those of its holes.
func (p *Parquet[T]) Polygons(polygons [][][][2]float64) (shape []byte) {
	if len(polygons) == 1 {
		p.has("Polygon")
	} else {
		p.has("MultiPolygon")
		shape = count(head(wkbMultiPolygon), len(polygons))
	}
	for _, rings := range polygons {
		shape = count(append(shape, head(wkbPolygon)...), len(rings))
		for _, ring := range rings {
			shape = count(shape, len(ring))
			for _, corner := range ring {
				shape = p.corner(shape, corner[0], corner[1])
			}
		}
	}
	return shape
}

// has notes that the file has shapes of a type.
func (p *Parquet[T]) has(kind string) {
	if !slices.Contains(p.types, kind) {
		p.types = append(p.types, kind)
	}
}

func count(shape []byte, n int) []byte { return binary.LittleEndian.AppendUint32(shape, uint32(n)) }

func head(kind uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{wkbLittleEndian}, kind)
}

// corner appends a place, and makes the file's box hold it.
func (p *Parquet[T]) corner(shape []byte, longitude, latitude float64) []byte {
	if p.box == nil {
		p.box = &[4]float64{longitude, latitude, longitude, latitude}
	}
	p.box[0], p.box[1] = min(p.box[0], longitude), min(p.box[1], latitude)
	p.box[2], p.box[3] = max(p.box[2], longitude), max(p.box[3], latitude)
	shape = binary.LittleEndian.AppendUint64(shape, math.Float64bits(longitude))
	return binary.LittleEndian.AppendUint64(shape, math.Float64bits(latitude))
}

// parquetRow is a sanitized record as a row: the columns of CSV by name and order, with null where
// CSV has nothing, and behind them the estimate as a point.
type parquetRow struct {
	UserID           string   `parquet:"user_id,dict"`
	Timestamp        int64    `parquet:"timestamp,timestamp(millisecond:utc)"`
	Latitude         float64  `parquet:"latitude"`
	Longitude        float64  `parquet:"longitude"`
	RadiusM          float64  `parquet:"radius_m"`
	SigmaMajorM      *float64 `parquet:"sigma_major_m,optional"`
	SigmaMinorM      *float64 `parquet:"sigma_minor_m,optional"`
	AzimuthDeg       *float64 `parquet:"azimuth_deg,optional"`
	Kind             string   `parquet:"kind,dict"`
	Epsilon          float64  `parquet:"epsilon"`
	Delta            float64  `parquet:"delta"`
	Mechanism        string   `parquet:"mechanism,dict"`
	ModelID          string   `parquet:"model_id,dict"`
	Step             int64    `parquet:"step"`
	Release          int64    `parquet:"release"`
	ReleaseLatitude  *float64 `parquet:"release_latitude,optional"`
	ReleaseLongitude *float64 `parquet:"release_longitude,optional"`
	Geometry         []byte   `parquet:"geometry"`
}

type parquetWriter struct{ *Parquet[parquetRow] }

// Write implements [Writer].
func (w parquetWriter) Write(r schemas.Sanitized) error {
	return w.Parquet.Write(parquetRow{
		UserID: r.UserID, Timestamp: r.Timestamp, Latitude: r.Latitude, Longitude: r.Longitude,
		RadiusM: r.RadiusM, SigmaMajorM: orNull(r.SigmaMajorM), SigmaMinorM: orNull(r.SigmaMinorM),
		AzimuthDeg: orNull(r.AzimuthDeg), Kind: r.Kind, Epsilon: r.Epsilon, Delta: r.Delta,
		Mechanism: r.Mechanism, ModelID: r.ModelID, Step: r.Step, Release: r.Release,
		ReleaseLatitude: orNull(r.ReleaseLatitude), ReleaseLongitude: orNull(r.ReleaseLongitude),
		Geometry: w.Point(r.Longitude, r.Latitude),
	})
}

func orNull(n schemas.Nullable) *float64 {
	if !n.Known {
		return nil
	}
	return &n.Number
}
