package task

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
)

var fullMark = Mark{
	Input: 9, Origin: 2, Since: 5, Open: true, Settings: []byte("settings"),
	Source: []byte("source"), Names: []byte("key"), Partitioner: "hash", Epoch: 7,
}

// TestMarkBytes pins the layout: marks outlive the program.
func TestMarkBytes(t *testing.T) {
	for _, test := range []struct {
		hex  string
		want Mark
	}{
		{
			"01" + "01" + "0000000000000009" + "0000000000000002" + "0000000000000005" +
				"00000007" + "08" +
				hex.EncodeToString([]byte("settings")) + "06" +
				hex.EncodeToString([]byte("source")) + "03" +
				hex.EncodeToString([]byte("key")) + "04" +
				hex.EncodeToString([]byte("hash")) + "0000000000000000" + "00",
			fullMark,
		},
		{
			"01" + "02" + "0000000000000003" + "0000000000000003" + "0000000000000003" +
				"00000000" + "00" + "00" + "00" + "00" + "0000000000000000" + "00",
			Mark{Input: 3, Origin: 3, Since: 3, Lost: true},
		},
		{
			"01" + "00" + "0000000000000000" + "ffffffffffffffff" + "ffffffffffffffff" +
				"ffffffff" + "00" + "00" + "00" + "00" + "0000000000000000" + "00",
			Mark{Origin: -1, Since: -1, Epoch: -1},
		},
	} {
		value, err := hex.DecodeString(test.hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeMark(value)
		if err != nil || got.Input != test.want.Input || got.Epoch != test.want.Epoch ||
			!got.sameBut(test.want) {
			t.Errorf("%s decodes to %+v, %v, want %+v", test.hex, got, err, test.want)
		}
		if !bytes.Equal(AppendMark(nil, test.want), value) {
			t.Errorf("%+v encodes to %x, want %s", test.want, AppendMark(nil, test.want), test.hex)
		}
	}
}

// settingsAt is where the length of a mark's settings stands.
const settingsAt = 1 + 1 + 3*8 + 4

// TestBadMarks: what does not add up is an error, whatever is wrong with it.
func TestBadMarks(t *testing.T) {
	good := AppendMark(nil, fullMark)
	bad := map[string][]byte{
		"nothing": nil, "version 0": {0}, "version 2": append([]byte{2}, good[1:]...),
		"another flag":      append([]byte{1, 4}, good[2:]...),
		"a byte more":       append(bytes.Clone(good), 0),
		"settings too long": AppendMark(nil, Mark{Settings: make([]byte, MarkBytes)}),
		"input < since":     AppendMark(nil, Mark{Input: 4, Since: 5}),
		"since < origin":    AppendMark(nil, Mark{Input: 9, Since: 2, Origin: 3}),
		"negative input":    AppendMark(nil, Mark{Input: -1, Origin: -1, Since: -1}),
		"origin < -1":       AppendMark(nil, Mark{Origin: math.MinInt64}),
		"epoch < -1":        AppendMark(nil, Mark{Epoch: -2}),
	}
	bad["settings too long"][settingsAt]++
	for n := range good {
		bad["cut at "+string(rune('a'+n))] = good[:n]
	}
	for what, value := range bad {
		if m, err := DecodeMark(value); err == nil {
			t.Errorf("%s: %x decodes to %+v", what, value, m)
		}
	}
	if _, err := DecodeMark(bad["version 2"]); !strings.Contains(err.Error(), "newer") {
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
	f.Add(AppendMark(nil, versionedMark))
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeMark(data)
		if err != nil {
			return
		}
		if m.check() != nil || max(len(m.Settings), len(m.Source), len(m.Names)) > MarkBytes {
			t.Errorf("%x decodes to %+v", data, m)
		}
		if again := AppendMark(nil, m); !bytes.Equal(again, data) {
			t.Errorf("%x decodes to %+v, which encodes to %x", data, m, again)
		}
	})
}

// versionedMark has two versions.
var versionedMark = Mark{
	Input: 9, Open: true, Settings: []byte("s"), Latest: 3,
	Versions: []Version{{From: 4, Name: []byte("one")}, {From: 5, Name: []byte("two")}},
}

// TestVersionedMarkBytes pins versions, and what is refused of them.
func TestVersionedMarkBytes(t *testing.T) {
	value, err := hex.DecodeString("01" + "01" + "0000000000000009" + "0000000000000000" +
		"0000000000000000" + "00000000" + "01" + "73" + "00" + "00" + "00" + "0000000000000003" +
		"02" + "0000000000000004" + "03" + "6f6e65" + "0000000000000005" + "03" + "74776f")
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendMark(nil, versionedMark); !bytes.Equal(got, value) {
		t.Errorf("encodes to %x, want %x", got, value)
	}
	got, err := DecodeMark(value)
	if err != nil || got.Input != 9 || got.Latest != 3 || !got.sameBut(versionedMark) {
		t.Errorf("decodes to %+v, %v", got, err)
	}
	one := []Version{{From: 4, Name: []byte("one")}}
	if got.sameBut(Mark{Input: 9, Open: true, Settings: []byte("s"), Versions: one}) {
		t.Error("a mark that has lost a version passes for the same")
	}
	full := Mark{Input: 1}
	for n := range int64(MaxVersions) {
		full.Versions = append(full.Versions, Version{From: n, Name: make([]byte, MarkBytes)})
	}
	if m, err := DecodeMark(AppendMark(nil, full)); err != nil ||
		len(m.Versions) != MaxVersions {
		t.Errorf("a full mark decodes to %d versions, %v", len(m.Versions), err)
	}
	bad := map[string][]byte{
		"one announced too many": bytes.Clone(value),
		"a byte more":            append(bytes.Clone(value), 0),
		"starts going back": AppendMark(nil,
			Mark{Input: 9, Versions: []Version{{5, []byte("a")}, {4, []byte("b")}}}),
		"two of one start": AppendMark(nil,
			Mark{Input: 9, Versions: []Version{{5, []byte("a")}, {5, []byte("b")}}}),
		"a negative time": AppendMark(nil, Mark{Input: 9, Latest: -1}),
		"a name without bytes": append(bytes.Clone(value[:len(value)-15]), 1, 0, 0, 0, 0, 0, 0, 0,
			4, 0),
		"too many": append(AppendMark(nil, full), make([]byte, 74)...),
	}
	bad["one announced too many"][settingsAt+13]++
	bad["too many"][settingsAt+12]++
	for what, value := range bad {
		if m, err := DecodeMark(value); err == nil {
			t.Errorf("%s: %x decodes to %+v", what, value, m)
		}
	}
	for n := range value {
		if m, err := DecodeMark(value[:n]); err == nil {
			t.Errorf("cut at %d: decodes to %+v", n, m)
		}
	}
	for _, name := range [][]byte{nil, make([]byte, MarkBytes+1)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a version with a name of %d bytes was encoded", len(name))
				}
			}()
			AppendMark(nil, Mark{Versions: []Version{{0, name}}})
		}()
	}
}

// TestRebuiltMarkBytes pins what a changelog that was written back says.
func TestRebuiltMarkBytes(t *testing.T) {
	m := Mark{Input: 9, Origin: 1, Since: 2, Open: true, Rebuilt: 5, Published: 12}
	value := AppendMark(nil, m)
	if got := fmt.Sprintf("%x", value); got != "0105"+"0000000000000009"+"0000000000000001"+
		"0000000000000002"+"0000000000000005"+"000000000000000c"+"00000000"+
		"00000000"+"0000000000000000"+"00" {
		t.Errorf("it encodes to %s", got)
	}
	got, err := DecodeMark(value)
	if err != nil || !got.sameBut(m) || got.Input != 9 || got.sameBut(Mark{
		Origin: 1, Since: 2,
		Open: true, Rebuilt: 5,
	}) {
		t.Errorf("%+v, %v", got, err)
	}
	m.Rebuilt = -1
	if got, err := DecodeMark(AppendMark(nil, m)); err == nil {
		t.Errorf("%+v", got)
	}
}

// TestPublishedBefore: records before Mark.Published make states, and no results.
func TestPublishedBefore(t *testing.T) {
	s := newScript()
	value := AppendMark(nil, Mark{Input: 1, Rebuilt: 5, Published: 2})
	s.committed, s.changelog = 1, []Message{{Key: markKey, Value: value}}
	if err := s.run(t, Options{}); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(s.lines, "\n")
	for part, want := range map[string]bool{
		"out:v1": false, "out:v2": true, `changelog "bob"="+v1"`: true,
	} {
		if strings.Contains(all, part) != want {
			t.Errorf("%s: want %v in\n%s", part, want, all)
		}
	}
}
