package mobility

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"github.com/geodither/geodither/mechanism/grid"
)

// placedModel is a small model with a place on Earth.
func placedModel(t testing.TB) *Model {
	t.Helper()
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.05, East: 20.07}, 333)
	if err != nil {
		t.Fatal(err)
	}
	m := neighboursOn(g, 2, false, 3)
	m.Provenance = Provenance{
		Source: "a walk", Tool: "test", Options: "kernel_radius=2",
		Report: Report{
			Users: 3, Fixes: 600, Transitions: 400, CellsSeen: 30, RowsSeen: 20,
			MatrixEntries: int64(m.Transitions()),
		},
	}
	return m
}

func written(t testing.TB, m *Model) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := m.Write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func checkSame(t *testing.T, got, want *Model) {
	t.Helper()
	if got.ID() != want.ID() || got.contentHash() != want.ID() || got.Grid.ID() != want.Grid.ID() ||
		got.Step != want.Step {
		t.Error("another model, grid or step")
	}
	if got.Calendar.String() != want.Calendar.String() || len(got.Matrices) != len(want.Matrices) {
		t.Fatalf("calendar %q with %d matrices, want %q with %d", got.Calendar, len(got.Matrices),
			want.Calendar, len(want.Matrices))
	}
	for class, m := range got.Matrices {
		if w := want.Matrices[class]; !slices.Equal(m.RowStart, w.RowStart) ||
			!slices.Equal(m.Columns, w.Columns) || !slices.Equal(m.Values, w.Values) ||
			!slices.Equal(m.Spread, w.Spread) {
			t.Errorf("another matrix of class %d", class)
		}
	}
	if !slices.Equal(got.Initial.Cells, want.Initial.Cells) ||
		!slices.Equal(got.Initial.P, want.Initial.P) {
		t.Error("another initial distribution")
	}
	if !slices.Equal(got.Gaps, want.Gaps) || (got.Gaps == nil) != (want.Gaps == nil) {
		t.Error("another law of gaps")
	}
}

// classModel has a matrix for each of four classes, each with another number of entries, and a
// provenance with everything.
func classModel(t testing.TB, width, height int) *Model {
	t.Helper()
	m := neighbourModel(t, width, height, 1, true, 1)
	m.Calendar = Calendar{UTCOffset: 90 * time.Minute, Hours: []int{6, 20}, Weekend: true}
	for class := 1; class < m.Calendar.Classes(); class++ {
		m.Matrices = append(m.Matrices, neighbourModel(
			t, width, height, 1+class/2, class%2 == 0, uint64(class)+1).Matrices[0])
	}
	m.Provenance = Provenance{
		Source: "a walk", Tool: "test", Options: "radius=2 classes=4",
		Report: Report{
			Users: 7, Fixes: 70, OutsideBox: 1, Transitions: 60, CellsSeen: 5,
			RowsSeen: 4, MatrixEntries: int64(m.Transitions()),
		},
		Privacy: &Privacy{Epsilon: "0.5", Contribution: 20, Radius: 2},
		Fit:     &Fit{Users: 3, Steps: 30},
	}
	return m
}

func TestFileRoundTrip(t *testing.T) {
	for _, m := range []*Model{
		placedModel(t), jumpModel(t, 40, 30, 1), neighbourModel(t, 1, 1, 1, true, 1),
		neighbourModel(t, 130, 130, 1, true, 1),
		classModel(t, 5, 4), classModel(t, 40, 30), gapModel(t), structuredModel(t, 40, 30, 5, 1),
	} {
		got, err := ReadModel(bytes.NewReader(written(t, m)))
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, m)
		m.Provenance.Report.MatrixEntries = int64(m.Transitions())
		if !reflect.DeepEqual(got.Provenance, m.Provenance) {
			t.Errorf("provenance %+v, want %+v", got.Provenance, m.Provenance)
		}
		if !bytes.Equal(written(t, got), written(t, m)) {
			t.Error("the same model gives another file")
		}
	}
}

// fields is a record as goavro represents it.
type fields = map[string]any

// Names that goavro gives a part.
const (
	headerPart  = "geodither.model.Header"
	rowsPart    = "geodither.model.Rows"
	initialPart = "geodither.model.Initial"
)

func part(name string, content fields) fields { return fields{"part": goavro.Union(name, content)} }

// partsOf reads a model's file by goavro alone.
func partsOf(t testing.TB, m *Model) (parts []fields) {
	t.Helper()
	in, err := goavro.NewOCFReader(bytes.NewReader(written(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	if in.CompressionName() != goavro.CompressionDeflateLabel {
		t.Errorf("codec %s", in.CompressionName())
	}
	for in.Scan() {
		content, err := in.Read()
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, content.(fields))
	}
	if in.Err() != nil {
		t.Fatal(in.Err())
	}
	return parts
}

// TestFileIsAvro reads the file by goavro alone, and reads what goavro alone wrote.
func TestFileIsAvro(t *testing.T) {
	for _, m := range []*Model{
		placedModel(t), classModel(t, 6, 5), gapModel(t), structuredModel(t, 9, 8, 2, 1),
	} {
		got, err := ReadModel(bytes.NewReader(avroFile(t, partsOf(t, m))))
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, m)
	}
}

// TestIDIsOfTheContent changes each part of a model but its provenance, and the provenance.
func TestIDIsOfTheContent(t *testing.T) {
	base := func() *Model { return structuredModel(t, 4, 3, 1, 1) }
	id := base().ID()
	if len(id) != 16 || id != base().ID() {
		t.Fatalf("ids %s and %s", id, base().ID())
	}
	told := base()
	told.Provenance = Provenance{Source: "elsewhere", Tool: "other", Report: Report{Users: 7}}
	if told.ID() != id {
		t.Error("the provenance changes the id")
	}
	for name, change := range map[string]func(*Model){
		"step": func(m *Model) { m.Step = time.Second },
		"grid": func(m *Model) { m.Grid = plainGrid(t, 3, 4) },
		"value": func(m *Model) {
			m.Matrices[0].Values[0] += 1e-17 + m.Matrices[0].Values[0]*1e-15
		},
		"spread":        func(m *Model) { m.Matrices[0].Spread[2] *= 2 },
		"kernel":        func(m *Model) { m.Kernel.Columns[1] /= 2 },
		"kernel's rows": func(m *Model) { m.Kernel.Rows[1] /= 2 },
		"jumps":         func(m *Model) { m.Jumps.Share /= 2 },
		"jumps' side":   func(m *Model) { m.Jumps.Side++ },
		"column":        func(m *Model) { m.Matrices[0].Columns[2]++ },
		"row ends":      func(m *Model) { m.Matrices[0].RowStart[1]++ },
		"initial mass":  func(m *Model) { m.Initial.P[0] *= 2 },
		"initial cell":  func(m *Model) { m.Initial.Cells[11]++ },
	} {
		m := base()
		change(m)
		if m.ID() == id {
			t.Errorf("a change of the %s leaves the id", name)
		}
	}
}

func TestWriteFileIsAtomic(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "model.avro")
	m := placedModel(t)
	if err := m.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, got, m)

	broken := neighbourModel(t, 2, 2, 1, true, 1)
	broken.Initial.Reset()
	if err := broken.WriteFile(path); err == nil {
		t.Error("an invalid model was written")
	}
	if _, err := ReadModelFile(path); err != nil {
		t.Errorf("the failed write damaged the file: %v", err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("%d files are left", len(left))
	}
	if err := m.WriteFile(filepath.Join(folder, "missing", "model.avro")); err == nil {
		t.Error("writing into a missing folder gave no error")
	}
	if _, err := ReadModelFile(filepath.Join(folder, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestReadRefusesTruncation cuts the file at every byte of the header and at many further ones.
func TestReadRefusesTruncation(t *testing.T) {
	for _, m := range []*Model{placedModel(t), classModel(t, 30, 20)} {
		refusesTruncation(t, written(t, m))
	}
}

func refusesTruncation(t *testing.T, data []byte) {
	t.Helper()
	for n := 0; n < len(data); n += 1 + n/64 {
		m, err := ReadModel(bytes.NewReader(data[:n]))
		if err == nil || m != nil {
			t.Fatalf("the first %d of %d bytes are a model", n, len(data))
		}
		where := fmt.Sprintf("cut short at byte %d", n)
		if !strings.HasPrefix(err.Error(), "mobility: ") ||
			n > 3 && !strings.Contains(err.Error(), where) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// TestReadRefusesDamage flips a bit in each of many bytes: the format, the header's seal or the id
// finds it.
func TestReadRefusesDamage(t *testing.T) {
	every := 1
	if raceDetector {
		every = 8
	}
	for _, m := range []*Model{
		placedModel(t), classModel(t, 12, 10), structuredModel(t, 12, 10, 2, 1),
	} {
		data, refused := written(t, m), 0
		for at := range data {
			head, tail := at < len(Schema), at > len(Schema)+600 // the head is a schema
			if tail && at%31 > 0 || head && at%11 > 0 || at/31%every > 0 {
				continue
			}
			damaged := slices.Clone(data)
			damaged[at] ^= 1 << (at % 8)
			got, err := ReadModel(bytes.NewReader(damaged))
			if err != nil {
				refused++
				continue
			}
			m.Provenance.Report.MatrixEntries = int64(m.Transitions())
			if got.ID() != m.ID() || !reflect.DeepEqual(got.Provenance, m.Provenance) {
				t.Fatalf("byte %d: another model was accepted", at)
			}
		}
		if refused < 500/every {
			t.Errorf("%d damaged files of %d bytes were refused", refused, len(data))
		}
	}
}

// TestReadRefusesSwappedBlocks leaves out each block, repeats it, and exchanges it with the next.
func TestReadRefusesSwappedBlocks(t *testing.T) {
	m := classModel(t, 60, 50)
	parts := bytes.SplitAfter(written(t, m), []byte(m.ID())) // a block ends in the file's marker
	head, parts := parts[0], parts[1:len(parts)-1]
	if len(parts) != 7 { // the last class has two
		t.Fatalf("%d blocks", len(parts))
	}
	for i := range parts {
		without := slices.Delete(slices.Clone(parts), i, i+1)
		for name, changed := range map[string][][]byte{
			"left out": without,
			"doubled":  slices.Insert(slices.Clone(parts), i, parts[i]),
			"swapped":  slices.Insert(slices.Clone(without), (i+1)%len(parts), parts[i]),
		} {
			_, err := ReadModel(bytes.NewReader(slices.Concat(head, slices.Concat(changed...))))
			if err == nil ||
				!strings.Contains(err.Error(), "block ") &&
					!strings.Contains(err.Error(), "cut short") {
				t.Errorf("block %d %s: %v", i+1, name, err)
			}
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	var foreign bytes.Buffer
	out, err := goavro.NewOCFWriter(goavro.OCFConfig{
		W:      &foreign,
		Schema: `{"type":"record","name":"other","fields":[{"name":"a","type":"long"}]}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Append([]any{map[string]any{"a": 1}}); err != nil {
		t.Fatal(err)
	}
	good := func() []fields { return partsOf(t, neighbourModel(t, 3, 2, 1, true, 1)) }
	changed := func(change func(parts []fields) []fields) []byte {
		return avroFile(t, change(good()))
	}
	header := func(name string, value any) []byte {
		return changed(func(parts []fields) []fields { return told(t, parts, name, value) })
	}
	gaps := func(anew ...float64) []byte {
		law := make(GapLaw, len(anew))
		for i, w := range anew {
			law[i].Anew = w
		}
		return header("gaps", law)
	}
	entries := func(n ...int64) []byte { return header("entries", n) }
	for name, tt := range map[string]struct {
		data []byte
		says string
	}{
		"nothing": {nil, "no mobility model"},
		"text": {
			[]byte("user_id,timestamp,latitude,longitude\n"),
			"no mobility model",
		},
		"foreign avro": {foreign.Bytes(), "no mobility model"},
		"a huge header": {
			append([]byte("Obj\x01"), 2, 0xfe, 0xff, 0xff, 0xff, 0x0f),
			"no mobility model",
		},
		"only a header": {changed(func(p []fields) []fields { return p[:1] }), "cut short"},
		"no header":     {changed(func(p []fields) []fields { return p[1:] }), "not in order"},
		"two headers": {changed(func(p []fields) []fields {
			return slices.Insert(p, 1, p[0])
		}), "not in order"},
		"rows twice": {changed(func(p []fields) []fields {
			return slices.Insert(p, 1, p[1])
		}), "not in order"},
		"no initial":         {changed(func(p []fields) []fields { return p[:2] }), "cut short"},
		"version":            {header("version", 9), "version 9"},
		"gaps":               {gaps(.5), "sum to"},
		"a long law":         {gaps(make([]float64, 21)...), "21 sets of weights"},
		"other id":           {gaps(1), "not what its id"},
		"another id":         {header("id", "0123456789abcdef"), "not what its id"},
		"huge entries":       {entries(1 << 40), "states 1099511627776 entries"},
		"no number":          {entries(-1), "states -1 entries"},
		"more entries":       {entries(1 << 20), "block 3, bytes"},
		"few entries":        {entries(7), "block 2, bytes"},
		"fewer entries":      {entries(5), "block 2, bytes"},
		"a lop-sided kernel": {header("kernel", Kernel{Columns: []float64{1}}), "must be square"},
		"a wide kernel": {header("kernel", Kernel{
			Columns: make([]float64, 127), Rows: make([]float64, 127),
		}), "of 125 cells"},
		"an empty kernel": {header("kernel", Kernel{
			Columns: []float64{0}, Rows: []float64{1},
		}), "not in [0, 1]"},
		"a kernel": {
			header("kernel", Kernel{Columns: []float64{1}, Rows: []float64{1}}), "lacks",
		},
		"jumps":          {header("jumps", Jumps{Side: 0, Share: .5}), "jumps need"},
		"other jumps":    {header("jumps", Jumps{Side: 1, Share: .5}), "sum to 1.04"},
		"jumps in vain":  {header("jumps", Jumps{Side: 9, Share: .5}), "not what its id"},
		"no entries":     {entries(), "states the entries of 0 classes"},
		"other entries":  {entries(22, 22), "states the entries of 2 classes"},
		"seal":           {changed(breakSeal), "seal"},
		"epsilon":        {changed(addPrivacy), "seal"},
		"one hour":       {header("calendar", Calendar{Hours: []int{7}}), "two parts or none"},
		"more classes":   {header("calendar", Calendar{Weekend: true}), "calendar has 2"},
		"no JSON":        {header("calendar", 7), "is not JSON"},
		"step":           {header("step_ms", 0), "step"},
		"grid":           {header("width", 0), "grid cannot be"},
		"larger grid":    {header("height", 4), "initial distribution comes where row 6"},
		"largest grid":   {header("height", 6000), "comes where row 6"},
		"grid of a box":  {boxOfOtherSize(t), "cells, its box"},
		"missing values": {changed(dropValues), "does not have the entries"},
	} {
		m, err := ReadModel(bytes.NewReader(tt.data))
		if err == nil || m != nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
}

func inner(content fields, name string) fields { return content["part"].(fields)[name].(fields) }

// told changes a field of the header, and its seal.
func told(t testing.TB, parts []fields, name string, value any) []fields {
	t.Helper()
	h := inner(parts[0], headerPart)
	content := fields{}
	if err := json.Unmarshal([]byte(h["content"].(string)), &content); err != nil {
		t.Fatal(err)
	}
	content[name] = value
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	h["content"], h["seal"] = string(text), seal(text)
	return parts
}

func breakSeal(parts []fields) []fields {
	inner(parts[0], headerPart)["seal"] = "0123456789abcdef"
	return parts
}

func addPrivacy(parts []fields) []fields {
	h := inner(parts[0], headerPart)
	h["content"] = strings.Replace(h["content"].(string), `"privacy":null`,
		`"privacy":{"epsilon":"0.1","contribution":1,"radius":1}`, 1)
	return parts
}

func boxOfOtherSize(t *testing.T) []byte {
	t.Helper()
	parts := partsOf(t, neighbourModel(t, 3, 2, 1, true, 1))
	return avroFile(t, told(t, told(t, parts, "plain", false), "width", 4))
}

func dropValues(parts []fields) []fields {
	rows := inner(parts[1], rowsPart)
	rows["values"] = rows["values"].([]byte)[:16]
	return parts
}

// avroFile writes parts as they are, without a model's checks.
func avroFile(t testing.TB, parts []fields) []byte {
	t.Helper()
	var buf bytes.Buffer
	out, err := goavro.NewOCFWriter(goavro.OCFConfig{
		W: &buf, Schema: Schema, CompressionName: goavro.CompressionDeflateLabel,
		SyncMarker: [16]byte([]byte("sixteen letters!")),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if err := out.Append([]any{p}); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func FuzzReadModel(f *testing.F) {
	for _, m := range []*Model{
		neighbourModel(f, 3, 2, 1, true, 1), jumpModel(f, 5, 4, 1),
		classModel(f, 2, 2), gapModel(f), structuredModel(f, 3, 3, 2, 1),
	} {
		f.Add(written(f, m))
	}
	f.Add([]byte("Obj\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadModel(bytes.NewReader(data))
		if err != nil {
			return
		}
		again, err := ReadModel(bytes.NewReader(written(t, m)))
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, again, m)
		if !reflect.DeepEqual(again.Provenance, m.Provenance) {
			t.Fatalf("provenance %+v, want %+v", again.Provenance, m.Provenance)
		}
	})
}

// FuzzReadBlocks replaces the content of one of a file's blocks, packed again: it reaches what is
// behind the compression.
func FuzzReadBlocks(f *testing.F) {
	m := classModel(f, 2, 2)
	marker := []byte(m.ID())
	file := bytes.SplitAfter(written(f, m), marker)
	head, blocks := file[0], file[1:len(file)-1]
	for i := range blocks {
		var b block
		in := container{in: bufio.NewReader(bytes.NewReader(blocks[i])), marker: [16]byte(marker)}
		if err := in.next(&b); err != nil {
			f.Fatal(err)
		}
		content, err := b.content()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), slices.Clone(content))
	}
	f.Fuzz(func(t *testing.T, at uint8, content []byte) {
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		changed := slices.Clone(blocks)
		changed[int(at)%len(blocks)] = slices.Concat(binary.AppendVarint(
			binary.AppendVarint(nil, 1), int64(packed.Len())), packed.Bytes(), marker)
		got, err := ReadModel(bytes.NewReader(slices.Concat(head, slices.Concat(changed...))))
		if err == nil && got.ID() != got.contentHash() {
			t.Fatal("a model without its own id was accepted")
		}
		if err != nil && !strings.HasPrefix(err.Error(), "mobility: ") {
			t.Fatal(err)
		}
	})
}
