package mapping

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/schemas"
)

var update = flag.Bool("update", false, "write what comes of the messages into testdata")

// settings are the options of each file of messages: what a config has beside the preset.
func settings() map[string]Options {
	all := map[string]Options{"plain": {Format: Auto}}
	for _, p := range Presets() {
		all[string(p)] = Options{Preset: p}
	}
	all["debezium"] = Options{
		Preset: Debezium, User: User{Path: "device"}, Latitude: "lat", Longitude: "lon",
		Timestamp: Time{Path: "at", Unit: schemas.Microseconds},
		KeyCheck:  KeyCheckOff,
	}
	return all
}

// reader makes a reader without a registry.
func reader(tb testing.TB, o Options) *Reader {
	tb.Helper()
	m, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := m.NewReader(Decoders{})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// shown is what came of a record, a fix a line.
func shown(r *Reader, fixes []Fix) string {
	var b strings.Builder
	for _, f := range fixes {
		switch {
		case f.Refused != nil:
			fmt.Fprintf(&b, "refused: %s\n", f.Refused.Reason)
		case f.Skipped != NoRule:
			fmt.Fprintf(&b, "skipped: %s\n", r.Rules()[f.Skipped])
		default:
			fmt.Fprintf(&b, "%s %s %v %v\n", f.Raw.UserID,
				time.UnixMilli(f.Raw.Timestamp).UTC().Format(time.RFC3339Nano), f.Raw.Latitude,
				f.Raw.Longitude)
		}
	}
	return b.String()
}

// message is one case of a file: a title, the record, and what comes of it.
type message struct {
	title  string
	record Record
	want   string
}

func messages(tb testing.TB, path string) (all []message) {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n\n")
	for block := range strings.SplitSeq(strings.TrimSpace(rest), "\n\n") {
		input, want, ok := strings.Cut(block+"\n", "----\n")
		lines := strings.Split(strings.TrimSpace(input), "\n")
		if !ok {
			tb.Fatalf("%s: %q has no ----", path, lines[0])
		}
		m := message{title: lines[0], record: Record{Timestamp: -1}, want: want}
		for _, line := range lines[1:] {
			word, value, _ := strings.Cut(line, " ")
			switch word {
			case "key":
				m.record.Key = []byte(value)
			case "json":
				m.record.Value = []byte(value)
			case "hex":
				if m.record.Value, err = hex.DecodeString(value); err != nil {
					tb.Fatal(err)
				}
			default:
				tb.Fatalf("%s: %q is no line of a message", path, line)
			}
		}
		all = append(all, m)
	}
	return all
}

// TestMessages reads messages as their sources write them.
func TestMessages(t *testing.T) {
	for name, options := range settings() {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", name+".txt")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			r := reader(t, options)
			all := messages(t, path)
			for _, m := range all {
				fixes, err := r.Read(m.record)
				got := shown(r, fixes)
				if err != nil || got != m.want {
					t.Errorf("%s: %v, got\n%s, want\n%s", m.title, err, got, m.want)
				}
				if *update {
					text = []byte(strings.Replace(string(text), m.want, got, 1))
				}
			}
			if *update {
				if err := os.WriteFile(path, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestEveryPresetHasMessages: the file of each has one that is a fix and one that is none.
func TestEveryPresetHasMessages(t *testing.T) {
	if len(Presets()) != len(presets) {
		t.Errorf("%d presets are listed, %d are there", len(Presets()), len(presets))
	}
	for name := range settings() {
		all := messages(t, filepath.Join("testdata", name+".txt"))
		fixes, others := 0, 0
		for _, m := range all {
			if strings.Contains(m.want, ": ") {
				others++
			} else {
				fixes++
			}
		}
		if fixes == 0 || others == 0 {
			t.Errorf("%s has %d fixes and %d others", name, fixes, others)
		}
	}
}

// TestUser: the user of a record is known without its value where keys are checked, and is the one
// of its fixes where they are not.
func TestUser(t *testing.T) {
	for name, options := range settings() {
		all := messages(t, filepath.Join("testdata", name+".txt"))
		checked := reader(t, options)
		options.KeyCheck = KeyCheckOff
		unchecked := reader(t, options)
		for _, m := range all {
			for _, r := range []*Reader{checked, unchecked} {
				fixes, err := r.Read(m.record)
				if err != nil {
					t.Fatal(err)
				}
				user := UserOf(fixes)
				for _, f := range fixes {
					if f.Raw.UserID != "" && f.Raw.UserID != user {
						t.Errorf("%s, %s: the user is not that of the fix", name, m.title)
					}
				}
			}
		}
	}
}
