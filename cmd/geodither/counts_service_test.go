package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestCountsService: "counts serve" refuses a raw topic with its producers' times, and says how
// to change that. Then it publishes every zone of each window of yesterday once, empty ones
// included, and one address answers for both its stages. With the same config "topics acls" knows
// both groups.
func TestCountsService(t *testing.T) {
	broker, dir := startBroker(t), t.TempDir()
	w := servicetest.NewWorldAt(t, broker, 0)
	succeed(t, "key", "new", filepath.Join(dir, "noise.key"))
	day := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`brokers: [%q]
group: town
topics: {raw: raw, counts: counted}
encoding: {sanitized: json}
key_file: noise.key
state_dir: state
counts: {epsilon: 1, per_day: 2, zone: 3km, box: "51.40,-0.20,51.46,-0.10", window: 6h, first: %s}
http: {listen: "127.0.0.1:0"}
`, broker, day))
	if out := succeed(t, "topics", "create", "-c", config).out; out != "raw: 4 partitions\n"+
		"town-counts-partial: 4 partitions\ntown-counts-changelog: 4 partitions\n"+
		"counted: 4 partitions\ntown-counts-totals-changelog: 4 partitions\n" {
		t.Errorf("topics create prints %q", out)
	}
	acls := succeed(t, "topics", "acls", "-c", config, "--principal", "User:x").out
	for _, words := range []string{"--group town-counts\n", "--group town-counts-totals\n"} {
		if !strings.Contains(acls, words) {
			t.Errorf("the rights lack %q", words)
		}
	}
	refused := func(config string) result {
		r := call(t, "counts", "serve", "-c", config)
		_, message, _ := strings.Cut(r.err, "\ngeodither: ")
		r.err = "geodither: " + message // behind the log
		return r
	}
	requireMessage(t, refused(config), cli.ExitFailed, "LogAppendTime",
		"kafka-configs.sh --bootstrap-server "+broker+" --alter --topic raw")
	w.Alter(t, "raw", "message.timestamp.type", "LogAppendTime")
	service := start(t, nil, "counts", "serve", "-c", config)
	view, zones := w.View(t, "counted", false), int64(3*3+1)
	eventually(t, "the windows of yesterday are published",
		func() bool { return view.Read(t) >= 3*zones })
	requireStages(t, service)
	fix, err := w.Codec.AppendRaw(nil, schemas.Raw{
		UserID: personWhoGoes, Timestamp: time.Now().UnixMilli(), Latitude: 51.43, Longitude: -.15,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Send(t, producer.Record{
		Key: []byte(personWhoGoes), Value: fix, Timestamp: servicetest.StartMS, // years ago
	})
	eventually(t, "a fix counts at the broker's time",
		func() bool { return statesOf(t, w, "town-counts-changelog")[personWhoGoes] != "" })
	if code := service.stop(t); code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, service.log.String())
	}
	requireWindows(t, view, day)
	out := succeed(t, "state", "verify", "-c", config).out
	if !strings.HasPrefix(out, "counts: ") ||
		!strings.HasSuffix(out, "\nverified: counts are what the raw topic gives\n") {
		t.Errorf("state verify prints %q", out)
	}
	requireErased(t, w, config)
	w.Write(t, true, "counted", 0, servicetest.Line{Value: "{}"})
	if r := call(t, "state", "verify", "-c", config); r.code != cli.ExitFailed ||
		!strings.Contains(r.err, "counts differ") || !strings.Contains(r.out, "extra: ") {
		t.Errorf("something else in the topic: %+v", r)
	}
	other := write(t, dir, "other.yml", strings.Replace(read(t, config), "epsilon: 1", "epsilon: 2",
		1))
	requireMessage(t, refused(other), cli.ExitFailed, "other settings",
		"counts-restart")
	for _, c := range []struct{ before, after, words string }{
		{"per_day: 2", "per_day: 5", "counts.per_day"},
		{"per_day: 2, ", "", "counts.per_day is not set\n"},
		{"epsilon: 1, ", "", "counts.epsilon is not set\n"},
		{"zone: 3km, ", "", "counts.zone"},
		{"zone: 3km", "zone: 2", "counts.zone: length"},
		{"51.40,-0.20,", "51.40,", "counts.box: box"},
		{"window: 6h", "window: 7h", "counts.window"},
		{"counts: counted", "counts: raw", "another use"},
		{"key_file: noise.key\n", "", "key_file"},
		{"first: ", "first: on ", "counts.first"},
	} {
		code := cli.ExitUsage
		if c.words == "key_file" { // it is right, and the key is missing
			code = cli.ExitFailed
		}
		wrong := write(t, dir, "wrong.yml", strings.Replace(read(t, config), c.before, c.after, 1))
		requireMessage(t, call(t, "counts", "serve", "-c", wrong), code, c.words)
	}
}

const personWhoGoes = "person-who-goes"

// statesOf are the last values of a changelog.
func statesOf(t *testing.T, w *servicetest.World, changelog string) map[string]string {
	t.Helper()
	now := map[string]string{}
	v := w.View(t, changelog, false)
	v.Read(t)
	for _, lines := range v.Lines {
		for _, l := range lines {
			now[l.Key] = l.Value
		}
	}
	return now
}

// requireErased erases a user who counts today. The id leaves the changelog, the day stays
// under another name, and the receipt tells it. It is the same when it is asked for again, later
// and after the day is closed.
func requireErased(t *testing.T, w *servicetest.World, config string) {
	t.Helper()
	const changelog, user = "town-counts-changelog", personWhoGoes
	home, day := servicetest.Murmur2Place([]byte(user)), statesOf(t, w, changelog)[user]
	kept := new(counting.Eraser).Kept([]byte(user))
	w.Alter(t, "counted", "retention.ms", "3600000")
	config = write(t, filepath.Dir(config), "long.yml", strings.Replace(read(t, config),
		"counts: {", "counts: {grace: 30h, ", 1))
	marks := w.LastMarks(t, changelog)
	mark := marks[home]
	first, later := "", mark
	later.Input += 5
	steps := [][]servicetest.Line{nil, {{Key: string(kept)}}} // in the second the day is closed
	for i := range 3 {
		var r erase.Receipt
		out := succeed(t, "erase", "-c", config, "--user", user, "--receipt", "-").out
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if r.Group != "town-counts" || r.Counted.Code != "removed" || r.LocalStore != "removed" ||
			r.GoneBy == nil ||
			strings.Contains(out, user) || strings.Contains(out, `"settings"`) {
			t.Errorf("the receipt is %s", out)
		}
		for i, want := range []erase.Remain{
			{What: "raw", Topic: "raw"},
			{What: "true_counts", Topic: "town-counts-partial"},
			{What: "published_counts", Topic: "counted"},
			{What: "counted_hours", Topic: changelog},
		} {
			if got := r.Remains[i]; got.What != want.What || got.Topic != want.Topic {
				t.Errorf("%+v has no %+v", r.Remains, want)
			}
		}
		if hour := r.Remains[2].RetentionMS; hour == nil || *hour != 3600_000 {
			t.Errorf("the topics' retentions are %+v", r.Remains)
		}
		// Cleaned two lags of a day and a day after the longest day: grace, skew and a fix ahead.
		open := 25*time.Hour + 30*time.Hour + time.Minute + 2*time.Minute
		if by := r.GoneBy.Sub(r.ErasedAt); by != open+72*time.Hour {
			t.Errorf("gone %v after the erasure", by)
		}
		if first == "" {
			first = out
		}
		if out != first || r.RawOffset != mark.Input {
			t.Errorf("receipt %d is %s, not %s", i+1, out, first)
		}
		if now := statesOf(t, w, changelog); now[user] != "" || i < 2 && now[string(kept)] != day {
			t.Errorf("the changelog has %q", now)
		}
		if i < len(steps) {
			w.WriteMarked(t, changelog, home, later, steps[i]...)
		}
	}
	// An erasure's time and offset are the changelog's, also once its tombstone has been cleaned.
	const other = "person-who-went"
	gone := servicetest.Line{Key: other, Timestamp: servicetest.StartMS}
	left := servicetest.Line{
		Key: string(new(counting.Eraser).Kept([]byte(other))), Value: day,
		Timestamp: servicetest.StartMS,
	}
	for p, lines := range [][]servicetest.Line{{left}, {gone, left}} {
		w.WriteMarked(t, changelog, int32(p), later, lines...)
		var r erase.Receipt
		out := succeed(t, "erase", "-c", config, "--user", other, "--receipt", "-").out
		line := strings.Split(out, "\n")[p]
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.ErasedAt.UnixMilli() != servicetest.StartMS || r.RawOffset != later.Input {
			t.Errorf("the receipt of partition %d is %s", p, line)
		}
	}
	// A day that is closed without an erasure leaves nothing.
	w.WriteState(t, changelog, home, user, day)
	w.WriteState(t, changelog, home, user, "")
	requireMessage(t, call(t, "erase", "-c", config, "--user", user), cli.ExitFailed,
		"nothing is stored of this person")
	for p, mark := range marks {
		w.WriteMarked(t, changelog, int32(p), mark)
	}
	requireMessage(t, call(t, "erase", "-c", config, "--user", user, "--reset-budget"),
		cli.ExitUsage, "no account of ε")
	requireMessage(t, call(t, "erase", "-c", config, "--user", "nobody"), cli.ExitFailed,
		"nothing is stored of this person")
}

// requireStages asks a service that counts over HTTP.
func requireStages(t *testing.T, service *background) {
	t.Helper()
	at := regexp.MustCompile(`address=(\S+) for=http\.listen`).
		FindStringSubmatch(service.log.String())
	get := func(path string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+at[1]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	eventually(t, "both stages are ready",
		func() bool { return strings.Contains(get("/ready"), `"ready":true`) })
	all := get("/metrics") + get("/status") + get("/live")
	for _, words := range []string{
		`geodither_ready{stage="windows"} 1`, `geodither_ready{stage="totals"} 1`,
		`"group":"town-counts-totals"`, `"live":true`,
		`geodither_window_overdue_seconds{stage="totals"} 0`,
		`geodither_fixes_late_total{stage="windows"} 0`,
	} {
		if !strings.Contains(all, words) {
			t.Errorf("the answers lack %s", words)
		}
	}
	if strings.Contains(all, "zone=") || strings.Contains(all, "window=") {
		t.Error("a metric has a window or a zone")
	}
}

// requireWindows requires that each record is there once, and as many zones in each window.
func requireWindows(t *testing.T, view *servicetest.View, day string) {
	t.Helper()
	once, windows := map[string]bool{}, map[int64]int{}
	for _, lines := range view.Lines {
		for _, l := range lines {
			var r schemas.Counts
			if err := json.Unmarshal([]byte(l.Value), &r); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprint(r.WindowStart, r.Zone)
			if once[name] || r.Day < day || r.Epsilon != 1 || r.PerDay != 2 ||
				r.WindowEnd-r.WindowStart != (6*time.Hour).Milliseconds() {
				t.Errorf("%s comes twice, or is wrong", l.Value)
			}
			once[name], windows[r.WindowStart] = true, windows[r.WindowStart]+1
		}
	}
	if len(windows) < 3 || len(once)%len(windows) != 0 {
		t.Errorf("%d records of %d windows", len(once), len(windows))
	}
	for start, n := range windows {
		if n != len(once)/len(windows) {
			t.Errorf("window %d has %d zones", start, n)
		}
	}
}
