package counting

import (
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// TestGoldenBytes pins the formats of FORMAT.md: what is stored must be read by later versions.
func TestGoldenBytes(t *testing.T) {
	by := digest{1, 2, 3, 4, 5, 6, 7, 8}
	open := openCounts{windows: map[int64]map[int32]*chunk{}}
	open.countIn(3_600_000, 130)
	open.countIn(3_600_000, 130)
	chunk := open.changes(nil)[0]
	user := userState{{20000, []uint16{0, 7, 300}}, {20001, []uint16{2}}}
	window := windowState{
		startMS: 3_600_000, seen: []partialSum{{9}, {}}, sums: []int64{0, 200},
	}
	published := windowState{
		startMS: 3_600_000, published: true, seen: []partialSum{{9}, {8}},
		digest: counts.Digest{7},
	}
	for _, test := range []struct {
		name string
		b    []byte
		want string
	}{
		{
			"partial", partial{by, 3, 3_600_000, []zoneCount{{0, 1}, {300, 200}}}.appendTo(nil),
			"01 0102030405060708 03 80bab703 0001 ab02c801",
		},
		{"user", user.appendTo(nil), "01 a09c01 03 00 06 a402 01 01 02"},
		{"a chunk's name", chunk.Key, "000000000036ee80 01"},
		{"a chunk", chunk.Value, "01 0202"},
		{
			"a window", window.appendTo(nil, by),
			"01 0102030405060708 80bab703 00 0900000000000000 0000000000000000 00 c801",
		},
		{
			"a published window", published.appendTo(nil, by),
			"01 0102030405060708 80bab703 01 0900000000000000 0800000000000000 07" +
				strings.Repeat("00", 31),
		},
	} {
		if want := strings.ReplaceAll(test.want, " ", ""); hex.EncodeToString(test.b) != want {
			t.Errorf("%s is %x, want %s", test.name, test.b, want)
		}
	}
}

// TestBytesAreReadBack: every state and partial is what it was, and no part of one is taken.
func TestBytesAreReadBack(t *testing.T) {
	p := partial{digest{1}, 3, -3_600_000, []zoneCount{{0, 1}, {300, 200}}}
	user := userState{{20000, []uint16{0, 7, 300}}, {20001, []uint16{2}}}
	s := testSettings(t)
	totals, err := NewTotals(s, noise.KeyFromSeed(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	window := &windowState{
		startMS: 7, seen: []partialSum{{9}, {}, {}}, sums: []int64{0, 200, 1},
	}
	for name, test := range map[string]struct {
		b    []byte
		want any
		read func([]byte) (any, error)
	}{
		"a partial": {p.appendTo(nil), p, func(b []byte) (any, error) { return decodePartial(b) }},
		"a user": {
			user.appendTo(nil), user,
			func(b []byte) (any, error) { return decodeUser(b) },
		},
		"a window": {
			window.appendTo(nil, s.digest()), window,
			func(b []byte) (any, error) { return totals.known(b) },
		},
	} {
		if got, err := test.read(test.b); err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s came back as %+v, %v", name, got, err)
		}
		for i := 1; i < len(test.b); i++ {
			got, err := test.read(test.b[:i])
			if err == nil && (name == "a window" || reflect.DeepEqual(got, test.want)) {
				t.Errorf("%s: %d of %d bytes are read as %+v", name, i, len(test.b), got)
			}
		}
		if _, err := test.read(slices.Concat([]byte{version + 1}, test.b[1:])); err == nil {
			t.Errorf("%s of another version is read", name)
		}
	}
}

func FuzzBytes(f *testing.F) {
	f.Add([]byte("\x01\xa0\x9c\x01\x03\x00\x06\xa4\x02"))
	f.Add(partial{digest{1}, 3, 7, []zoneCount{{1, 1}}}.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if u, err := decodeUser(b); err == nil && len(u) > 0 {
			again, err := decodeUser(u.appendTo(nil))
			if err != nil || !reflect.DeepEqual(again, u) {
				t.Errorf("%x is read as %v, then as %v, %v", b, u, again, err)
			}
		}
		if p, err := decodePartial(b); err == nil {
			again, err := decodePartial(p.appendTo(nil))
			if err != nil || !reflect.DeepEqual(again, p) {
				t.Errorf("%x is read as %v, then as %v, %v", b, p, again, err)
			}
		}
	})
}

// TestLargeMap: with 10,000 zones and six open windows, a transaction writes some hundred bytes for
// each fix that counts, where one state of everything would have a hundred thousand. The states of
// a map that is too large for a record are refused.
func TestLargeMap(t *testing.T) {
	const zones, windows, users = 10_000, 6, 20_000
	open := openCounts{windows: map[int64]map[int32]*chunk{}}
	rng, all := rand.New(rand.NewPCG(1, 2)), 0
	for range users {
		for w := range int64(windows) {
			open.countIn(w*3_600_000, rng.Int32N(zones))
		}
	}
	size := func(changes []task.Change) (n int) {
		for _, c := range changes {
			n += len(c.Key) + len(c.Value)
		}
		return n
	}
	all = size(open.changes(nil))
	one := 0
	for range 100 {
		open.countIn(rng.Int64N(windows)*3_600_000, rng.Int32N(zones))
		one = max(one, size(open.changes(nil)))
	}
	if all < 100_000 || one > 300 {
		t.Errorf("all states have %d bytes, and one fix writes %d", all, one)
	}
	t.Logf("all states have %d bytes, and one fix writes at most %d", all, one)
	last := partial{counts: open.close(0)}.appendTo(nil)
	if len(open.windows) != windows-1 || len(last) > 5*zones {
		t.Errorf("a partial has %d bytes", len(last))
	}

	g, err := grid.New(grid.Box{South: 48, West: 10, North: 50, East: 12}, 300)
	if err != nil {
		t.Fatal(err)
	}
	s := testSettings(t)
	if s.Zones, err = counts.Squares(g); err != nil {
		t.Fatal(err)
	}
	_, first := NewWindows(s, engine.Source{Encoding: schemas.JSON}, engine.Murmur2,
		engine.Partition{Of: partitions}, 1)
	_, second := NewTotals(s, noise.KeyFromSeed(1), nil)
	for _, err := range []error{first, second} {
		if err == nil || !strings.Contains(err.Error(), "larger squares") {
			t.Errorf("%d zones: %v", s.Zones.Count(), err)
		}
	}
}
