package task

import "testing"

// TestReadEntry: each kind of record, and a mark that cannot be read, which is Fatal.
func TestReadEntry(t *testing.T) {
	for _, c := range []struct {
		key, value string
		want       Kind
	}{
		{MarkKey, string(AppendMark(nil, Mark{Input: 7})), Marked},
		{"bus-7", "state", Stated},
		{"bus-7", "", Tombstone},
		{KeptKey + "name", "", Kept},
		{RequestKey + "name", "request", Requested},
		{PartitionKey, "state", Common},
		{PartitionKey, "", Common},
		{PartitionKey + "-2", "state", Common},
		{"", "state", Foreign},
		{"\x00", "state", Foreign},
		{MarkKey + "-2", "state", Foreign},
	} {
		e, err := ReadEntry(Record{
			Offset: 3, Timestamp: 5, Key: []byte(c.key), Value: []byte(c.value),
		})
		if err != nil || e.Kind != c.want || e.Offset != 3 || e.Timestamp != 5 ||
			string(e.Value) != c.value {
			t.Errorf("%q, %q: %+v, %v", c.key, c.value, e, err)
		}
		if e.Kind == Marked && e.Mark.Input != 7 {
			t.Errorf("the mark is %+v", e.Mark)
		}
	}
	if _, err := ReadEntry(Record{Key: markKey}); RemedyOf(err) != Fatal {
		t.Errorf("a mark without a value: %v", err)
	}
}
