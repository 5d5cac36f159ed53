package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/explore"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism/grid"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

var pageAddress = regexp.MustCompile(`http://\S+/`)

// explored starts a page and returns its address.
func explored(t *testing.T, args ...string) (address string, page *background) {
	t.Helper()
	page = start(t, nil, append([]string{"explore"}, args...)...)
	eventually(t, "the page's address", func() bool {
		address = pageAddress.FindString(page.out.String())
		return address != "" || len(page.code) > 0
	})
	if address == "" {
		t.Fatalf("no page: %s%s", page.out, page.log)
	}
	return address, page
}

// fetched returns what an address answers.
func fetched(t *testing.T, address string) string {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExplore shows traces of one's own and the sample's, and refuses what cannot be shown.
func TestExplore(t *testing.T) {
	dir := t.TempDir()
	traces, model := townFiles(t, dir)
	address, page := explored(t, "--model", model, traces)
	if !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Errorf("by default the page is at %s", address)
	}
	if about := fetched(t, address+"api/about"); !strings.Contains(about, `"sample":false`) {
		t.Errorf("about the town: %s", about)
	}
	if html := fetched(t, address); !strings.Contains(html, "geodither") {
		t.Errorf("the page is %q", html)
	}
	if code := page.stop(t); code != 0 {
		t.Errorf("after an interrupt the exit code is %d: %s", code, page.log)
	}
	bad := write(t, dir, "bad.csv", read(t, traces)+"nobody,never,53,-3\n")
	_, page = explored(t, "--model", model, bad)
	if !strings.Contains(page.log.String(), "1 line") {
		t.Errorf("a bad line was left out in silence: %s", page.log)
	}
	address, _ = explored(t)
	if about := fetched(t, address+"api/about"); !strings.Contains(about, `"sample":true`) {
		t.Errorf("about the buses: %s", about)
	}

	empty := write(t, dir, "empty.csv", "user_id,timestamp,latitude,longitude\n")
	broken := write(t, dir, "broken.avro", "this is no model")
	swapped := write(t, dir, "swapped.json",
		`{"type": "LineString", "coordinates": [[53.41, -2.95], [53.42, -2.94]]}`)
	for _, c := range []struct {
		args []string
		code int
		word string
	}{
		{[]string{"--model", model}, 2, "--in"},
		{[]string{traces}, 2, "--model"},
		{[]string{"--listen", "here"}, 2, "HOST:PORT"},
		{[]string{"--outline", broken}, 2, "GeoJSON"},
		{[]string{"--outline", swapped}, 2, "(outline-form)"},
		{[]string{"--outline", filepath.Join(dir, "none.json")}, 2, "none.json"},
		{[]string{"--model", broken, traces}, 1, "broken.avro"},
		{[]string{"--model", filepath.Join(dir, "none.avro"), traces}, 1, "none.avro"},
		{[]string{"--model", model, empty}, 1, "no"},
	} {
		r := call(t, append([]string{"explore"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.err, c.word) {
			t.Errorf("%v: code %d, %q; want %d and %q", c.args, r.code, r.err, c.code, c.word)
		}
	}
}

// TestExploreTopic follows the topic of a service, without its key. The page shows its records, and
// in none of its answers is anything true: neither place nor time nor name of the canary, whose
// records have a pseudonym and the beginning of their step.
func TestExploreTopic(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	_, model := townFiles(t, dir)
	traces, _, g := canaryTown(t)
	key := write(t, dir, "noise.key", noise.KeyFromSeed(1<<40).Reveal())
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`
brokers: [%q]
group: g
topics: {raw: raw, sanitized: out, create: true, partitions: 2}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: codebook, epsilon: 2, budget: none}
publish: {user: pseudonym, timestamp: step}
`, broker))
	service := start(t, nil, "run", "-c", config)
	eventually(t, "the topics", func() bool {
		return call(t, "consume", "--brokers", broker, "--topic", "out").code == cli.ExitDone
	})
	address, page := explored(t, "-c", config)
	if live := fetched(t, address+"api/live"); !strings.Contains(live, `"records":0`) {
		t.Errorf("an empty topic: %s", live)
	}
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", traces)
	want := len(crowd()) + len(canaries(g))
	var live explore.Live
	eventually(t, "every record on the page", func() bool {
		live = explore.Live{}
		if err := json.Unmarshal([]byte(fetched(t, address+"api/live")), &live); err != nil {
			t.Fatal(err)
		}
		return live.Records == int64(want)
	})
	if code := service.stop(t); code != cli.ExitDone {
		t.Fatalf("the service ended with %d\n%s", code, service.log)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	requireLastRecords(t, live, broker, g)

	questions := []string{"", "app.js", "api/about", "api/live", "api/live/map"}
	for _, user := range live.Vehicles.User {
		questions = append(questions, "api/live/track?user="+user)
	}
	for _, w := range live.Windows {
		questions = append(questions, fmt.Sprint("api/live/window?start_ms=", w.StartMS))
	}
	for _, hidden := range []string{"map", "users", "course", "step", "odds", "fleet"} {
		questions = append(questions, "api/"+hidden+"?user="+canaryUser+"&fix=1")
	}
	if len(live.Windows) == 0 || live.NoFleet != "" || live.Users < 30 {
		t.Errorf("the page shows %d windows (%s) of %d users", len(live.Windows), live.NoFleet,
			live.Users)
	}
	for _, question := range questions {
		body := []byte(fetched(t, address+question))
		for _, packed := range packedData.FindAllSubmatch(body, -1) {
			data, err := base64.StdEncoding.DecodeString(string(packed[1]))
			if err != nil {
				t.Fatal(err)
			}
			body = append(body, data...)
		}
		if found := told(question, body, g); len(found) > 0 {
			t.Errorf("found %q", found)
		}
	}
	if code := page.stop(t); code != cli.ExitDone {
		t.Errorf("the page ended with %d\n%s", code, page.log)
	}
	if !strings.Contains(page.log.String(), "without differential privacy") {
		t.Errorf("nothing warns of the model: %s", page.log)
	}
	if found := told("log", []byte(page.log.String()), g); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	// The search finds what there is to find: the other side has it.
	secret, _ := explored(t, "--model", model, traces)
	if body := fetched(t, secret+"api/course?user="+canaryUser); len(
		told("the secret side", []byte(body), g)) == 0 {
		t.Error("the canary is not found where it is")
	}
	requireMessage(t, call(t, "explore", "-c", write(t, dir, "none.yml", "model: model.avro")),
		cli.ExitUsage, "topics.sanitized")
	requireMessage(t, call(t, "explore", "-c",
		write(t, dir, "models.yml", "topics: {sanitized: out}")), cli.ExitUsage, "model")
}

// packedData is what an answer of the page has in base64.
var packedData = regexp.MustCompile(`"data":"([A-Za-z0-9+/=]*)"`)

// requireLastRecords compares what the page shows of each vehicle with what "consume" reads.
func requireLastRecords(t *testing.T, live explore.Live, broker string, g *grid.Grid) {
	t.Helper()
	last := map[string]schemas.Sanitized{}
	text := succeed(t, "consume", "--brokers", broker, "--topic", "out", "--format", "csv").out
	path := write(t, t.TempDir(), "records.csv", text)
	err := files.Records(path, nil, func(int) {})(t.Context(),
		func(r schemas.Sanitized, _ string) error {
			last[r.UserID] = r
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if len(last) != live.Users {
		t.Fatalf("the topic has %d users, the page %d", len(last), live.Users)
	}
	for i, user := range live.Vehicles.User {
		r := last[user]
		at := g.ToMap(r.Latitude, r.Longitude)
		off := math.Hypot(at.X-live.Vehicles.EstimateX[i], at.Y-live.Vehicles.EstimateY[i])
		if off > 1e-4 || r.Timestamp != live.Vehicles.TimeMS[i] {
			t.Errorf("%s: the page is %g km and %d ms off the last record", user, off,
				live.Vehicles.TimeMS[i]-r.Timestamp)
		}
	}
}

// TestExplorePast: what the page shows of the past is what "smooth" writes.
func TestExplorePast(t *testing.T) {
	dir := t.TempDir()
	traces, modelFile := townFiles(t, dir)
	model, err := mobility.ReadModelFile(modelFile)
	if err != nil {
		t.Fatal(err)
	}
	config := readerConfig(t, dir, "model: "+modelFile,
		"mechanism: codebook, epsilon: 3, interval: 4m, budget: {epsilon: 30, window: 24h}")
	records, smoothed := filepath.Join(dir, "in.ndjson"), filepath.Join(dir, "out.ndjson")
	succeed(t, "sanitize", "-c", config, "--in", traces, "--seed", "1", "--out", records)
	address, _ := explored(t, "--model", modelFile, traces)
	interval := int(4 * time.Minute / model.Step)
	for lag, steps := range map[string]int{"4m": interval, "12m": 3 * interval, "all": -1} {
		succeed(t, "smooth", "-c", config, "--in", records, "--lag", lag, "--out", smoothed)
		byUser := map[string][]schemas.Sanitized{}
		for _, r := range decoded(t, read(t, smoothed)) {
			byUser[r.UserID] = append(byUser[r.UserID], r)
		}
		for user, want := range byUser {
			var got explore.Past
			question := fmt.Sprintf("api/past?user=%s&epsilon=3&interval=%d&budget=30&lag=%d",
				user, interval, steps)
			if err := json.Unmarshal([]byte(fetched(t, address+question)), &got); err != nil {
				t.Fatal(err)
			}
			if got.Done != got.Total || len(got.X) != len(want) {
				t.Fatalf("%s: %d fixes of %d, and %d records", user, got.Done, got.Total, len(want))
			}
			for i, r := range want {
				at := model.Grid.ToMap(r.Latitude, r.Longitude)
				off := math.Hypot(at.X-float64(got.X[i]), at.Y-float64(got.Y[i]))
				if got.TimeMS[i] != r.Timestamp || !(off < 1e-4) {
					t.Fatalf("lag %s, %s, fix %d: %g km from what smooth says", lag, user, i, off)
				}
			}
		}
	}
}
