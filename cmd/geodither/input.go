package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/schemas"
)

func newInput(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "input",
		Short:   "Try on sample messages how raw records are read",
		Example: "  geodither input test -c geodither.yml messages.jsonl",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var keys, asJSON bool
	test := &cobra.Command{
		Use:   "test -c FILE MESSAGES...",
		Short: "Print the fixes that a config reads from sample messages",
		Long: `Read sample messages as "geodither run" would with a config, and print what became of each: the fix,
or why it would be refused or skipped. No broker is needed. The output holds places.

A .jsonl or .ndjson file, and - for standard input, has one message a line; any other file is one
message as it is. A message's key is in a file of the same name with .key behind it or, with --keys,
before a tab in the message's line; there, null stands for no key and for no value. Messages without
a key are not checked for it. The command fails if a fix is refused.`,
		Example: `  geodither input test -c geodither.yml messages.jsonl
  kafka-console-consumer.sh --bootstrap-server broker:9092 --topic fleet.raw --max-messages 20 \
    --property print.key=true | geodither input test -c geodither.yml --keys -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			t, err := newInputTest(path, std)
			if err != nil {
				return err
			}
			t.json = asJSON
			for _, arg := range args {
				if err := t.file(arg, keys); err != nil {
					return err
				}
			}
			return t.finish()
		},
	}
	test.Flags().BoolVar(&keys, "keys", false, "each line has the message's key and a tab first")
	test.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each fix")
	cmd.AddCommand(test)
	return cmd
}

// inputTest reads messages as a service would.
type inputTest struct {
	std   cli.Streams
	keyed *engine.Reader // of messages with a key
	plain *engine.Reader // of those without one: keys are not checked
	grid  *grid.Grid     // nil: there is no model
	noMap string         // why
	json  bool

	messages, fixes, skipped, keyless, outside int
	refused                                    engine.Refusals
	source                                     engine.Source
}

func newInputTest(path string, std cli.Streams) (*inputTest, error) {
	file, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	t := &inputTest{std: std}
	if t.source, err = file.Source(); err == nil {
		t.keyed, err = engine.NewReader(t.source)
	}
	if err != nil {
		return nil, config.Error(path, err)
	}
	t.plain = t.keyed
	if t.source.Mapping != nil {
		file.Input.KeyCheck = "off"
		source, err := file.Source()
		if err == nil {
			t.plain, err = engine.NewReader(source)
		}
		if err != nil {
			return nil, config.Error(path, err)
		}
	}
	return t, config.Error(path, t.loadMap(&file))
}

// loadMap takes the map of the config's model, if it is there: records are tried before a model is
// trained from them.
func (t *inputTest) loadMap(file *config.File) error {
	if file.Model == "" && file.Models == "" {
		t.noMap = "the config names no model"
		return nil
	}
	chosen, err := file.Chosen()
	if errors.Is(err, fs.ErrNotExist) {
		t.noMap = "the config's model is not there yet"
		return nil
	}
	if err != nil {
		return err
	}
	t.grid = chosen.Grid
	return nil
}

// file reads the messages of a file: one a line, or the file as one.
func (t *inputTest) file(path string, keys bool) error {
	switch filepath.Ext(path) {
	case ".jsonl", ".ndjson":
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close() // read only: nothing is lost if closing fails
		return t.lines(path, in, keys)
	}
	if path == "-" {
		return t.lines("line", t.std.In, keys)
	}
	value, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(path + ".key")
	if errors.Is(err, fs.ErrNotExist) {
		return t.message(path, nil, value)
	}
	if err != nil {
		return err
	}
	return t.message(path, bytes.TrimRight(key, "\r\n"), value)
}

// lines reads a message a line.
func (t *inputTest) lines(name string, in io.Reader, keys bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 2*schemas.MaxTreeBytes)
	n := 1
	for ; lines.Scan(); n++ {
		where, value := fmt.Sprintf("%s:%d", name, n), lines.Bytes()
		if len(bytes.TrimSpace(value)) == 0 {
			continue
		}
		var key []byte
		if keys {
			var found bool
			if key, value, found = bytes.Cut(value, []byte("\t")); !found {
				return fmt.Errorf("%s: no tab between a key and its message", where)
			}
		}
		value = bytes.TrimSpace(value)
		if keys && string(value) == "null" {
			value = nil
		}
		if keys && string(key) == "null" {
			key = []byte{} // known to be none
		}
		if err := t.message(where, key, value); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w; messages are at most %s", name, n, err,
			cli.ByteSize(schemas.MaxTreeBytes))
	}
	return nil
}

// message reads one message. A nil key means that the message's key is not known.
func (t *inputTest) message(where string, key, value []byte) error {
	t.messages++
	now, reader := time.Now(), t.keyed
	if key == nil {
		t.keyless++
		reader = t.plain
	}
	fixes, err := reader.Message(key, value, now)
	if key == nil && t.source.Mapping == nil && err == nil && fixes[0].Refused != nil &&
		fixes[0].Refused.Reason == schemas.ReasonKeyMismatch {
		fixes, err = reader.Message([]byte(fixes[0].Raw.UserID), value, now)
	}
	for i := 0; i < len(fixes) && err == nil; i++ {
		err = t.fix(where, value, fixes[i], key == nil)
	}
	return err
}

// triedFix is what became of a fix: its fields, or why there are none.
type triedFix struct {
	Where     string   `json:"where"`
	Skipped   string   `json:"skipped,omitempty"`
	Refused   string   `json:"refused,omitempty"`
	UserID    string   `json:"user_id,omitempty"`
	Timestamp int64    `json:"timestamp,omitempty"` // milliseconds since 1970
	Latitude  *float64 `json:"latitude,omitempty"`
	Longitude *float64 `json:"longitude,omitempty"`
}

// fix prints what became of a fix.
func (t *inputTest) fix(where string, value []byte, fix engine.Fix, keyless bool) error {
	t.fixes++
	if fix.Number > 0 {
		where += fmt.Sprintf(", fix %d", fix.Number)
	}
	what, skipped := "", t.source.WhySkipped(fix)
	tried := triedFix{Where: where, Skipped: skipped}
	switch {
	case skipped != "":
		t.skipped++
		what = "skipped: " + skipped
	case fix.Refused != nil && keyless && t.source.Mapping != nil &&
		t.source.Mapping.UserFromKey() && slices.Contains([]schemas.Reason{
		schemas.ReasonUserMissing, schemas.ReasonKeyMismatch,
	}, fix.Refused.Reason):
		t.refused.Add(fix.Refused.Reason, value)
		what = fmt.Sprintf("refused, %s: this config takes the user from the message's key: give "+
			"--keys or a .key file", fix.Refused.Reason)
	case fix.Refused != nil:
		t.refused.Add(fix.Refused.Reason, value)
		what = fmt.Sprintf("refused, %s: %s", fix.Refused.Reason, fix.Refused.Reason.Words())
	default:
		what = fmt.Sprintf("user_id=%q timestamp=%s latitude=%v longitude=%v", fix.Raw.UserID,
			time.UnixMilli(fix.Raw.Timestamp).UTC().Format("2006-01-02T15:04:05.000Z"),
			fix.Raw.Latitude, fix.Raw.Longitude) + t.place(fix.Raw)
	}
	if t.json {
		switch {
		case skipped != "":
		case fix.Refused != nil:
			tried.Refused = string(fix.Refused.Reason)
		default:
			tried.UserID, tried.Timestamp = fix.Raw.UserID, fix.Raw.Timestamp
			tried.Latitude, tried.Longitude = &fix.Raw.Latitude, &fix.Raw.Longitude
		}
		return json.NewEncoder(t.std.Out).Encode(tried)
	}
	_, err := fmt.Fprintf(t.std.Out, "%s  %s\n", where, what)
	return err
}

// place returns a remark on a fix that lies outside the map, or nothing.
func (t *inputTest) place(fix schemas.Raw) string {
	if t.grid == nil {
		return ""
	}
	switch p := engine.PlaceOn(t.grid, fix); {
	case p.Swapped:
		t.outside++
		return "  outside the map, but on it with latitude and longitude swapped"
	case p.Outside:
		t.outside++
		return "  outside the map"
	}
	return ""
}

// finish prints a summary. Its error says that fixes were refused.
func (t *inputTest) finish() error {
	refused := 0
	for _, n := range t.refused.ByReason {
		refused += int(n)
	}
	fmt.Fprintf(t.std.Err, "%s: %s read, %d skipped, %d refused",
		cli.Quantity(int64(t.messages), "message"),
		cli.Quantity(int64(t.fixes-t.skipped-refused), "fix"), t.skipped, refused)
	if t.grid != nil {
		fmt.Fprintf(t.std.Err, ", %d outside the map", t.outside)
	}
	fmt.Fprintln(t.std.Err)
	if t.grid == nil {
		fmt.Fprintf(t.std.Err, "not checked: whether fixes lie on the map, since %s\n", t.noMap)
	}
	if t.keyless > 0 {
		fmt.Fprintf(t.std.Err, "%s without a key: to check keys too, give --keys or a .key file\n",
			cli.Quantity(int64(t.keyless), "message"))
	}
	if refused == 0 {
		return nil
	}
	if advice := t.source.Advice(t.refused, 0); advice != "" {
		return fmt.Errorf("%d of %d fixes are refused: %s", refused, t.fixes, advice)
	}
	return fmt.Errorf("%d of %d fixes are refused", refused, t.fixes)
}
