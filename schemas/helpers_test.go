package schemas

import (
	"math"
	"math/rand/v2"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// codecs returns a codec of each encoding.
func codecs() (list []*Codec) {
	for _, e := range []Encoding{Avro, AvroRegistry, JSON, JSONSchema, Auto} {
		list = append(list, must(NewCodec(e)))
	}
	return list
}

func exampleRaw() Raw {
	accuracy := 12.5
	return Raw{
		UserID: "bus-31", Timestamp: 1700000000123, Latitude: 53.40842, Longitude: -2.97919,
		AccuracyM: &accuracy,
	}
}

func exampleSanitized() Sanitized {
	return Sanitized{
		UserID: "bus-31", Timestamp: 1700000000123, Latitude: 53.4101, Longitude: -2.9811,
		RadiusM: 1250.5, SigmaMajorM: Some(600.25), SigmaMinorM: Some(110.75),
		AzimuthDeg: Some(37.5), Kind: KindReleased, Epsilon: 1, Delta: 0.01, Mechanism: "pim",
		ModelID: "0123456789abcdef", Step: 28333333, Release: 17,
		ReleaseLatitude: Some(53.51), ReleaseLongitude: Some(-2.7),
	}
}

func exampleDeadLetter() DeadLetter {
	return DeadLetter{
		Topic: "raw", Partition: 3, Offset: 1 << 40, Reason: ReasonNotFinite,
		Timestamp: -1,
	}
}

func exampleCounts() Counts {
	return Counts{
		WindowStart: 1700002800000, WindowEnd: 1700006400000, Day: "2023-11-14", Zone: "31",
		Latitude: Some(53.4084), Longitude: Some(-2.9792), Vehicles: -3, Low: 0, High: 15,
		Estimate: 1.25, Epsilon: 1, PerDay: 8, Edition: 2,
	}
}

// randomText returns up to n runes out of all of Unicode, JSON's and Go's
// special ones more often than their share; never a leading NUL.
func randomText(rng *rand.Rand, n int) string {
	special := []rune{
		0, '"', '\\', '/', '\n', 0x1f, 0x7f, '<', '&', 0x2028, 0xfffd, 0xffff,
		0x10000, 0x10ffff, 'é',
	}
	var text []rune
	for range rng.IntN(n + 1) {
		r := special[rng.IntN(len(special))]
		if rng.IntN(2) == 0 {
			r = rune(rng.IntN(0xd800))
		}
		text = append(text, r)
	}
	if len(text) > 0 && text[0] == 0 {
		text[0] = 'a'
	}
	return string(text)
}

// randomNumber returns a finite number of any magnitude, zeros of both signs
// and subnormals included.
func randomNumber(rng *rand.Rand) float64 {
	switch rng.IntN(6) {
	case 0:
		return math.Copysign(0, float64(rng.IntN(2))-0.5)
	case 1:
		return float64(rng.IntN(2000) - 1000)
	}
	for {
		if x := math.Float64frombits(rng.Uint64()); finite(x) {
			return x
		}
	}
}

// randomInteger returns integers of every length in bits.
func randomInteger(rng *rand.Rand) int64 { return int64(rng.Uint64()) >> rng.IntN(64) }

func randomUserID(rng *rand.Rand) string {
	for {
		if id := randomText(rng, 40); id != "" && len(id) <= MaxUserIDBytes {
			return id
		}
	}
}

func randomRaw(rng *rand.Rand) Raw {
	r := Raw{
		UserID: randomUserID(rng), Timestamp: rng.Int64N(lastTimestamp + 1),
		Latitude: rng.Float64()*180 - 90, Longitude: rng.Float64()*360 - 180,
	}
	if rng.IntN(2) == 0 {
		accuracy := math.Abs(randomNumber(rng))
		r.AccuracyM = &accuracy
	}
	return r
}

func randomSanitized(rng *rand.Rand) Sanitized {
	r := Sanitized{
		UserID: randomUserID(rng), Timestamp: rng.Int64N(lastTimestamp + 1),
		Latitude: randomNumber(rng), Longitude: randomNumber(rng), RadiusM: randomNumber(rng),
		Kind: randomText(rng, 12), Epsilon: randomNumber(rng), Delta: randomNumber(rng),
		Mechanism: randomText(rng, 12), ModelID: randomText(rng, 16),
		Step: randomInteger(rng), Release: randomInteger(rng),
	}
	if rng.IntN(3) > 0 {
		one, other := math.Abs(randomNumber(rng)), math.Abs(randomNumber(rng))
		r.SigmaMajorM, r.SigmaMinorM = Some(max(one, other)), Some(min(one, other))
		r.AzimuthDeg = Some(rng.Float64() * 180)
	}
	if rng.IntN(3) > 0 {
		r.ReleaseLatitude, r.ReleaseLongitude = Some(randomNumber(rng)), Some(randomNumber(rng))
	}
	return r
}

func randomDeadLetter(rng *rand.Rand) DeadLetter {
	return DeadLetter{
		Topic: randomText(rng, 20), Partition: int32(randomInteger(rng)),
		Offset: randomInteger(rng),
		Reason: Reason(randomText(rng, 20)), Timestamp: randomInteger(rng),
	}
}

func randomCounts(rng *rand.Rand) Counts {
	n := Counts{
		WindowStart: randomInteger(rng), WindowEnd: randomInteger(rng), Day: randomText(rng, 12),
		Zone: randomText(rng, 20), Vehicles: randomInteger(rng), Low: randomInteger(rng),
		High: randomInteger(rng), Estimate: randomNumber(rng), Epsilon: randomNumber(rng),
		PerDay: int32(randomInteger(rng)), Edition: randomInteger(rng),
	}
	if rng.IntN(3) > 0 {
		n.Latitude, n.Longitude = Some(randomNumber(rng)), Some(randomNumber(rng))
	}
	return n
}
