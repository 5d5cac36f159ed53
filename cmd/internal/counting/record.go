package counting

import (
	"math"

	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/schemas"
)

// Record returns the record of one zone of a window that p has published under these settings.
func Record(
	p *counts.Publisher, zones *counts.Zones, s counts.Settings, published counts.Published,
	zone int32,
) schemas.Counts {
	vehicles := published.Vehicles[zone]
	r := schemas.Counts{
		WindowStart: published.StartMS, WindowEnd: published.EndMS, Day: published.Day.String(),
		Zone: zones.Name(zone), Vehicles: vehicles,
		Estimate: toHundredth(published.Estimates[zone]),
		Epsilon:  s.Epsilon, PerDay: int32(s.PerDay), Edition: int64(s.Edition),
	}
	r.Low, r.High = p.Interval(vehicles)
	if lat, lon, ok := zones.Middle(zone); ok {
		r.Latitude, r.Longitude = schemas.Some(toCentimetre(lat)), schemas.Some(toCentimetre(lon))
	}
	return r
}

// toHundredth keeps digits out of records that say nothing.
func toHundredth(vehicles float64) float64 { return math.Round(vehicles*100) / 100 }

// toCentimetre rounds degrees to seven decimals, a centimetre: a zone has its middle in all records
// and formats by the same digits.
func toCentimetre(degrees float64) float64 { return math.Round(degrees*1e7) / 1e7 }
