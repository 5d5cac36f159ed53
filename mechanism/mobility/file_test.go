package mobility

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"github.com/geodither/geodither/mechanism/grid"
)

// placedModel is a small trained model with a place on Earth.
func placedModel(t testing.TB) *Model {
	t.Helper()
	g, err := grid.New(grid.Box{South: 10, West: 20, North: 10.05, East: 20.07}, 333)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := Train(g, time.Minute, sequence(wander(g, 3, 200, 3)), TrainOptions{KernelRadius: 2, Source: "a walk", Tool: "test"})
	if err != nil {
		t.Fatal(err)
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
	if got.ID() != want.ID() || got.Grid.ID() != want.Grid.ID() || got.Step != want.Step {
		t.Error("another model, grid or step")
	}
	if !slices.Equal(got.Matrices[0].RowStart, want.Matrices[0].RowStart) || !slices.Equal(got.Matrices[0].Columns, want.Matrices[0].Columns) ||
		!slices.Equal(got.Matrices[0].Values, want.Matrices[0].Values) {
		t.Error("another matrix")
	}
	if !slices.Equal(got.Initial.Cells, want.Initial.Cells) || !slices.Equal(got.Initial.P, want.Initial.P) {
		t.Error("another initial distribution")
	}
}

func TestFileRoundTrip(t *testing.T) {
	for _, m := range []*Model{placedModel(t), jumpModel(t, 40, 30, 1), neighbourModel(t, 1, 1, 1, true, 1), neighbourModel(t, 300, 300, 1, true, 1)} {
		got, err := ReadModel(bytes.NewReader(written(t, m)))
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, got, m)
		m.Provenance.Report.MatrixEntries = int64(m.Matrices[0].Transitions())
		if got.Provenance != m.Provenance {
			t.Errorf("provenance %+v, want %+v", got.Provenance, m.Provenance)
		}
	}
}

// TestFileIsAvro reads the file by goavro alone, and reads what goavro alone wrote without compression.
func TestFileIsAvro(t *testing.T) {
	m := placedModel(t)
	in, err := goavro.NewOCFReader(bytes.NewReader(written(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	if in.CompressionName() != goavro.CompressionDeflateLabel {
		t.Errorf("codec %s", in.CompressionName())
	}
	var plain bytes.Buffer
	out, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &plain, Schema: Schema})
	if err != nil {
		t.Fatal(err)
	}
	for in.Scan() {
		content, err := in.Read()
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Append([]any{content}); err != nil {
			t.Fatal(err)
		}
	}
	if in.Err() != nil {
		t.Fatal(in.Err())
	}
	got, err := ReadModel(&plain)
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, got, m)
}

// TestIDIsOfTheContent changes each part of a model but its provenance, and the provenance.
func TestIDIsOfTheContent(t *testing.T) {
	base := func() *Model { return neighbourModel(t, 4, 3, 1, true, 1) }
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
		"step":         func(m *Model) { m.Step = time.Second },
		"grid":         func(m *Model) { m.Grid = plainGrid(t, 3, 4) },
		"value":        func(m *Model) { m.Matrices[0].Values[0] += 1e-17 + m.Matrices[0].Values[0]*1e-15 },
		"column":       func(m *Model) { m.Matrices[0].Columns[2]++ },
		"row ends":     func(m *Model) { m.Matrices[0].RowStart[1]++ },
		"initial mass": func(m *Model) { m.Initial.P[0] *= 2 },
		"initial cell": func(m *Model) { m.Initial.Cells[11]++ },
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
	data := written(t, placedModel(t))
	for n := 0; n < len(data); n += 1 + n/64 {
		m, err := ReadModel(bytes.NewReader(data[:n]))
		if err == nil || m != nil {
			t.Fatalf("the first %d of %d bytes are a model", n, len(data))
		}
		if !strings.HasPrefix(err.Error(), "mobility: ") {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// TestReadRefusesDamage flips a bit in each of many bytes; the id finds what the format does not.
func TestReadRefusesDamage(t *testing.T) {
	m := placedModel(t)
	data := written(t, m)
	for at := 0; at < len(data); at += 1 + at/512 {
		damaged := slices.Clone(data)
		damaged[at] ^= 4
		got, err := ReadModel(bytes.NewReader(damaged))
		if err == nil && got.ID() != m.ID() {
			t.Fatalf("byte %d: another model was accepted", at)
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	var foreign bytes.Buffer
	out, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &foreign, Schema: `{"type":"record","name":"other","fields":[{"name":"a","type":"long"}]}`})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Append([]any{map[string]any{"a": 1}}); err != nil {
		t.Fatal(err)
	}
	good := func() []fields { return slices.Collect(neighbourModel(t, 3, 2, 1, true, 1).parts()) }
	changed := func(change func(parts []fields) []fields) []byte { return avroFile(t, change(good()), false) }
	header := func(name string, value any) []byte {
		return changed(func(parts []fields) []fields {
			inner(parts[0], headerPart)[name] = value
			return parts
		})
	}
	for name, tt := range map[string]struct {
		data []byte
		says string
	}{
		"nothing":        {nil, "not a mobility model"},
		"text":           {[]byte("user_id,timestamp,latitude,longitude\n"), "not a mobility model"},
		"foreign avro":   {foreign.Bytes(), "not a mobility model"},
		"a huge header":  {append([]byte("Obj\x01"), 2, 0xfe, 0xff, 0xff, 0xff, 0x0f), "not a mobility model"},
		"only a header":  {changed(func(p []fields) []fields { return p[:1] }), "cut short"},
		"no header":      {changed(func(p []fields) []fields { return p[1:] }), "not in order"},
		"two headers":    {changed(func(p []fields) []fields { return slices.Insert(p, 1, p[0]) }), "not in order"},
		"rows twice":     {changed(func(p []fields) []fields { return slices.Insert(p, 1, p[1]) }), "missing or double"},
		"no initial":     {changed(func(p []fields) []fields { return p[:2] }), "cut short"},
		"version":        {header("version", 9), "version 9"},
		"another id":     {header("id", "0123456789abcdef"), "not what its id"},
		"entries":        {header("entries", 1<<40), "cut short"},
		"few entries":    {header("entries", 7), "more than the 7 entries"},
		"step":           {header("step_ms", 0), "step"},
		"grid":           {header("width", 0), "grid cannot be"},
		"larger grid":    {header("height", 4), "cut short"},
		"largest grid":   {header("height", 6000), "each needs one"},
		"grid of a box":  {changed(boxOfOtherSize), "cells, its box gives"},
		"missing values": {changed(dropValues), "does not have the entries"},
	} {
		m, err := ReadModel(bytes.NewReader(tt.data))
		if err == nil || m != nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
}

func inner(content fields, name string) fields { return content["part"].(fields)[name].(fields) }

func boxOfOtherSize(parts []fields) []fields {
	header := inner(parts[0], headerPart)
	header["plain"], header["width"] = false, 4
	return parts
}

func dropValues(parts []fields) []fields {
	rows := inner(parts[1], rowsPart)
	rows["values"] = rows["values"].([]byte)[:16]
	return parts
}

// avroFile writes parts as they are, without a model's checks, in a block each or all in one.
func avroFile(t testing.TB, parts []fields, together bool) []byte {
	t.Helper()
	var buf bytes.Buffer
	out, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &buf, Schema: Schema, CompressionName: goavro.CompressionDeflateLabel})
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][]any
	for i, p := range parts {
		if i == 0 || !together {
			blocks = append(blocks, nil)
		}
		blocks[len(blocks)-1] = append(blocks[len(blocks)-1], p)
	}
	for _, block := range blocks {
		if err := out.Append(block); err != nil {
			t.Fatal(err)
		}
	}
	return buf.Bytes()
}

func FuzzReadModel(f *testing.F) {
	for _, m := range []*Model{neighbourModel(f, 3, 2, 1, true, 1), jumpModel(f, 5, 4, 1)} {
		f.Add(written(f, m))
		// Without compression the fuzzer can reach the content.
		var plain bytes.Buffer
		out, err := goavro.NewOCFWriter(goavro.OCFConfig{W: &plain, Schema: Schema})
		if err != nil {
			f.Fatal(err)
		}
		for p := range m.parts() {
			if err := out.Append([]any{p}); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(plain.Bytes())
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
	})
}

// TestProvenanceHoldsNoPerson trains on named users and looks for their names in the file.
func TestProvenanceHoldsNoPerson(t *testing.T) {
	m := placedModel(t)
	if text := fmt.Sprintf("%+v", m.Provenance); strings.Contains(text, "user1") {
		t.Errorf("the provenance names a user: %s", text)
	}
	for content := range m.parts() {
		if strings.Contains(fmt.Sprintf("%q", content), "user1") {
			t.Error("the file names a user")
		}
	}
}
