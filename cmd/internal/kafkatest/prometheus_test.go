//go:build kafka

package kafkatest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
)

// deploy is the folder of the alert rules.
const deploy = "../../../deploy"

// prometheusPackage says where promtool and prometheus come from.
const prometheusPackage = "Debian's package prometheus has it"

// promtool runs a check, with something on its standard input.
func promtool(t *testing.T, in io.Reader, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir, cmd.Stdin = deploy, in
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s (%s): %v\n%s", strings.Join(args, " "), prometheusPackage, err, out)
	}
}

// TestAlertRules: Prometheus takes the rules, and they fire when they should.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool(t, nil, "check", "rules", "alerts.yml")
	promtool(t, nil, "test", "rules", "alerts_test.yml")
}

// get returns the body of a page.
func (w *world) get(url string) string {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, url, nil)
	w.ok(err)
	res, err := http.DefaultClient.Do(req)
	w.ok(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	w.ok(err)
	return string(body)
}

// listening waits until a log says at which address somebody listens.
func (w *world) listening(log captured, line string) (addr string) {
	w.Helper()
	at := regexp.MustCompile(line + `.* ?address=(\S+)`)
	w.eventually("it says where it listens", func() bool {
		if found := at.FindStringSubmatch(log.String()); found != nil {
			addr = found[1]
		}
		return addr != ""
	})
	return addr
}

// prometheus starts one that scrapes an address and has the rules of deploy. It returns its own
// address.
func (w *world) prometheus(target string) string {
	w.Helper()
	rules, err := filepath.Abs(filepath.Join(deploy, "alerts.yml"))
	w.ok(err)
	config := filepath.Join(w.dir, "prometheus.yml")
	w.ok(os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs: [{job_name: fleet, static_configs: [{targets: [%q]}]}]
`, rules, target), 0o600))
	log := newLog()
	cmd := exec.CommandContext(w.Context(), "prometheus", "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(w.dir, "tsdb"), "--web.listen-address=127.0.0.1:0")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		w.Fatalf("prometheus (%s): %v", prometheusPackage, err)
	}
	w.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if w.Failed() {
			w.Logf("prometheus's log:\n%s", log)
		}
	})
	addr := w.listening(log, "Listening on")
	w.eventually("Prometheus is ready", func() bool {
		return strings.Contains(w.get("http://"+addr+"/-/ready"), "is Ready")
	})
	return addr
}

// query asks Prometheus for the values of an expression, by their labels.
func (w *world) query(addr, expr string) map[string]string {
	w.Helper()
	var answer struct {
		Status string
		Data   struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	w.ok(json.Unmarshal([]byte(w.get("http://"+addr+"/api/v1/query?query="+
		url.QueryEscape(expr))), &answer))
	values := map[string]string{}
	for _, r := range answer.Data.Result {
		values[fmt.Sprint(r.Metric)] = fmt.Sprint(r.Value[1])
	}
	return values
}

// TestPrometheus: a real Prometheus scrapes a running instance and evaluates the alert rules over
// it. All series that the rules use are there, and none fires except for what is wrong: in this
// feed every thirtieth fix or so is malformed.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	w := newHarness(t).world(2, 30)
	w.models += "\nhttp: {listen: '127.0.0.1:0'}"
	o := w.options("service")
	w.createRaw()
	w.feed(20)
	w.ok(topics.Create(t.Context(), w.client, wire.Options{}, o.Topics))
	p := w.spawn(o, "instance")
	addr := w.listening(p.log, "listening for HTTP")
	w.eventually("all is answered", func() bool { return w.answered(o) })
	metrics := w.get("http://" + addr + "/metrics")
	promtool(t, strings.NewReader(metrics), "check", "metrics")
	if strings.Contains(metrics, "vehicle") {
		t.Error("a metric names a user")
	}

	prometheus := w.prometheus(addr)
	want := fmt.Sprint(w.fed)
	w.eventually("Prometheus has what the service has read", func() bool {
		for _, v := range w.query(prometheus, "sum(geodither_records_read_total)") {
			return v == want
		}
		return false
	})
	if up := w.query(prometheus, "min(up)"); len(up) != 1 || up["map[]"] != "1" {
		t.Errorf("up is %v", up)
	}
	text, err := os.ReadFile(filepath.Join(deploy, "alerts.yml"))
	w.ok(err)
	// There is no certificate here.
	used := map[string]bool{}
	for _, name := range regexp.MustCompile(`geodither_[a-z_]+`).FindAllString(string(text), -1) {
		used[name] = name != "geodither_tls_certificate_expiry_timestamp_seconds"
	}
	for name := range maps.Keys(used) {
		series := fmt.Sprintf(`{__name__=~"%s(_count)?"}`, name) // it may be a histogram
		if n := w.query(prometheus, series); (len(n) > 0) != used[name] {
			t.Errorf("%s has %d series", name, len(n))
		}
	}
	w.eventually("the rules are evaluated", func() bool {
		rules := w.get("http://" + prometheus + "/api/v1/rules")
		return strings.Count(rules, `"health":"ok"`) == strings.Count(string(text), "- alert:")
	})
	for labels := range w.query(prometheus, `ALERTS{alertstate="firing"}`) {
		t.Errorf("it fires: %s", labels)
	}
	p.terminate()
}
