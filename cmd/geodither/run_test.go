package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/servicetest"
)

// TestRunIsWatched: "run" answers over HTTP where its config says, until it is asked to stop; and
// each line of its log of level info and above has an event that is in the list. Neither names a
// user.
func TestRunIsWatched(t *testing.T) {
	broker, dir := startBroker(t), t.TempDir()
	townFiles(t, dir)
	succeed(t, "key", "new", filepath.Join(dir, "noise.key"))
	fixes := servicetest.TownFixes()
	for i := range fixes {
		fixes[i].UserID = canaryUser + "-" + fixes[i].UserID
	}
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "2",
		write(t, dir, "canaries.csv", servicetest.TownCSV(fixes)))
	config := write(t, dir, "geodither.yml", fmt.Sprintf(`brokers: [%q]
group: watched
topics: {raw: raw, sanitized: out, create: true}
model: model.avro
key_file: noise.key
state_dir: state
release: {mechanism: codebook, epsilon: 2, budget: {epsilon: 400, window: 24h}}
http: {listen: "127.0.0.1:0", pprof: "localhost:0"}
`, broker))
	service := start(t, nil, "run", "-c", config)
	at := regexp.MustCompile(`event=http_listening address=(\S+) for=http\.(listen|pprof)`)
	var found [][]string
	eventually(t, "both listeners", func() bool {
		found = at.FindAllStringSubmatch(service.log.String(), -1)
		return len(found) == 2
	})
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+found[0][1]+path, nil)
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
		return res.StatusCode, string(body)
	}
	read := fmt.Sprintf("\ngeodither_records_read_total %d\n", len(fixes))
	eventually(t, "every fix is read", func() bool {
		_, metrics := get("/metrics")
		return strings.Contains(metrics, read)
	})
	eventually(t, "it is ready", func() bool {
		code, _ := get("/ready")
		return code == http.StatusOK
	})
	var answers strings.Builder
	for _, path := range []string{"/live", "/ready", "/status", "/metrics"} {
		code, body := get(path)
		if code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
		answers.WriteString(body)
	}
	for _, word := range []string{
		`"group":"watched"`, `"mechanism":"codebook"`, `"version":"` + cli.Version(),
	} {
		if !strings.Contains(answers.String(), word) {
			t.Errorf("the answers do not say %s", word)
		}
	}
	if code := service.stop(t); code != cli.ExitDone {
		t.Errorf("it ends with %d", code)
	}
	log := service.log.String()
	for line := range strings.Lines(log) {
		event := regexp.MustCompile(` event=([a-z_]+)`).FindStringSubmatch(line)
		if strings.HasPrefix(line, "time=") && (event == nil || event[1] == "other") {
			t.Errorf("a line without an event that is in the list: %s", line)
		}
	}
	if n := strings.Count(log, " event="); n < 6 {
		t.Errorf("%d events in\n%s", n, log)
	}
	if strings.Contains(log+answers.String(), canaryUser) {
		t.Error("a user is named")
	}
}
