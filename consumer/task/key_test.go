package task

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// TestKey: states are under the key that Dependencies.Key names, whatever the record's own is, and
// a record of no state gets none.
func TestKey(t *testing.T) {
	s := newScript()
	s.key = func(rec Record) ([]byte, any, error) {
		return bytes.ToUpper(rec.Key), string(rec.Value) + " read", nil
	}
	if err := s.run(t, Options{}); err != nil {
		t.Fatal(err)
	}
	if s.read != "v2 read" {
		t.Errorf("the last record was processed with %q", s.read)
	}
	if s.states["ANN"] != "+v0+v2" || s.states["BOB"] != "+v1" || s.states["ann"] != "" {
		t.Errorf("the states are %v", s.states)
	}
	for _, line := range []string{
		"store.get ANN", "store.get BOB", `process ann=v0 state ""`, `process bob=v1 state ""`,
		`process ann=v2 state "+v0"`,
	} {
		if !slices.Contains(s.lines, line) {
			t.Errorf("%s: it was not so in %q", line, s.lines)
		}
	}

	s = newScript()
	s.key = func(Record) ([]byte, any, error) { return nil, nil, nil }
	if err := s.run(t, Options{}); !errors.Is(err, ErrReservedKey) {
		t.Errorf("a new state without a key: %v", err)
	}

	s = newScript()
	away := WithRemedy(errors.New("no schema yet"), Rebuild)
	calls := 0
	s.key = func(rec Record) ([]byte, any, error) {
		if calls++; calls == 2 {
			return nil, nil, away
		}
		return rec.Key, nil, nil
	}
	if err := s.run(t, Options{}); err != nil || s.states["ann"] != "+v0+v2" ||
		s.states["bob"] != "+v1" {
		t.Errorf("a key that cannot be known for a while: %v, %v", err, s.states)
	}
}
