package schemas_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/geodither/geodither/schemas"
)

func ExampleCodec() {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		panic(err)
	}
	data, err := codec.AppendRaw(nil, schemas.Raw{
		UserID: "bus-31", Timestamp: 1700000000000, Latitude: 53.4, Longitude: -2.98,
	})
	if err != nil {
		panic(err)
	}
	fix, err := codec.DecodeRaw(data)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d bytes, fix of %s: %v\n", len(data), fix.UserID, fix)
	// Output: 40 bytes, fix of bus-31: [redacted]
}

func ExampleCodec_AppendSanitized() {
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		panic(err)
	}
	line, err := codec.AppendSanitized(nil, schemas.Sanitized{
		UserID: "bus-31", Timestamp: 1700000000000, Latitude: 53.41, Longitude: -2.981,
		RadiusM: 1250, SigmaMajorM: schemas.Some(600), SigmaMinorM: schemas.Some(110),
		AzimuthDeg: schemas.Some(37.5), Kind: schemas.KindReleased, Epsilon: 1, Delta: 0.01,
		Mechanism: "lattice", ModelID: "0123456789abcdef", Step: 28333333, Release: 17,
		ReleaseLatitude: schemas.Some(53.51), ReleaseLongitude: schemas.Some(-2.7),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(string(line), ",", ",\n"))
	// Output:
	// {"user_id":"bus-31",
	// "timestamp":1700000000000,
	// "latitude":53.41,
	// "longitude":-2.981,
	// "radius_m":1250.0,
	// "sigma_major_m":600.0,
	// "sigma_minor_m":110.0,
	// "azimuth_deg":37.5,
	// "kind":"released",
	// "epsilon":1.0,
	// "delta":0.01,
	// "mechanism":"lattice",
	// "model_id":"0123456789abcdef",
	// "step":28333333,
	// "release":17,
	// "release_latitude":53.51,
	// "release_longitude":-2.7}
}

func ExampleRejection() {
	codec, err := schemas.NewCodec(schemas.JSON)
	if err != nil {
		panic(err)
	}
	const fix = `{"user_id":"bus-31","timestamp":1,"latitude":"53.4","longitude":-2.98}`
	_, err = codec.DecodeRaw([]byte(fix))
	var refused *schemas.Rejection
	if errors.As(err, &refused) {
		fmt.Println("dead letter:", refused.Reason)
	}
	// Output: dead letter: wrong_type: latitude
}
