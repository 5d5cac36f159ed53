package schemas

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"
)

func BenchmarkDecodeRaw(b *testing.B) { benchmarkDecodeRaw(b, exampleRaw()) }
func BenchmarkDecodeRawNoRadius(b *testing.B) {
	r := exampleRaw()
	r.AccuracyM = nil
	benchmarkDecodeRaw(b, r)
}

func benchmarkDecodeRaw(b *testing.B, r Raw) {
	b.Helper()
	for _, c := range codecs() {
		b.Run(string(c.encoding), func(b *testing.B) {
			data := must(c.AppendRaw(nil, r))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.DecodeRaw(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendSanitized(b *testing.B) {
	for _, c := range codecs() {
		b.Run(string(c.encoding), func(b *testing.B) {
			s := exampleSanitized()
			dst := must(c.AppendSanitized(nil, s))
			b.SetBytes(int64(len(dst)))
			b.ReportAllocs()
			for b.Loop() {
				dst = must(c.AppendSanitized(dst[:0], s))
			}
		})
	}
}

func BenchmarkDecodeSanitized(b *testing.B) {
	for _, c := range codecs() {
		b.Run(string(c.encoding), func(b *testing.B) {
			data := must(c.AppendSanitized(nil, exampleSanitized()))
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.DecodeSanitized(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWholeRecord is what goavro's codec of a whole record costs, with its
// map[string]any: the alternative to coding field by field.
func BenchmarkWholeRecord(b *testing.B) {
	codec := must(goavro.NewCodec(sanitizedSchema))
	const nullables = " sigma_major_m sigma_minor_m azimuth_deg release_latitude " +
		"release_longitude "
	var native map[string]any
	if err := json.Unmarshal(must(must(NewCodec(JSON)).AppendSanitized(nil, exampleSanitized())),
		&native); err != nil {
		b.Fatal(err)
	}
	for name, value := range native {
		if x, ok := value.(float64); ok && strings.Contains(nullables, " "+name+" ") {
			native[name] = union(Some(x))
		}
	}
	data := must(codec.SingleFromNative(nil, native))
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := codec.NativeFromSingle(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		s := exampleSanitized()
		dst := data
		b.ReportAllocs()
		for b.Loop() {
			dst = must(codec.SingleFromNative(dst[:0], map[string]any{
				"user_id": s.UserID, "timestamp": s.Timestamp, "latitude": s.Latitude,
				"longitude": s.Longitude, "radius_m": s.RadiusM,
				"sigma_major_m": union(s.SigmaMajorM), "sigma_minor_m": union(s.SigmaMinorM),
				"azimuth_deg": union(s.AzimuthDeg), "release_latitude": union(s.ReleaseLatitude),
				"release_longitude": union(s.ReleaseLongitude),
				"epsilon":           s.Epsilon, "delta": s.Delta,
				"mechanism": s.Mechanism,
				"model_id":  s.ModelID, "step": s.Step, "release": s.Release, "kind": s.Kind,
			}))
		}
	})
}

func BenchmarkNewCodec(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		must(NewCodec(Avro))
	}
}
