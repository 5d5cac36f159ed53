package mobility

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"
)

// TestReadRefusesBombs reads small files that inflate to much, behind a header that allows for
// much, and bounds what reading them allocates.
func TestReadRefusesBombs(t *testing.T) {
	const long = 6 << 20
	one := binary.LittleEndian.AppendUint64(nil, math.Float64bits(1))
	rows := func(lengths, columns, values []byte) fields {
		return part(rowsPart, fields{
			"class": 0, "first": 0, "lengths": lengths, "columns": columns,
			"values": values, "spread": []byte{},
		})
	}
	kernels := part(rowsPart, fields{
		"class": 0, "first": 0, "lengths": make([]byte, 1<<20), "columns": []byte{},
		"values": []byte{}, "spread": bytes.Repeat(one, 1<<20),
	})
	initial := func(n int) fields {
		return part(initialPart, fields{
			"cells":  bytes.Repeat([]byte{2}, n),
			"values": bytes.Repeat(one, n),
		})
	}
	const n = 1 << 20
	bound := uint64(112 << 20)
	if raceDetector {
		bound *= 2
	}
	for name, tt := range map[string]struct {
		parts  []fields
		says   string
		kernel bool
	}{
		"rows of no length": {
			[]fields{rows(make([]byte, long), nil, nil)}, "row 0: ", false,
		},
		"kernels without a kernel": {[]fields{kernels}, "row 0: ", false},
		"rows without mass": {[]fields{rows(bytes.Repeat([]byte{1}, n), make([]byte, n),
			make([]byte, 8*n))}, "row 0: ", false},
		"a row many times": {[]fields{rows(binary.AppendUvarint(nil, n), make([]byte, n),
			bytes.Repeat(one, n))}, "row 0: ", false},
		"no rows":  {[]fields{rows(nil, nil, nil)}, "a part has no rows", false},
		"no cells": {[]fields{initial(0)}, "has no cells", false},
		"many cells": {
			[]fields{initial(n / 2), initial(n / 2)},
			"initial distribution comes where row 0",
			false,
		},
		"a long block": {
			[]fields{rows(make([]byte, 3*long), nil, nil)}, "does not inflate", false,
		},
		"rows of kernels alone": {[]fields{kernels}, "cut short", true},
	} {
		header := hugeHeader(t)
		if tt.kernel {
			kernel := Kernel{Columns: []float64{1}, Rows: []float64{1}}
			header = told(t, []fields{header}, "kernel", kernel)[0]
		}
		data := avroFile(t, append([]fields{header}, tt.parts...))
		if len(data) > 1<<20 {
			t.Fatalf("%s: %d bytes are no bomb", name, len(data))
		}
		var err error
		allocated := allocating(func() { _, err = ReadModel(bytes.NewReader(data)) })
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
		if allocated > bound {
			t.Errorf("%s: %d MiB allocated for a file of %d kB", name, allocated>>20, len(data)>>10)
		}
	}
}

// hugeHeader declares a grid of 2²⁰ cells and far more entries than any file holds.
func hugeHeader(t *testing.T) fields {
	t.Helper()
	parts := partsOf(t, neighbourModel(t, 2, 2, 1, true, 1))
	for name, value := range map[string]any{
		"width": 1 << 10, "height": 1 << 10, "cell_km": .01, "entries": []int{MaxEntries},
	} {
		parts = told(t, parts, name, value)
	}
	return parts[0]
}

func allocating(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
