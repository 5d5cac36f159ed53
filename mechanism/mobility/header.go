package mobility

import (
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/linkedin/goavro/v2"

	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/internal/decode"
)

// Schema is the Avro schema of a model file, an Avro object container with the deflate codec; see
// FORMAT.md.
//
//go:embed model.avsc
var Schema string

// formatVersion is the version of the format; the schema in a file has it too.
const formatVersion = 3

// MaxEntries is the largest number of transitions that one matrix of a model file may have.
const MaxEntries = 1 << 28

// codec is made once. A goavro codec is safe for use by many goroutines.
var codec = sync.OnceValues(func() (*goavro.Codec, error) { return goavro.NewCodec(Schema) })

func partCodec() (*goavro.Codec, error) {
	c, err := codec()
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	return c, nil
}

// Names of the union's branches.
const (
	headerPart  = "geodither.model.Header"
	privacyPart = "geodither.model.Privacy"
	gapsPart    = "array"
)

// fields is a record as goavro represents it.
type fields = map[string]any

// headerOf returns the first part of a model's file, sealed.
func headerOf(m *Model) (fields, error) {
	g, p := m.Grid, m.Provenance
	report, err := json.Marshal(p.Report)
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	var privacy, fit, gaps any
	if p.Privacy != nil {
		privacy = goavro.Union(privacyPart, fields{
			"epsilon":      p.Privacy.Epsilon,
			"contribution": p.Privacy.Contribution, "radius": p.Privacy.Radius,
		})
	}
	if m.Gaps != nil {
		gaps = goavro.Union(gapsPart, gapsField(m.Gaps))
	}
	if p.Fit != nil {
		text, err := json.Marshal(p.Fit)
		if err != nil {
			return nil, fmt.Errorf("mobility: the fit report cannot be written: %w", err)
		}
		fit = goavro.Union("string", string(text))
	}
	var entries []byte
	for _, matrix := range m.Matrices {
		entries = binary.AppendUvarint(entries, uint64(matrix.Transitions()))
	}
	hours := int32(0)
	for _, hour := range m.Calendar.Hours {
		hours |= 1 << hour
	}
	box := g.Box()
	content := fields{
		"version": int32(formatVersion), "id": m.ID(), "seal": "", "plain": g.IsPlain(),
		"south": box.South, "west": box.West, "north": box.North, "east": box.East,
		"cell_m": g.CellM(), "cell_km": g.CellKM(), "width": g.Width(), "height": g.Height(),
		"step_ms": m.Step.Milliseconds(),
		"calendar": fields{
			"utc_offset_minutes": int32(m.Calendar.UTCOffset.Minutes()), "hours": hours,
			"weekend": m.Calendar.Weekend,
		},
		"entries": entries, "gaps": gaps,
		"provenance": fields{
			"source": p.Source, "tool": p.Tool, "options": p.Options, "report": string(report),
			"privacy": privacy, "fit": fit,
		},
	}
	content["seal"], err = seal(content)
	return fields{"part": goavro.Union(headerPart, content)}, err
}

// seal returns the hash of a header without its seal: 16 hex digits. The model id does not cover
// the provenance, so without the seal a damaged ε would go unnoticed.
func seal(header fields) (string, error) {
	c, err := partCodec()
	if err != nil {
		return "", err
	}
	before := header["seal"]
	header["seal"] = ""
	data, err := c.BinaryFromNative(nil, fields{"part": goavro.Union(headerPart, header)})
	header["seal"] = before
	if err != nil {
		return "", fmt.Errorf("mobility: the header cannot be encoded: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// head is the content of a header: a model without rows, its id, and how many entries each class
// has.
type head struct {
	model   *Model
	id      string
	entries []int64
}

// decodeHeader reads the header, with which the content of the file's first block starts. It
// returns what follows the header.
func decodeHeader(at *block, content []byte) (*head, []byte, error) {
	if (&decode.Reader{Rest: content}).Varint() != headerKind {
		return nil, nil, at.damaged("its parts are not in order: it does not begin with a header")
	}
	c, err := partCodec()
	if err != nil {
		return nil, nil, err
	}
	value, rest, err := c.NativeFromBinary(content[:min(len(content), maxHeaderBytes)])
	if err != nil {
		return nil, nil, at.damaged("the header cannot be decoded")
	}
	content = content[min(len(content), maxHeaderBytes)-len(rest):]
	h := value.(fields)["part"].(fields)[headerPart].(fields)
	// goavro has checked the types against the schema.
	if version := h["version"].(int32); version != formatVersion {
		return nil, nil, fmt.Errorf("mobility: the model file has version %d, and this program "+
			"reads version %d; use the program that wrote it, or train again", version,
			formatVersion)
	}
	if want, err := seal(h); err != nil || want != h["seal"].(string) {
		return nil, nil, at.damaged("the header does not match its seal")
	}
	head, err := headOf(h)
	return head, content, err
}

func headOf(h fields) (*head, error) {
	g, err := gridOf(h)
	if err != nil {
		return nil, err
	}
	stepMS := h["step_ms"].(int64)
	if stepMS < 1 || stepMS > (24*time.Hour).Milliseconds() {
		return nil, errors.New("mobility: the model's step is not between a millisecond and a " +
			"day; train again")
	}
	out := &head{
		model: &Model{Grid: g, Step: time.Duration(stepMS) * time.Millisecond},
		id:    h["id"].(string),
	}
	if out.model.Calendar, err = calendarOf(h["calendar"].(fields)); err != nil {
		return nil, err
	}
	if out.entries, err = entriesOf(h["entries"].([]byte),
		out.model.Calendar.Classes()); err != nil {
		return nil, err
	}
	if out.model.Provenance, err = provenanceOf(h["provenance"].(fields)); err != nil {
		return nil, err
	}
	if out.model.Gaps, err = gapsOf(h["gaps"]); err != nil {
		return nil, err
	}
	total := int64(0)
	for _, n := range out.entries {
		if n < int64(g.Cells()) || n > MaxEntries {
			return nil, fmt.Errorf("mobility: the model file states %d entries for a grid of %d "+
				"cells: each needs one, and there can be %d in all; train again",
				n, g.Cells(), MaxEntries)
		}
		total += n
	}
	out.model.Provenance.Report.MatrixEntries = total
	return out, nil
}

func gridOf(h fields) (g *grid.Grid, err error) {
	width, height := int(h["width"].(int32)), int(h["height"].(int32))
	if h["plain"].(bool) {
		g, err = grid.Plain(width, height, h["cell_km"].(float64))
	} else {
		box := grid.Box{
			South: h["south"].(float64), West: h["west"].(float64),
			North: h["north"].(float64), East: h["east"].(float64),
		}
		g, err = grid.New(box, h["cell_m"].(float64))
	}
	if err != nil {
		return nil, fmt.Errorf("mobility: the model's grid cannot be used: %w", err)
	}
	if g.Width() != width || g.Height() != height {
		return nil, fmt.Errorf("mobility: the model's grid has %d × %d cells, its box gives %d "+
			"× %d; train again", width,
			height, g.Width(), g.Height())
	}
	return g, nil
}

// gapsField returns a law of gaps as goavro represents it.
func gapsField(l GapLaw) []any {
	list := make([]any, len(l))
	for i, w := range l {
		moves := make([]any, len(w.Moves))
		for j, v := range w.Moves {
			moves[j] = v
		}
		list[i] = fields{"moves": moves, "chain": w.Chain, "anew": w.Anew}
	}
	return list
}

// gapsOf is the inverse of gapsField, for any file that its schema allows.
func gapsOf(field any) (GapLaw, error) {
	branch, ok := field.(fields)
	if !ok {
		return nil, nil
	}
	list := branch[gapsPart].([]any)
	if len(list) == 0 || len(list) > MaxGapWeights {
		return nil, fmt.Errorf("mobility: the model's law of gaps has %d sets of weights, where 1 "+
			"to %d are possible; train again", len(list), MaxGapWeights)
	}
	law := make(GapLaw, len(list))
	for i, item := range list {
		moves := item.(fields)["moves"].([]any)
		if len(moves) != len(GapMoves) {
			return nil, fmt.Errorf("mobility: the model's law of gaps has %d weights of moves in "+
				"a set, and needs %d; train again", len(moves), len(GapMoves))
		}
		for j, v := range moves {
			law[i].Moves[j] = v.(float64)
		}
		law[i].Chain = item.(fields)["chain"].(float64)
		law[i].Anew = item.(fields)["anew"].(float64)
	}
	if err := law.Validate(); err != nil {
		return nil, fmt.Errorf("%w; train again", err)
	}
	return law, nil
}

func calendarOf(h fields) (Calendar, error) {
	c := Calendar{
		UTCOffset: time.Duration(h["utc_offset_minutes"].(int32)) * time.Minute,
		Weekend:   h["weekend"].(bool),
	}
	hours := h["hours"].(int32)
	if hours < 0 || hours >= 1<<24 {
		return c, errors.New("mobility: the model's calendar has hours outside 0 to 23; " +
			"train again")
	}
	for hour := range 24 {
		if hours>>hour&1 == 1 {
			c.Hours = append(c.Hours, hour)
		}
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%w; train again", err)
	}
	return c, nil
}

func entriesOf(data []byte, classes int) (entries []int64, err error) {
	for range classes {
		n, read := binary.Uvarint(data)
		if read <= 0 || n > MaxEntries {
			return nil, fmt.Errorf("mobility: the model file does not state how many entries "+
				"each of its %d classes has, or states more than %d; train again", classes,
				MaxEntries)
		}
		data = data[read:]
		entries = append(entries, int64(n))
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("mobility: the model file states entries of more than its %d "+
			"classes; train again", classes)
	}
	return entries, nil
}

func provenanceOf(h fields) (Provenance, error) {
	p := Provenance{
		Source: h["source"].(string), Tool: h["tool"].(string),
		Options: h["options"].(string),
	}
	if err := json.Unmarshal([]byte(h["report"].(string)), &p.Report); err != nil {
		return p, errors.New("mobility: the model file's training report is not JSON of the " +
			"expected form; train again")
	}
	if branch, ok := h["privacy"].(fields); ok {
		v := branch[privacyPart].(fields)
		p.Privacy = &Privacy{
			Epsilon:      v["epsilon"].(string),
			Contribution: int(v["contribution"].(int32)), Radius: int(v["radius"].(int32)),
		}
	}
	if branch, ok := h["fit"].(fields); ok {
		if err := json.Unmarshal([]byte(branch["string"].(string)), &p.Fit); err != nil ||
			p.Fit == nil {
			return p, errors.New("mobility: the model file's fit report is not JSON of the " +
				"expected form; train again, or read it with the program that wrote it")
		}
	}
	return p, nil
}
