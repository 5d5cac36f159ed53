package traces

import (
	"strings"
	"testing"
)

func BenchmarkCSV(b *testing.B) {
	benchmark(b, Options{Format: CSV}, csvHeader, "u1,2023-11-14T22:13:20Z,3.912345,6.312345\n")
}

func BenchmarkCSVMillis(b *testing.B) {
	benchmark(b, Options{Format: CSV}, csvHeader, "u1,1700000000000,3.912345,6.312345\n")
}

func BenchmarkCSVQuoted(b *testing.B) {
	benchmark(b, Options{Format: CSV}, csvHeader, `"u1","1700000000000","3.912345","6.312345"`+"\n")
}

func BenchmarkNDJSON(b *testing.B) {
	benchmark(b, Options{Format: NDJSON}, "",
		`{"user_id":"u1","timestamp":1700000000000,"latitude":3.912345,"longitude":6.312345}`+"\n")
}

func BenchmarkGowalla(b *testing.B) {
	// Two users in turn: runs of one check-in, without sorting a million.
	benchmark(b, Options{Format: Gowalla}, "",
		"0\t2010-10-19T23:55:27Z\t3.2359091167\t-7.7951395833\t22847\n"+
			"1\t2010-10-19T23:55:27Z\t3.2359091167\t-7.7951395833\t22847\n")
}

// benchmark reads 20,000 repetitions of unit as one input.
func benchmark(b *testing.B, o Options, head, unit string) {
	b.Helper()
	const count = 20_000
	b.SetBytes(int64(len(head) + count*len(unit)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		r := open(b, []string{Stdin}, &repeat{head: head, unit: unit, left: count}, o)
		for _, err := range r.Fixes() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/fix")
}

func BenchmarkGeolifeLine(b *testing.B) {
	line := []byte("3.984702,6.318417,0,492,39744.1201851852,2008-10-23,02:53:04")
	b.SetBytes(int64(len(line)) + 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, reason := parsePoint(line); reason != "" {
			b.Fatal(reason)
		}
	}
}

func BenchmarkGeolifeFile(b *testing.B) {
	const point = "3.984702,6.318417,0,492,39744.1201851852,2008-10-23,02:53:04\r\n"
	content := pltHeader + strings.Repeat(point, 1000)
	path := write(b, b.TempDir(), "u1/Trajectory/a.plt", content)
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range open(b, []string{path}, nil, Options{}).Fixes() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
