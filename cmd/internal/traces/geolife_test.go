package traces

import (
	"path/filepath"
	"strings"
	"testing"
)

const pltHeader = "Geolife trajectory\r\nWGS 84\r\nAltitude is in Feet\r\nReserved 3\r\n" +
	"0,2,255,My Track,0,0,2,8421376\r\n0\r\n"

func plt(points ...string) string { return pltHeader + strings.Join(points, "\r\n") + "\r\n" }

// geolife makes a folder as the archive unpacks, with made-up places.
func geolife(tb testing.TB) string {
	tb.Helper()
	folder := tb.TempDir()
	write(tb, folder, "Data/010/Trajectory/20200102000000.plt",
		plt("3,4,0,-777,43832,2020-01-02,00:00:00"))
	write(tb, folder, "Data/000/Trajectory/20200102000000.plt",
		plt("1.5,2.5,0,492,43832.5,2020-01-02,12:00:00"))
	write(tb, folder, "Data/000/Trajectory/20200101000000.plt", plt(
		"1,-2,0,-777,43831,2020-01-01,00:00:00",
		"400.1667,2,0,-777,43831,2020-01-01,00:00:01",
		"1,2,0,-777,43831,2020-01-01",
		"1,2,0,-777,43831,2020-01-01,00:00:02,9",
		"1,2,0,-777,43831,2020-02-30,00:00:03",
		"1,2,0,-777,43831,2020-01-01,24:00:00",
		"north,2,0,-777,43831,2020-01-01,00:00:05",
		"1,east,0,-777,43831,2020-01-01,00:00:06",
		"1,2,0,49.3,43831,2020-01-01,00:00:07"))
	write(tb, folder, "Data/000/labels.txt", "Start Time\tEnd Time\tTransportation Mode\n")
	write(tb, folder, "Data/000/Trajectory/._20200101000000.plt", "\x00\x05\x16\x07")
	write(tb, folder, "Data/020/Trajectory/20200101000000.PLT", plt())
	return filepath.Join(folder, "Data")
}

func TestGeolife(t *testing.T) {
	const day = 86_400_000
	const start = 1_577_836_800_000 // 2020-01-01T00:00:00Z
	first := []row{{"000", start, 1, -2, -1}, {"000", start + 7000, 1, 2, -1}}
	second := row{"000", start + day + day/2, 1.5, 2.5, -1}
	other := row{"010", start + day, 3, 4, -1}
	bad := []string{
		"8:latitude_out_of_range", "9:wrong_columns", "10:wrong_columns", "11:bad_timestamp",
		"12:bad_timestamp",
		"13:bad_number", "14:bad_number",
	}
	data := geolife(t)
	user := filepath.Join(data, "000")
	for name, c := range map[string]struct {
		path  string
		want  []row
		skips []string
	}{
		"above Data":   {filepath.Dir(data), append(first, second, other), bad},
		"Data":         {data, append(first, second, other), bad},
		"a user":       {user, append(first, second), bad},
		"a Trajectory": {filepath.Join(user, trajectory), append(first, second), bad},
		"a file":       {filepath.Join(user, trajectory, "20200101000000.plt"), first, bad},
		"a file, no points": {
			filepath.Join(data, "020", trajectory, "20200101000000.PLT"), nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []Format{"", Geolife} {
				rows, skips := fromPaths(t, Options{Format: format}, c.path)
				wantRows(t, rows, c.want...)
				wantSkips(t, skips, c.skips...)
			}
		})
	}
}

func TestGeolifeUserOfRelativePath(t *testing.T) {
	t.Chdir(filepath.Join(geolife(t), "010", trajectory))
	for _, path := range []string{".", "20200102000000.plt"} {
		rows, _ := fromPaths(t, Options{}, path)
		if len(rows) != 1 || rows[0].user != "010" {
			t.Errorf("%s: got %v, want one fix of 010", path, rows)
		}
	}
}

func TestGeolifeOddFiles(t *testing.T) {
	folder := t.TempDir()
	const point = "1,2,0,-777,43831,2020-01-01,00:00:00"
	write(t, folder, "mia/a.plt",
		"OziExplorer Track Point File Version 2.1\r\nWGS 84\r\n\r\n\r\n\r\n\r\n"+point+"\r\n")
	write(t, folder, "mia/b.plt.gz", zip(t, plt(point)))
	write(t, folder, "mia/c.plt", "")
	write(t, folder, "mia/d.plt", strings.TrimSuffix(plt(point), "\r\n"))
	// empty lines before the title, as a hand leaves them
	write(t, folder, "mia/e.plt", "\r\n\n"+plt(point))
	write(t, folder, "mia/f.plt",
		"\r\nOziExplorer Track Point File Version 2.1\r\n"+strings.Repeat("0\r\n", 5)+point+"\r\n")
	rows, skips := fromPaths(t, Options{}, folder)
	one := row{"mia", 1_577_836_800_000, 1, 2, -1}
	wantRows(t, rows, one, one, one)
	wantSkips(t, skips, "1:no_geolife_header", "1:empty_file", "2:no_geolife_header")

	for _, format := range []Format{"", Geolife} {
		r, err := Open(t.Context(), []string{Stdin}, strings.NewReader(plt(point)),
			Options{Format: format})
		if err == nil {
			_, err = drain(r)
		}
		wantError(t, err, "name its folder")
	}
}
