package servicetest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/schemas"
)

// Secret is one form in which something private could get out.
type Secret struct {
	name   string
	form   []byte
	number bool // decimal digits, which count only as a whole number
}

func (s Secret) in(haystack []byte) bool {
	if !s.number {
		return bytes.Contains(haystack, s.form)
	}
	return bytes.Contains(haystack, s.form) &&
		regexp.MustCompile(`(^|[^0-9.])`+string(s.form)+`($|[^0-9.])`).Match(haystack)
}

// Leaks names the secrets that the bytes hold.
func Leaks(haystack []byte, secrets []Secret) (found []string) {
	for _, s := range secrets {
		if s.in(haystack) {
			found = append(found, s.name)
		}
	}
	return found
}

// RequireNoLeak searches one place. The error does not repeat the bytes.
func RequireNoLeak(tb testing.TB, where string, haystack []byte, secrets []Secret) {
	tb.Helper()
	if found := Leaks(haystack, secrets); len(found) > 0 {
		tb.Errorf("%s holds %q", where, found)
	}
}

// CoordinateSecrets are the forms of a fix's place: each coordinate as text of
// a street's precision, as whole units, in radians and as every binary number;
// and the same of its place on a map.
func CoordinateSecrets(fix schemas.Raw, g *grid.Grid) []Secret {
	var all []Secret
	add := func(name string, v float64, digits int) {
		all = append(all, numberSecrets(name, v, digits)...)
	}
	add("latitude", fix.Latitude, 4)
	add("longitude", fix.Longitude, 4)
	add("latitude in radians", fix.Latitude*math.Pi/180, 6)
	add("longitude in radians", fix.Longitude*math.Pi/180, 6)
	if fix.AccuracyM != nil {
		add("accuracy", *fix.AccuracyM, 4)
	}
	if g != nil {
		p := g.ToMap(fix.Latitude, fix.Longitude)
		add("kilometres east", p.X, 4)
		add("kilometres north", p.Y, 4)
	}
	return all
}

// numberSecrets are the forms of one number. A text with so many decimals, cut
// and not rounded, is part of every longer one.
func numberSecrets(name string, v float64, digits int) []Secret {
	text := strconv.FormatFloat(v, 'f', 12, 64)
	var all []Secret
	add := func(form string, b []byte) {
		all = append(all, Secret{name: name + " " + form, form: b})
	}
	add("as text", []byte(text[:len(text)-12+digits]))
	bits := math.Float64bits(v)
	add("as float64, little-endian", binary.LittleEndian.AppendUint64(nil, bits))
	add("as float64, big-endian", binary.BigEndian.AppendUint64(nil, bits))
	add("as the bits of a float64", []byte(strconv.FormatUint(bits, 10)))
	add("as hexadecimal bits", []byte(strconv.FormatUint(bits, 16)))
	bits32 := math.Float32bits(float32(v))
	add("as float32, little-endian", binary.LittleEndian.AppendUint32(nil, bits32))
	add("as float32, big-endian", binary.BigEndian.AppendUint32(nil, bits32))
	for _, scale := range []float64{1e6, 1e7} {
		whole := int32(v * scale)
		unit := fmt.Sprintf("as a whole number of 1/%.0f", scale)
		all = append(all, Secret{
			name: name + " " + unit + " in text", form: []byte(strconv.Itoa(int(whole))),
			number: true,
		})
		add(unit+", little-endian", binary.LittleEndian.AppendUint32(nil, uint32(whole)))
		add(unit+", big-endian", binary.BigEndian.AppendUint32(nil, uint32(whole)))
	}
	return all
}

// CellSecrets are the forms of a cell: its index and its column and row as text.
func CellSecrets(fix schemas.Raw, g *grid.Grid) []Secret {
	c := g.Locate(fix.Latitude, fix.Longitude)
	return []Secret{
		{name: "cell as text", form: []byte(strconv.Itoa(int(c))), number: true},
		{name: "cell, little-endian", form: binary.LittleEndian.AppendUint32(nil, uint32(c))},
		{name: "cell, big-endian", form: binary.BigEndian.AppendUint32(nil, uint32(c))},
		{name: "column and row", form: fmt.Appendf(nil, "%d %d", g.Column(c), g.Row(c))},
	}
}

// TimeSecrets are the forms of an exact time, which is no whole minute.
func TimeSecrets(ms int64) []Secret {
	return []Secret{
		{name: "time as text", form: []byte(strconv.FormatInt(ms, 10)), number: true},
		{name: "time as Avro has it", form: binary.AppendVarint(nil, ms)},
		{name: "time, big-endian", form: binary.BigEndian.AppendUint64(nil, uint64(ms))},
		{name: "time, little-endian", form: binary.LittleEndian.AppendUint64(nil, uint64(ms))},
	}
}

// UserSecrets are the forms of a user id.
func UserSecrets(user string) []Secret {
	return []Secret{
		{name: "user", form: []byte(user)},
		{name: "user in hexadecimal", form: []byte(hex.EncodeToString([]byte(user)))},
		{
			name: "user in base64",
			form: []byte(base64.StdEncoding.EncodeToString([]byte(user))[:12]),
		},
	}
}

// PayloadSecrets are runs of a value, plain and encoded. Left out are the header
// that all values begin with, and runs that some public bytes hold by themselves,
// such as the names of fields.
func PayloadSecrets(value, public []byte) []Secret {
	const head, run = 12, 8
	var all []Secret
	for i := head; i+run <= len(value); i += run / 2 {
		if bytes.Contains(public, value[i:i+run]) {
			continue
		}
		all = append(all,
			Secret{name: fmt.Sprintf("payload from %d", i), form: value[i : i+run]},
			Secret{
				name: fmt.Sprintf("payload from %d in hexadecimal", i),
				form: []byte(hex.EncodeToString(value[i : i+run])),
			})
	}
	if encoded := base64.StdEncoding.EncodeToString(value); len(encoded) > 32 {
		all = append(all, Secret{name: "payload in base64", form: []byte(encoded[16:32])})
	}
	return all
}
