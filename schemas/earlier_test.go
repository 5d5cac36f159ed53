package schemas

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// Records of earlier versions, byte for byte as these wrote them: the golden record of the first
// version and of the second, and a predicted one of the second.
const (
	firstAvro = "c301ff977b3601e00bd70c6275732d3331f6a1abfef962e17a14ae47c14a409a999999999905c0" +
		"780b24287eb44a4045d8f0f44ad907c000000000008a9340000000000000f03f7b14ae47e17a843f" +
		"0670696d2030313233343536373839616263646566aad4821b22"
	firstJSON = `{"user_id":"bus-31","timestamp":1700000000123,"latitude":53.51,"longitude":-2.7,` +
		`"estimate_latitude":53.4101,"estimate_longitude":-2.9811,"radius_m":1250.5,` +
		`"epsilon":1,"delta":0.01,"mechanism":"pim","model_id":"0123456789abcdef",` +
		`"step":28333333,"release":17}`

	secondAvro = "c301f0c71193a2f4c7bb0c6275732d3331f6a1abfef962e17a14ae47c14a409a999999999905" +
		"c0780b24287eb44a4045d8f0f44ad907c000000000008a9340000000000000f03f7b14ae47e1" +
		"7a843f0670696d2030313233343536373839616263646566aad4821b221072656c6561736564" +
		"02000000000000f43f02000000000000f83f0290f7aa9509bf0540"
	secondJSON = `{"user_id":"bus-31","timestamp":1700000000123,"latitude":53.51,` +
		`"longitude":-2.7,"estimate_latitude":53.4101,"estimate_longitude":-2.9811,` +
		`"radius_m":1250.5,"epsilon":1,` +
		`"delta":0.01,"mechanism":"pim","model_id":"0123456789abcdef","step":28333333,` +
		`"release":17,"kind":"released","factor_200m":1.25,"factor_1km":1.5,"factor_set":2.71828}`
	secondPredicted = `{"user_id":"bus-31","timestamp":1700000000123,"latitude":53.4101,` +
		`"longitude":-2.9811,"estimate_latitude":53.4101,"estimate_longitude":-2.9811,` +
		`"radius_m":1250.5,"epsilon":0,"delta":0.01,"mechanism":"pim",` +
		`"model_id":"0123456789abcdef","step":28333333,"release":17,"kind":"predicted"}`
)

// TestEarlierVersions: records of earlier versions are read as what they say in the words of the
// present one. Their latitude and longitude are the release's, or in predicted ones the estimate's.
func TestEarlierVersions(t *testing.T) {
	second := exampleSanitized()
	second.SigmaMajorM, second.SigmaMinorM, second.AzimuthDeg = Nullable{}, Nullable{}, Nullable{}
	second.NearShare = Nullable{}
	first := second
	first.Factor200M, first.Factor1KM, first.FactorSet = 0, 0, 0
	repeated, predicted := first, first
	repeated.Kind, repeated.Epsilon = KindRepeated, 0
	predicted.Kind, predicted.Epsilon = KindPredicted, 0
	predicted.ReleaseLatitude, predicted.ReleaseLongitude = Nullable{}, Nullable{}
	for _, test := range []struct {
		name     string
		encoding Encoding
		data     []byte
		want     Sanitized
	}{
		{"1, avro", Avro, must(hex.DecodeString(firstAvro)), first},
		{"1, json", JSON, []byte(firstJSON), first},
		{
			"1, json, no cost", JSON,
			[]byte(strings.Replace(firstJSON, `"epsilon":1`, `"epsilon":0`, 1)), repeated,
		},
		{"2, avro", Avro, must(hex.DecodeString(secondAvro)), second},
		{"2, json", JSON, []byte(secondJSON), second},
		{
			"2, json, escaped", JSON,
			[]byte(strings.Replace(secondJSON, "estimate_l", `\u0065stimate_l`, 1)), second,
		},
		{"2, json, predicted", JSON, []byte(secondPredicted), predicted},
		{"2, avro, predicted", Avro, avroOfSecond(t, secondPredicted), predicted},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := must(NewCodec(test.encoding))
			if got, err := c.DecodeSanitized(test.data); err != nil || got != test.want {
				t.Errorf("got\n%+v, %v, want\n%+v", got, err, test.want)
			}
			if strings.HasPrefix(test.name, "2") && !strings.Contains(test.name, "escaped") {
				if again := must(c.AppendVersion2(nil, test.want)); !bytes.Equal(again, test.data) {
					t.Errorf("as version 2 it is\n%q, want\n%q", again, test.data)
				}
			}
			again := must(c.AppendSanitized(nil, test.want))
			if got := must(c.DecodeSanitized(again)); got != test.want {
				t.Errorf("written again it is\n%+v", got)
			}
		})
	}
}

// TestVersion2HasReleases: what has no release cannot be written as version 2.
func TestVersion2HasReleases(t *testing.T) {
	for _, c := range codecs() {
		bare := exampleSanitized()
		bare.ReleaseLatitude, bare.ReleaseLongitude = Nullable{}, Nullable{}
		if out, err := c.AppendVersion2([]byte("x"), bare); err == nil || string(out) != "x" {
			t.Errorf("%s: a release without a place is %q", c.encoding, out)
		}
		bare = exampleSanitized()
		bare.Delta = math.NaN()
		if out, err := c.AppendVersion2([]byte("x"), bare); err == nil || string(out) != "x" {
			t.Errorf("%s: a NaN is %q", c.encoding, out)
		}
	}
}

// avroOfSecond encodes a JSON object of the second version under its Avro schema.
func avroOfSecond(t *testing.T, object string) []byte {
	t.Helper()
	l := must(newLayout(sanitizedSchema2))
	row := make([]value, len(l.columns))
	if reason := l.decodeJSON(row, []byte(object), false); reason != "" {
		t.Fatal(reason)
	}
	return must(l.appendBody(l.header[:], row))
}

// TestEarlierVersionsAreWhole: an object with fields of an earlier version and of the present one
// is neither, and what an earlier one lacks is named.
func TestEarlierVersionsAreWhole(t *testing.T) {
	c := must(NewCodec(JSON))
	present := string(must(c.AppendSanitized(nil, exampleSanitized())))
	for _, test := range []struct {
		name, data string
		want       Reason
	}{
		{
			"no epsilon", strings.Replace(firstJSON, `"epsilon":1,`, "", 1),
			ReasonMissingField.At("epsilon"),
		},
		{
			"half an estimate", strings.Replace(secondJSON, `"estimate_longitude":-2.9811,`, "", 1),
			ReasonMissingField.At("estimate_longitude"),
		},
		{
			"no release", strings.Replace(secondJSON, `"latitude":53.51,`, "", 1),
			ReasonMissingField.At("latitude"),
		},
		{
			"of two versions", strings.Replace(present, "{", `{"estimate_latitude":53.4,`, 1),
			ReasonMissingField.At("estimate_longitude"),
		},
	} {
		if _, err := c.DecodeSanitized([]byte(test.data)); reasonOf(t, err) != test.want {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestHalves: half an ellipse and half a release are refused on both ways, as is an ellipse that is
// none.
func TestHalves(t *testing.T) {
	for name, change := range map[string]func(*Sanitized){
		"no major axis":    func(s *Sanitized) { s.SigmaMajorM = Nullable{} },
		"no minor axis":    func(s *Sanitized) { s.SigmaMinorM = Nullable{} },
		"no azimuth":       func(s *Sanitized) { s.AzimuthDeg = Nullable{} },
		"minor above":      func(s *Sanitized) { s.SigmaMinorM = Some(s.SigmaMajorM.Number + 1) },
		"negative":         func(s *Sanitized) { s.SigmaMinorM = Some(-1) },
		"azimuth of 180":   func(s *Sanitized) { s.AzimuthDeg = Some(180) },
		"negative azimuth": func(s *Sanitized) { s.AzimuthDeg = Some(-1) },
		"a share above 1":  func(s *Sanitized) { s.NearShare = Some(1.01) },
		"a share below 0":  func(s *Sanitized) { s.NearShare = Some(-.01) },
		"no latitude":      func(s *Sanitized) { s.ReleaseLatitude = Nullable{} },
		"no longitude":     func(s *Sanitized) { s.ReleaseLongitude = Nullable{} },
	} {
		bad := exampleSanitized()
		change(&bad)
		for _, c := range codecs() {
			if _, err := c.AppendSanitized(nil, bad); err == nil {
				t.Errorf("%s, %s: it was written", name, c.encoding)
			}
			data := must(c.append(c.sanitized, nil, rowOf(c, bad)))
			if _, err := c.DecodeSanitized(data); reasonOf(t, err) != ReasonMalformed {
				t.Errorf("%s, %s: it was read: %v", name, c.encoding, err)
			}
		}
	}
}

// rowOf returns the row of a record that AppendSanitized refuses.
func rowOf(c *Codec, s Sanitized) []value {
	must(c.AppendSanitized(nil, exampleSanitized())) // leaves its row
	row := c.row[:len(c.sanitized.columns)]
	row[ellipseColumn], row[ellipseColumn+1] = s.SigmaMajorM.value(), s.SigmaMinorM.value()
	row[ellipseColumn+2] = s.AzimuthDeg.value()
	row[releaseColumn], row[releaseColumn+1] = s.ReleaseLatitude.value(), s.ReleaseLongitude.value()
	row[shareColumn] = s.NearShare.value()
	return row
}
