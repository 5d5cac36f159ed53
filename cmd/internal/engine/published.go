package engine

import (
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/schemas"
)

// SetPast sets what a record says to what the records up to a later one tell, with the note
// "smoothed"; nil: it keeps what it says, with the note "unsmoothed".
func SetPast(record *schemas.Sanitized, past *aggregate.Past) {
	note := schemas.Unsmoothed
	if past != nil {
		note = schemas.Smoothed
		record.Latitude, record.Longitude = past.Grid.ToDegrees(past.Estimate)
		record.RadiusM = float64(past.RadiusKM * 1000)
		setEllipse(record, past.Ellipse)
	}
	record.Mechanism = schemas.Noted(record.Mechanism, note)
}

// Published is a record as mechanism/aggregate takes it. where is its place, for errors.
func Published(r schemas.Sanitized, where string) aggregate.Published {
	var kind mechanism.Kind
	switch r.Kind {
	case schemas.KindReleased:
		kind = mechanism.Released
	case schemas.KindRepeated:
		kind = mechanism.Repeated
	case schemas.KindPredicted:
		kind = mechanism.Predicted
	}
	return aggregate.Published{
		Record: aggregate.Record{
			User: r.UserID, Model: r.ModelID, Step: r.Step, Kind: kind, Number: r.Release,
			Place: aggregate.Place{Where: where},
		},
		Mechanism: schemas.MechanismName(r.Mechanism),
		Latitude:  r.Latitude, Longitude: r.Longitude,
		HasRelease:       r.ReleaseLatitude.Known,
		ReleaseLatitude:  r.ReleaseLatitude.Number,
		ReleaseLongitude: r.ReleaseLongitude.Number,
		Epsilon:          r.Epsilon, Delta: r.Delta,
	}
}
