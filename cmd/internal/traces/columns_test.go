package traces

import (
	"strings"
	"testing"
)

func TestColumns(t *testing.T) {
	one := row{"u1", noon, 10.5, -20.25, -1}
	exact := one
	exact.accuracy = 4
	foreign := map[string]string{
		"user_id": "Vehicle", "timestamp": "at", "latitude": "y", "longitude": "x",
	}
	for name, c := range map[string]struct {
		columns map[string]string
		text    string
		want    row
	}{
		"csv": {
			foreign, "x,y,AT,vehicle,speed\n-20.25,10.5,1700000000000,u1,3\n", one,
		},
		"csv, one of them": {
			map[string]string{"user_id": "vehicle"},
			"vehicle,ts,lat,lon\nu1,1700000000000,10.5,-20.25\n", one,
		},
		"csv, an optional one": {
			map[string]string{"accuracy_m": "hdop"},
			"user,ts,lat,lon,hdop\nu1,1700000000000,10.5,-20.25,4\n", exact,
		},
		"csv, the other is there": {
			map[string]string{"timestamp": "seen"},
			"user,time,seen,lat,lon\nu1,5,1700000000000,10.5,-20.25\n", one,
		},
		"csv, an alias elsewhere": {
			map[string]string{"user_id": "lat"},
			"lat,ts,latitude,lon\nu1,1700000000000,10.5,-20.25\n", one,
		},
		"csv, changed places": {
			map[string]string{"latitude": "longitude", "longitude": "latitude"},
			"user,ts,longitude,latitude\nu1,1700000000000,10.5,-20.25\n", one,
		},
		"ndjson": {
			map[string]string{
				"user_id": "vehicle", "timestamp": "at", "latitude": "y", "longitude": "x",
			},
			`{"vehicle":"u1","at":1700000000000,"y":10.5,"x":-20.25,"latitude":"another's"}`, one,
		},
		"ndjson, one of them": {
			map[string]string{"user_id": "vehicle"},
			`{"vehicle":"u1","timestamp":1700000000000,"latitude":10.5,"longitude":-20.25,` +
				`"accuracy_m":4}`,
			exact,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows, skips, err := fromText(t, c.text, Options{Columns: c.columns})
			if err != nil {
				t.Fatal(err)
			}
			wantRows(t, rows, c.want)
			wantSkips(t, skips)
		})
	}
}

// Columns that cannot be are refused before anything is read, and a file without
// those that were named when it is.
func TestColumnsThatAreNot(t *testing.T) {
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{Columns: map[string]string{"speed": "v"}}, "no column \"speed\""},
		{Options{Columns: map[string]string{"user_id": ""}}, "user_id has no name"},
		{
			Options{Columns: map[string]string{"user_id": "a", "timestamp": "A"}},
			"stands for",
		},
		{
			Options{Columns: map[string]string{"user_id": "latitude"}},
			"name the one for latitude as well",
		},
		{
			Options{Format: Geolife, Columns: map[string]string{"user_id": "a"}},
			"no column names",
		},
	} {
		_, err := Open(t.Context(), []string{Stdin}, strings.NewReader(""), c.options)
		wantError(t, err, c.want)
	}
	named := Options{Columns: map[string]string{"accuracy_m": "hdop"}}
	_, _, err := fromText(t, "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n", named)
	wantError(t, err, "gowalla", "no column names")
	_, _, err = fromText(t, csvHeader+csvLine, named)
	wantError(t, err, "no column hdop", "user_id (or user, uid)",
		"name the columns with --columns accuracy_m=NAME")
}

// TestColumnsThatWouldFit: the error lists the file's columns, and gives a value for the flag with
// those that look right. It does not repeat a first line that is data.
func TestColumnsThatWouldFit(t *testing.T) {
	for header, want := range map[string]string{
		"device,at,lat,lon":                   "user_id=device,timestamp=at ",
		"VehicleId,speed,Recorded_At,lat,lon": "user_id=vehicleid,timestamp=recorded_at ",
		"a,b,lat,lon":                         "user_id=NAME,timestamp=NAME ",
		"vehicle,start_time,end_time,lat,lon": "user_id=vehicle,timestamp=NAME ",
		"user id,ts,gps_lat,gps_lng":          "user_id=NAME,latitude=gps_lat,longitude=gps_lng ",
		"plate,ts,y,x":                        "user_id=NAME,latitude=NAME,longitude=NAME ",
	} {
		_, _, err := fromText(t, header+"\n", Options{})
		wantError(t, err, "no column", "found "+
			strings.ReplaceAll(strings.ToLower(header), ",", ", "), "--columns "+want)
	}
	_, _, err := fromText(t, "device,at,lat,lon\n", Options{
		Columns: map[string]string{"user_id": "device", "timestamp": "seen"},
	})
	wantError(t, err, "no column seen", "--columns user_id=device,timestamp=at ")
	_, _, err = fromText(t, "user_id,at,lat,lon\n", Options{
		Columns: map[string]string{"user_id": "user_id"},
	})
	wantError(t, err, "no column timestamp", "--columns timestamp=at ") // the first needs no name
	_, _, err = fromText(t, "user_id,ts,lat,lon\n", Options{
		Columns: map[string]string{"user_id": "device"},
	})
	wantError(t, err, "no column device", "leave --columns out")
	_, _, err = fromText(t, "vehicle-17,1700000000000,48.1,2.5\n", Options{})
	wantError(t, err, "no header", "user_id=NAME")
	if strings.Contains(err.Error(), "17") {
		t.Errorf("the error repeats data: %v", err)
	}
}

// TestSanitizedRecords: a file of sanitized records is not read as raw fixes, unless names of
// columns say that it is meant. One of the two columns alone may be anybody's.
func TestSanitizedRecords(t *testing.T) {
	head, line := "user_id,timestamp,latitude,longitude", "u1,1700000000000,10.5,-20.25"
	text := head + ",Radius_M,kind\n" + line + ",120,release\n"
	_, _, err := fromText(t, text, Options{})
	wantError(t, err, "sanitized records", "raw fixes are wanted")
	for header, columns := range map[string]map[string]string{
		head + ",radius_m,kind": {"user_id": "user_id"},
		head + ",radius_m,type": nil,
		head + ",radius,kind":   nil,
	} {
		rows, _, err := fromText(t, header+"\n"+line+",120,x\n", Options{Columns: columns})
		if err != nil || len(rows) != 1 {
			t.Errorf("%s: %d fixes, %v", header, len(rows), err)
		}
	}
}
