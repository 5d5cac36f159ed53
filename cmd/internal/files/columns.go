package files

import (
	"math"
	"strconv"

	"github.com/geodither/geodither/schemas"
)

// column is one column of a CSV file of sanitized records.
type column struct {
	name     string
	optional bool // the column may be missing, and its cells empty
	write    func(r *schemas.Sanitized) string
	// read takes a cell's text into a record. It returns false for a text that it cannot read.
	read func(r *schemas.Sanitized, text string) bool
}

// columns are the fields of the schema in its order.
var columns = []column{
	{
		"user_id", false, func(r *schemas.Sanitized) string { return r.UserID },
		func(r *schemas.Sanitized, text string) bool {
			r.UserID = text
			return text != ""
		},
	},
	{
		"timestamp", false, func(r *schemas.Sanitized) string { return Time(r.Timestamp) },
		func(r *schemas.Sanitized, text string) (ok bool) {
			r.Timestamp, ok = schemas.ParseTime([]byte(text))
			return ok
		},
	},
	numbers("latitude", func(r *schemas.Sanitized) *float64 { return &r.Latitude }, Degrees),
	numbers("longitude", func(r *schemas.Sanitized) *float64 { return &r.Longitude }, Degrees),
	numbers("radius_m", func(r *schemas.Sanitized) *float64 { return &r.RadiusM }, tenths),
	nullables("sigma_major_m",
		func(r *schemas.Sanitized) *schemas.Nullable { return &r.SigmaMajorM }, tenths),
	nullables("sigma_minor_m",
		func(r *schemas.Sanitized) *schemas.Nullable { return &r.SigmaMinorM }, tenths),
	nullables("azimuth_deg",
		func(r *schemas.Sanitized) *schemas.Nullable { return &r.AzimuthDeg }, azimuth),
	texts("kind", func(r *schemas.Sanitized) *string { return &r.Kind }),
	numbers("epsilon", func(r *schemas.Sanitized) *float64 { return &r.Epsilon }, Number),
	numbers("delta", func(r *schemas.Sanitized) *float64 { return &r.Delta }, Number),
	texts("mechanism", func(r *schemas.Sanitized) *string { return &r.Mechanism }),
	texts("model_id", func(r *schemas.Sanitized) *string { return &r.ModelID }),
	integers("step", func(r *schemas.Sanitized) *int64 { return &r.Step }),
	integers("release", func(r *schemas.Sanitized) *int64 { return &r.Release }),
	nullables("release_latitude",
		func(r *schemas.Sanitized) *schemas.Nullable { return &r.ReleaseLatitude }, Degrees),
	nullables("release_longitude",
		func(r *schemas.Sanitized) *schemas.Nullable { return &r.ReleaseLongitude }, Degrees),
}

func texts(name string, field func(*schemas.Sanitized) *string) column {
	return column{
		name, false, func(r *schemas.Sanitized) string { return *field(r) },
		func(r *schemas.Sanitized, text string) bool {
			*field(r) = text
			return true
		},
	}
}

func integers(name string, field func(*schemas.Sanitized) *int64) column {
	return column{
		name, false, func(r *schemas.Sanitized) string { return strconv.FormatInt(*field(r), 10) },
		func(r *schemas.Sanitized, text string) bool {
			var err error
			*field(r), err = strconv.ParseInt(text, 10, 64)
			return err == nil
		},
	}
}

func numbers(
	name string, field func(*schemas.Sanitized) *float64, format func(float64) string,
) column {
	return column{
		name, false, func(r *schemas.Sanitized) string { return format(*field(r)) },
		func(r *schemas.Sanitized, text string) (ok bool) {
			*field(r), ok = number(text)
			return ok
		},
	}
}

// nullables have an empty cell for a number that the record lacks.
func nullables(
	name string, field func(*schemas.Sanitized) *schemas.Nullable, format func(float64) string,
) column {
	return column{name, true, func(r *schemas.Sanitized) string {
		if !field(r).Known {
			return ""
		}
		return format(field(r).Number)
	}, func(r *schemas.Sanitized, text string) bool {
		if text == "" {
			return true
		}
		x, ok := number(text)
		*field(r) = schemas.Some(x)
		return ok
	}}
}

func number(text string) (float64, bool) {
	x, err := strconv.ParseFloat(text, 64)
	return x, err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
}

// Time prints a time in milliseconds since 1970 as RFC 3339 in UTC, with three decimals of a
// second.
func Time(ms int64) string { return string(schemas.AppendTime(nil, ms)) }

// Degrees prints seven decimals of a degree, which is a centimetre.
func Degrees(x float64) string { return strconv.FormatFloat(x, 'f', 7, 64) }

// Number prints a number with as many digits as it takes to read the same number again, and always
// with a decimal point.
func Number(x float64) string { return string(schemas.AppendNumber(nil, x)) }

// tenths prints one decimal, of a metre or of a degree of direction.
func tenths(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// azimuth prints one decimal of a direction, which is below 180 degrees.
func azimuth(x float64) string {
	if x >= 179.95 {
		x = 0
	}
	return tenths(x)
}
