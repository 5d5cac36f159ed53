package mapping

import "github.com/geodither/geodither/schemas"

// source is what a preset has: options, and what no option can say.
type source struct {
	options Options
	// unwraps and eaches are tried in turn in place of Options.Unwrap and Options.Each: the first
	// one that leads to something counts.
	unwraps, eaches []string
	protobuf        func(value []byte) (any, error) // nil: the source writes none
	prepare         func(tree any) any              // of JSON; nil: nothing to do
	hint            string                          // in the error of a setting that is missing
	sameAsKey       string                          // path to the key's id, for files; may be empty
	arrays          []string                        // see Mapping.Arrays
}

func yes() *bool { is := true; return &is }

// itself leads to the message as it is, after unwrap.
const itself = ""

// presets are the sources by their names.
var presets = map[Preset]source{
	// A record has what has changed since the last one, so most have no Location. A vehicle says
	// invalid in place of a value that it does not have. A resend comes behind newer records.
	Tesla: {
		options: Options{
			Where: []Rule{
				{Path: "data[key=Location].value", Exists: yes()},
				{Path: "data[key=Location].value.invalid", NotEquals: true},
				{Path: "isResend", NotEquals: true},
			},
			User:      User{From: FromKey},
			Latitude:  "data[key=Location].value.locationValue.latitude",
			Longitude: "data[key=Location].value.locationValue.longitude",
			Timestamp: Time{Path: "createdAt", Unit: schemas.RFC3339},
		},
		protobuf: teslaPayload, prepare: locationsOfText, sameAsKey: "vin",
	},
	// A position without a fix repeats the last place, or has the time 1980-01-06.
	Traccar: {options: Options{
		Format: JSON,
		Where: []Rule{
			{Path: "position.valid", Equals: true},
			{Path: "position.outdated", NotEquals: true},
		},
		User: User{From: FromKey}, Latitude: "position.latitude", Longitude: "position.longitude",
		Timestamp: Time{Path: "position.fixTime", Unit: schemas.RFC3339},
	}, sameAsKey: "device.id"},
	// The payload does not say whose it is: bridges write the MQTT topic as the key.
	OwnTracks: {options: Options{
		Format: JSON, Where: []Rule{{Path: "_type", Equals: "location"}},
		User: User{From: FromKey}, Latitude: "lat", Longitude: "lon",
		Timestamp: Time{Path: "tst", Unit: schemas.Seconds},
	}},
	// One telemetry object, or an array of them, alone or under "telemetry".
	MDS: {options: Options{
		Format: JSON, User: User{Path: "device_id"}, Latitude: "location.lat",
		Longitude: "location.lng", Timestamp: Time{Path: "timestamp", Unit: schemas.Milliseconds},
	}, eaches: []string{"telemetry", itself}},
	Samsara: {options: Options{
		Format: JSON, Where: []Rule{{Path: "location", Exists: yes()}},
		User: User{Path: "asset.id"}, Latitude: "location.latitude",
		Longitude: "location.longitude",
		Timestamp: Time{Path: "happenedAtTime", Unit: schemas.RFC3339},
	}},
	Geotab: {options: Options{
		Format: JSON, User: User{Path: "device.id"}, Latitude: "latitude", Longitude: "longitude",
		Timestamp: Time{Path: "dateTime", Unit: schemas.RFC3339},
	}},
	// A FeedMessage with the positions of one vehicle, or one FeedEntity. Its whole numbers of 64
	// bits are texts in JSON.
	GTFSRealtime: {options: Options{
		Where: []Rule{
			{Path: "vehicle.position", Exists: yes()}, {Path: "isDeleted", NotEquals: true},
		},
		User: User{Path: "vehicle.vehicle.id"}, Latitude: "vehicle.position.latitude",
		Longitude: "vehicle.position.longitude",
		Timestamp: Time{Path: "vehicle.timestamp", Unit: schemas.Seconds},
	}, eaches: []string{"entity", itself}, protobuf: gtfsFeed},
	// The SDK of Transistor Software, and the Traccar Client: one location or a batch of them.
	BackgroundGeolocation: {options: Options{
		Format: JSON, Each: "location", User: User{Path: "$.device_id"},
		Latitude: "coords.latitude", Longitude: "coords.longitude",
		Timestamp: Time{Path: "timestamp", Unit: schemas.RFC3339},
	}},
	// An element of a document that a phone exports, of one person. See timelineFixes.
	GoogleTimeline: {
		options: Options{
			Format: JSON, Each: "fixes", User: User{From: FromKey}, Latitude: "latitude",
			Longitude: "longitude", Timestamp: Time{Path: "time", Unit: schemas.Milliseconds},
		},
		prepare: timelineFixes, arrays: timelineArrays,
	},
	// A row of a table of fixes, whose columns the config names. A row that is deleted has none.
	Debezium: {
		options: Options{Key: KeyJSON}, unwraps: []string{"payload.after", "after"},
		hint: "preset debezium knows the envelope and not your columns: name them",
	},
}

// Presets lists the names.
func Presets() []Preset {
	return []Preset{
		Tesla, Traccar, OwnTracks, MDS, Samsara, Geotab, GTFSRealtime, BackgroundGeolocation,
		GoogleTimeline, Debezium,
	}
}

// plain is where the options name no preset: the fields of raw.avsc.
var plain = source{options: Options{
	User: User{Path: "user_id"}, Latitude: "latitude", Longitude: "longitude",
	Timestamp: Time{Path: "timestamp", Unit: ofRaw},
}}
