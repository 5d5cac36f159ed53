package schemas

import (
	"errors"
	"testing"
)

// A codec with other names reads and writes them, and the one that it was made
// of goes on with its own.
func TestRenameRaw(t *testing.T) {
	plain, err := NewCodec(JSON)
	if err != nil {
		t.Fatal(err)
	}
	other, err := plain.RenameRaw(map[string]string{"user_id": "vehicle", "latitude": "y"})
	if err != nil {
		t.Fatal(err)
	}
	const renamed = `{"vehicle":"u1","timestamp":1700000000000,"y":1.5,"longitude":2.5}`
	const own = `{"user_id":"u1","timestamp":1700000000000,"latitude":1.5,"longitude":2.5}`
	fix, err := other.DecodeRaw([]byte(renamed))
	if err != nil || fix != (Raw{
		UserID: "u1", Timestamp: 1_700_000_000_000, Latitude: 1.5,
		Longitude: 2.5,
	}) {
		t.Errorf("another record was read: %v", err)
	}
	again, err := other.AppendRaw(nil, fix)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := other.DecodeRaw(again); err != nil || back != fix {
		t.Errorf("what it wrote it does not read: %v", err)
	}
	if _, err := plain.DecodeRaw([]byte(own)); err != nil {
		t.Errorf("the first codec has changed: %v", err)
	}
	var rejection *Rejection
	if _, err := other.DecodeRaw([]byte(own)); !errors.As(err, &rejection) ||
		rejection.Reason != ReasonMissingField.At("user_id") {
		t.Errorf("a record without the names gives %v", err)
	}
}

func TestRenameRawRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		encoding Encoding
		names    map[string]string
	}{
		"avro":          {Avro, map[string]string{"user_id": "vehicle"}},
		"unknown field": {JSON, map[string]string{"speed": "v"}},
		"no name":       {JSON, map[string]string{"user_id": ""}},
		"twice":         {JSON, map[string]string{"user_id": "a", "latitude": "a"}},
		"of another":    {JSON, map[string]string{"user_id": "latitude"}},
	} {
		codec, err := NewCodec(c.encoding)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := codec.RenameRaw(c.names); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
