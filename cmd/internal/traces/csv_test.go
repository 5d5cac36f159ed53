package traces

import (
	"strings"
	"testing"
)

const (
	noon = 1_700_000_000_000 // 2023-11-14T22:13:20Z
)

func TestCSV(t *testing.T) {
	one := row{"u1", noon, 10.5, -20.25, -1}
	for name, c := range map[string]struct {
		text  string
		want  []row
		skips []string
	}{
		"plain": {
			text: "user_id,timestamp,latitude,longitude\nu1,1700000000000,10.5,-20.25\n",
			want: []row{one},
		},
		"no last newline": {
			text: "user_id,timestamp,latitude,longitude\nu1,1700000000000,10.5,-20.25",
			want: []row{one},
		},
		"other order, other columns": {
			text: "note,lng,lat,uid,ts\nx,-20.25,10.5,u1,1700000000000\n", want: []row{one},
		},
		"aliases and case": {
			text: "USER,Time,Lat,Long\nu1,2023-11-14T22:13:20Z,10.5,-20.25\n", want: []row{one},
		},
		"first name wins": {
			text: "user,user_id,timestamp,lat,lon\nu2,u1,1700000000000,10.5,-20.25\n",
			want: []row{one},
		},
		"BOM and CRLF": {
			text: "\ufeffuser_id,timestamp,lat,lon\r\nu1,1700000000000,10.5,-20.25\r\n",
			want: []row{one},
		},
		"empty lines": {
			text: "\n\nuser_id,timestamp,lat,lon\n\nu1,1700000000000,10.5,-20.25\n\n",
			want: []row{one},
		},
		"blanks": {
			text: "user_id, timestamp ,lat,lon\n u1 , 1700000000000,\t10.5 , -20.25\n",
			want: []row{one},
		},
		"space for the T": {
			text: "user_id,timestamp,lat,lon\nu1,2023-11-14 22:13:20,10.5,-20.25\n",
			want: []row{one},
		},
		"zone": {
			text: "user_id,timestamp,lat,lon\nu1,2023-11-15T00:13:20+02:00,10.5,-20.25\n",
			want: []row{one},
		},
		"header alone": {text: "user_id,timestamp,lat,lon\n"},
		"quoted": {
			text: `"user_id","timestamp","lat","lon"` + "\n" +
				`"u1","1700000000000","10.5","-20.25"` + "\n", want: []row{one},
		},
		"quotes, comma, line": {
			text: "user_id,note,timestamp,lat,lon\n\"a \"\"b\"\", c\",\"two\r\n" +
				"lines\",1700000000000,1,2\n", want: []row{{`a "b", c`, noon, 1, 2, -1}},
		},
		"blanks in quotes": {
			text: "user_id,timestamp,lat,lon\n\" u \" ,1700000000000,1,2\n",
			want: []row{{" u ", noon, 1, 2, -1}},
		},
		"accuracy": {
			text: "user_id,timestamp,lat,lon,accuracy_m\na,1700000000000,1,2,3.5\n" +
				"a,1700000000000,1,2,\n",
			want: []row{{"a", noon, 1, 2, 3.5}, {"a", noon, 1, 2, -1}},
		},
		"bad lines": {
			text: strings.Join([]string{
				"user_id,timestamp,lat,lon,accuracy_m",
				"u1,1700000000000,10.5,-20.25,", // 2: good
				"u1,1700000000000,10.5",
				"u1,1700000000000,10.5,-20.25,,",
				"u1,yesterday,10.5,-20.25,",
				"u1,1700000000,10.5,-20.25,",
				"u1,1700000000000,ten,-20.25,",
				"u1,1700000000000,0x10,-20.25,",
				"u1,1700000000000,,-20.25,",
				"u1,1700000000000,NaN,-20.25,",
				"u1,1700000000000,1e999,-20.25,",
				"u1,1700000000000,400.1667,-20.25,",
				"u1,1700000000000,10.5,-180.5,",
				",1700000000000,10.5,-20.25,",
				strings.Repeat("u", 256) + ",1700000000000,10.5,-20.25,",
				"u\xff,1700000000000,10.5,-20.25,",
				"u1,1700000000000,10.5,-20.25,-1",
				"u1,1969-12-31T23:59:59Z,10.5,-20.25,",
				`u"1,1700000000000,10.5,-20.25,`,
				`"u"1,1700000000000,10.5,-20.25,`,
				"u1,1700000000000,10.5,-20.25,", // 21: good
			}, "\n"),
			want: []row{one, one},
			skips: []string{
				"3:wrong_columns", "4:wrong_columns", "5:bad_timestamp", "6:timestamp_in_seconds",
				"7:bad_number",
				"8:bad_number", "9:bad_number", "10:not_finite", "11:not_finite",
				"12:latitude_out_of_range",
				"13:longitude_out_of_range", "14:user_missing", "15:user_too_long",
				"16:invalid_utf8",
				"17:accuracy_negative", "18:before_1970", "19:bad_quotes", "20:bad_quotes",
			},
		},
		"empty": {text: "", skips: []string{"1:empty_file"}},
		"blank": {text: "\n\r\n", skips: []string{"1:empty_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []Format{"", CSV} {
				rows, skips, err := fromText(t, c.text, Options{Format: format})
				if err != nil {
					t.Fatal(err)
				}
				wantRows(t, rows, c.want...)
				wantSkips(t, skips, c.skips...)
			}
		})
	}
}

func TestCSVHeaderErrors(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		parts []string
		never string
	}{
		"missing column": {
			"user_id,when,lat,lon\n",
			[]string{
				":1:", "no column timestamp", "found user_id, when, lat, lon",
				"expected user_id (or user, uid), timestamp",
			},
			"",
		},
		"several": {
			"a,b\n",
			[]string{"no column user_id, timestamp, latitude, longitude", "found a, b"},
			"",
		},
		"two of a name": {
			"user_id,user_id,ts,lat,lon\n", []string{"2 columns may be the user_id", "rename"}, "",
		},
		"two other names": {
			"user,uid,ts,lat,lon\n", []string{"2 columns may be the user_id"}, "",
		},
		"no header": {
			"secret,1700000000000,48.1372,11.5756\n", []string{"no header", "expected"}, "48.1372",
		},
		"semicolons": {
			"user_id;timestamp;lat;lon\n", []string{"not separated by commas"}, "",
		},
		"data with letters": {
			"secret 48.1372 11.5756\n", []string{"not separated by commas"}, "48.1372",
		},
		"many columns": {
			strings.Repeat("c,", 50) + "c\n", []string{"..."}, strings.Repeat("c, ", 21),
		},
		"bad quotes": {"\"user_id\"x,ts\n", []string{":1:", "the header is no CSV"}, ""},
		"nothing":    {",,,\n", []string{"found none"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rows, _, err := fromText(t, c.text, Options{Format: CSV})
			wantError(t, err, c.parts...)
			wantRows(t, rows)
			if c.never != "" && strings.Contains(err.Error(), c.never) {
				t.Errorf("the error repeats the file: %v", err)
			}
		})
	}
}

// A quote that is never closed may not cost the file, nor a line that is too
// long the lines behind it.
func TestCSVDamageIsBounded(t *testing.T) {
	const head, good = "user_id,timestamp,lat,lon\n", "u1,1700000000000,1,2\n"
	text := head + "\"u1,1700000000000,1,2\n" + strings.Repeat(good, 2*maxRecordLines)
	rows, skips, err := fromText(t, text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantSkips(t, skips, "2:bad_quotes")
	if len(rows) != maxRecordLines {
		t.Errorf("%d fixes after an open quote, want %d", len(rows), maxRecordLines)
	}

	text = head + good + strings.Repeat("x", maxLineBytes+1) + "\n" + good
	rows, skips, err = fromText(t, text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantSkips(t, skips, "3:too_large")
	if len(rows) != 2 {
		t.Errorf("%d fixes around a long line, want 2", len(rows))
	}

	text = head + `"` + strings.Repeat(strings.Repeat("x", maxLineBytes/2)+"\n", 2) + good
	rows, skips, err = fromText(t, text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantSkips(t, skips, "2:bad_quotes")
	wantRows(t, rows, row{"u1", noon, 1, 2, -1})
}
