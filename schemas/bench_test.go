package schemas

import (
	"encoding/json"
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
	var native map[string]any
	if err := json.Unmarshal(must(must(NewCodec(JSON)).AppendSanitized(nil, exampleSanitized())),
		&native); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"factor_200m", "factor_1km", "factor_set"} {
		factor, _ := native[name].(float64)
		native[name] = nullable(factor)
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
				"longitude":         s.Longitude,
				"estimate_latitude": s.EstimateLatitude, "estimate_longitude": s.EstimateLongitude,
				"radius_m": s.RadiusM, "epsilon": s.Epsilon, "delta": s.Delta,
				"mechanism": s.Mechanism,
				"model_id":  s.ModelID, "step": s.Step, "release": s.Release, "kind": s.Kind,
				"factor_200m": nullable(s.Factor200M), "factor_1km": nullable(s.Factor1KM),
				"factor_set": nullable(s.FactorSet),
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
