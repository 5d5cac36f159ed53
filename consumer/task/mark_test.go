package task

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

var fullMark = Mark{Input: 9, Origin: 2, Since: 5, Open: true, Settings: []byte("settings"), Source: []byte("source")}

// TestMarkBytes pins the layout: marks outlive the program.
func TestMarkBytes(t *testing.T) {
	for _, test := range []struct {
		hex  string
		want Mark
	}{
		{"01" + "0000000000000007", Mark{Input: 7, Origin: -1, Since: -1, Open: true}},
		{"02" + "01" + "0000000000000009" + "0000000000000002" + "0000000000000005" + "08" + hex.EncodeToString([]byte("settings")) + "06" + hex.EncodeToString([]byte("source")), fullMark},
		{"02" + "02" + "0000000000000003" + "0000000000000003" + "0000000000000003" + "00" + "00", Mark{Input: 3, Origin: 3, Since: 3, Lost: true}},
		{"02" + "00" + "0000000000000000" + "ffffffffffffffff" + "ffffffffffffffff" + "00" + "00", Mark{Origin: -1, Since: -1}},
	} {
		value, err := hex.DecodeString(test.hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeMark(value)
		if err != nil || got.Input != test.want.Input || !got.sameBut(test.want) {
			t.Errorf("%s decodes to %+v, %v, want %+v", test.hex, got, err, test.want)
		}
		if value[0] == markVersion2 && !bytes.Equal(AppendMark(nil, test.want), value) {
			t.Errorf("%+v encodes to %x, want %s", test.want, AppendMark(nil, test.want), test.hex)
		}
	}
}

// TestBadMarks: what does not add up is an error, whatever is wrong with it.
func TestBadMarks(t *testing.T) {
	good := AppendMark(nil, fullMark)
	bad := map[string][]byte{
		"nothing": nil, "version 0": {0}, "version 3": append([]byte{3}, good[1:]...), "version 1 and more": append([]byte{1}, good[1:]...),
		"a negative offset of version 1": {1, 255, 0, 0, 0, 0, 0, 0, 0},
		"another flag":                   append([]byte{2, 4}, good[2:]...), "a byte more": append(bytes.Clone(good), 0),
		"settings too long": AppendMark(nil, Mark{Settings: make([]byte, MarkBytes)}),
		"input < since":     AppendMark(nil, Mark{Input: 4, Since: 5}), "since < origin": AppendMark(nil, Mark{Input: 9, Since: 2, Origin: 3}),
		"negative input": AppendMark(nil, Mark{Input: -1, Origin: -1, Since: -1}), "origin < -1": AppendMark(nil, Mark{Origin: math.MinInt64}),
	}
	bad["settings too long"][markFixed]++
	for n := range good {
		bad["cut at "+string(rune('a'+n))] = good[:n]
	}
	for what, value := range bad {
		if m, err := DecodeMark(value); err == nil {
			t.Errorf("%s: %x decodes to %+v", what, value, m)
		}
	}
	if _, err := DecodeMark(bad["version 3"]); !strings.Contains(err.Error(), "newer") {
		t.Errorf("a later version answers %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a mark with too much in it was encoded")
		}
	}()
	AppendMark(nil, Mark{Source: make([]byte, MarkBytes+1)})
}

func FuzzDecodeMark(f *testing.F) {
	f.Add(AppendMark(nil, Mark{}))
	f.Add(AppendMark(nil, fullMark))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMark(data)
		if err != nil {
			return
		}
		if m.check() != nil || len(m.Settings) > MarkBytes || len(m.Source) > MarkBytes {
			t.Errorf("%x decodes to %+v", data, m)
		}
		if again := AppendMark(nil, m); data[0] == markVersion2 && !bytes.Equal(again, data) {
			t.Errorf("%x decodes to %+v, which encodes to %x", data, m, again)
		}
	})
}
