package engine

import (
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/schemas"
)

// SetPast sets what a record says to what the records up to a later one tell, with the note
// "smoothed"; nil: it keeps what it says, with the note "unsmoothed".
func SetPast(record *schemas.Sanitized, past *follow.Past) {
	note := schemas.Unsmoothed
	if past != nil {
		note = schemas.Smoothed
		record.Latitude, record.Longitude = past.Grid.ToDegrees(past.Estimate)
		record.RadiusM = float64(past.RadiusKM * 1000)
		setEllipse(record, past.Ellipse)
	}
	record.Mechanism = schemas.Noted(record.Mechanism, note)
}

// Published is a record as mechanism/follow takes it. where is its place, for errors.
func Published(r schemas.Sanitized, where string) follow.Published {
	var kind mechanism.Kind
	switch r.Kind {
	case schemas.KindReleased:
		kind = mechanism.Released
	case schemas.KindRepeated:
		kind = mechanism.Repeated
	case schemas.KindPredicted:
		kind = mechanism.Predicted
	}
	return follow.Published{
		Record: follow.Record{
			User: r.UserID, Model: r.ModelID, Step: r.Step, Kind: kind, Number: r.Release,
			Where: where,
		},
		Mechanism: schemas.MechanismName(r.Mechanism),
		Latitude:  r.Latitude, Longitude: r.Longitude,
		HasRelease:       r.ReleaseLatitude.Known,
		ReleaseLatitude:  r.ReleaseLatitude.Number,
		ReleaseLongitude: r.ReleaseLongitude.Number,
		Epsilon:          r.Epsilon, Delta: r.Delta,
	}
}
