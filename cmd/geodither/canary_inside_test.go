package main

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
)

// toldBy names what of the canaries a file tells: in its bytes, and in what is packed
// into them.
func toldBy(path string, data []byte, g *grid.Grid) ([]string, error) {
	found := told(path, data, g)
	var inside [][]byte
	var err error
	switch {
	case bytes.HasPrefix(data, []byte("Obj\x01")):
		inside, err = inflated(data)
	case strings.HasSuffix(path, ".html"):
		inside, err = embedded(data)
	}
	for _, part := range inside {
		found = append(found, told("inside "+path, part, g)...)
	}
	return found, err
}

// inflated returns the blocks of an Avro container (Avro 1.12, object container files), of
// which the raw bytes show nothing: long count, long size, deflated data, the marker.
func inflated(data []byte) (blocks [][]byte, err error) {
	const magic, marker = 4, 16
	b := bytes.NewReader(data[magic:])
	for { // the header's map of names and values, until a count of 0
		pairs, err := binary.ReadVarint(b)
		if err != nil || pairs < 0 {
			return nil, errors.New("the header is no map")
		}
		if pairs == 0 {
			break
		}
		for range 2 * pairs {
			size, err := binary.ReadVarint(b)
			if err != nil {
				return nil, err
			}
			if _, err := io.CopyN(io.Discard, b, size); err != nil {
				return nil, err
			}
		}
	}
	if _, err := io.CopyN(io.Discard, b, marker); err != nil {
		return nil, err
	}
	for b.Len() > 0 {
		if _, err := binary.ReadVarint(b); err != nil {
			return nil, err
		}
		size, err := binary.ReadVarint(b)
		if err != nil || size < 0 || size > int64(b.Len()) {
			return nil, errors.New("a block has no size")
		}
		packed := make([]byte, size)
		if _, err := io.ReadFull(b, packed); err != nil {
			return nil, err
		}
		block, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, block)
		if _, err := io.CopyN(io.Discard, b, marker); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

var base64Data = regexp.MustCompile(`;base64,([A-Za-z0-9+/=]+)`)

// embedded returns what a page holds as data in base64.
func embedded(page []byte) (parts [][]byte, err error) {
	for _, match := range base64Data.FindAllStringSubmatch(html.UnescapeString(string(page)), -1) {
		part, err := base64.StdEncoding.DecodeString(match[1])
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// TestCanaryIsFoundInside: what is planted in a model file or in a page's figure is found, though
// the bytes of neither show it; and nothing is found where nothing is planted.
func TestCanaryIsFoundInside(t *testing.T) {
	g := canaryMap(t)
	fix := canaries(g)[0]
	east := g.ToMap(fix.Latitude, fix.Longitude).X // less than 1
	_, plain := townFiles(t, t.TempDir())
	for name, c := range map[string]struct {
		plant func(m *mobility.Model)
		text  string
	}{
		"nothing": {func(*mobility.Model) {}, ""},
		"user": {
			func(m *mobility.Model) { m.Provenance.Source = fix.UserID }, fix.UserID,
		},
		"latitude": {func(m *mobility.Model) {
			m.Provenance.Options += fmt.Sprintf(" at=%.7f", fix.Latitude)
		}, fmt.Sprintf("%.7f", fix.Latitude)},
		"who was held out": {
			func(m *mobility.Model) { m.Provenance.Fit = &mobility.Fit{Held: fix.UserID} },
			fix.UserID,
		},
		"a probability": {func(m *mobility.Model) {
			m.Initial = mobility.Distribution{
				Cells: []grid.Cell{0, 1}, P: []float64{east, 1 - east},
			}
		}, fmt.Sprint(east)},
	} {
		// As html/template writes it.
		page := `<img src="data:image/svg&#43;xml;base64,` + strings.ReplaceAll(
			base64.StdEncoding.EncodeToString([]byte("<svg>"+c.text+"</svg>")), "+", "&#43;") + `">`
		for path, data := range map[string]string{
			"planted in a model file": read(t, changedModel(t, plain, "model.avro", c.plant)),
			"planted in a page.html":  page,
		} {
			found, err := toldBy(path, []byte(data), g)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) > 0 != (c.text != "") {
				t.Errorf("%s, %s: found %q", path, name, found)
			}
			if inBytes := told(path, []byte(data), g); len(inBytes) > 0 {
				t.Errorf("%s, %s: the bytes show %q, and the test tests nothing",
					path, name, inBytes)
			}
		}
	}
	for _, broken := range []string{
		"Obj\x01\x02", "Obj\x01\x00" + strings.Repeat("m", 16) + "\x02\x08no",
		"Obj\x01\x00" + strings.Repeat("m", 16) + "\x02\x04\xff\xff",
	} {
		if _, err := toldBy("broken", []byte(broken), g); err == nil {
			t.Errorf("a container that cannot be searched passes for one in which nothing is: %q",
				broken)
		}
	}
}
