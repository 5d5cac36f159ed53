package explore

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/mechanism"
)

// ask answers a request of the API.
func ask(t *testing.T, h http.Handler, target string, into any) (status int, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host = "127.0.0.1:8090"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body = w.Body.String()
	if into != nil {
		if err := json.Unmarshal([]byte(body), into); err != nil {
			t.Fatalf("%s: %v in %.200s", target, err, body)
		}
	}
	return w.Code, body
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func sampleHandler(t *testing.T) http.Handler {
	t.Helper()
	return guard(handler(Options{Truth: sampleTruth(t), Logger: quiet()}), "", hosts("127.0.0.1"),
		answerTime)
}

// TestExactUserFirst: a name comes first among many that have it as a part, so a page finds it.
func TestExactUserFirst(t *testing.T) {
	truth := newTruth(sampleTruth(t).model)
	for i := range maxUsers + 100 {
		truth.users = append(truth.users, User{Name: fmt.Sprintf("0-car-%d", i)})
	}
	truth.users = append(truth.users, User{Name: "car"})
	h := guard(handler(Options{Truth: truth.sorted(), Logger: quiet()}), "", hosts("127.0.0.1"),
		answerTime)
	var users Users
	ask(t, h, "/api/users?q=car", &users)
	if len(users.Names) != maxUsers || users.Names[0] != "car" {
		t.Errorf("%d users, first %v", len(users.Names), users.Names[:1])
	}
	if users.Names[1] != "0-car-0" {
		t.Errorf("the second one is %s", users.Names[1])
	}
}

// TestAnswers asks each question once.
func TestAnswers(t *testing.T) {
	h := sampleHandler(t)
	var about About
	var m Map
	var users Users
	var c Course
	var a Anatomy
	ask(t, h, "/api/about", &about)
	ask(t, h, "/api/map", &m)
	ask(t, h, "/api/users?q=BUS-47", &users)
	ask(t, h, "/api/course?user="+bus+"&mechanism=lattice&epsilon=2&delta=.3", &c)
	ask(t, h, "/api/step?user="+bus+"&fix=20", &a)
	if want := opening(mechanism.Options{}, 30*time.Second); about.Defaults != want ||
		want.Epsilon != 6.6 || want.Interval != 80 || want.Budget != 20 ||
		about.User != "bus-4733" {
		t.Errorf("the page begins with %+v", about)
	}
	if !about.Sample || about.StepS != 30 {
		t.Errorf("about: %+v", about)
	}
	if m.CellKM != .25 || len(values(t, m.Popularity)) == 0 {
		t.Errorf("map: %+v", m)
	}
	if len(users.Names) != 4 || users.Fixes[1] != 278 {
		t.Errorf("users: %+v", users)
	}
	if len(c.Kind) != 278 || c.Settings.Delta != .3 || c.Settings.Epsilon != 2 {
		t.Errorf("course: %+v", c.Settings)
	}
	if a.Number != 20 || a.Posterior == nil {
		t.Errorf("step: %d", a.Number)
	}
}

// TestWrongQuestions: what is wrong with a question is said in words, and is no fault of ours.
func TestWrongQuestions(t *testing.T) {
	h := sampleHandler(t)
	for target, want := range map[string]string{
		"/api/course?user=nobody":                                "no such user",
		"/api/course?user=" + bus + "&mechanism=gauss":           "gauss",
		"/api/course?user=" + bus + "&epsilon=0":                 "epsilon",
		"/api/course?user=" + bus + "&epsilon=x":                 "epsilon is no number",
		"/api/course?user=" + bus + "&epsilon=NaN":               "epsilon",
		"/api/course?user=" + bus + "&interval=0":                "interval",
		"/api/course?user=" + bus + "&seed=-1":                   "seed",
		"/api/course?user=" + bus + "&mechanism=lattice&delta=1": "delta",
		"/api/step?user=" + bus + "&fix=-1":                      "fix is not",
		"/api/step?user=" + bus + "&fix=278":                     "fix is not",
		"/api/map?view=1,2,3":                                    "view is not",
		"/api/map?view=3,2,1,4":                                  "view is not",
		"/api/step?fix=1&view=NaN,2,3,4&user=" + bus:             "view is not",
		"/api/course?from=-1&user=" + bus:                        "from is no",
		"/api/course?within_ms=x&user=" + bus:                    "within_ms is no",
		"/api/course?from=9223372036854775807&user=" + bus:       "from is no",
		"/api/course?within_ms=9223372036854775&user=" + bus:     "within_ms is no",
		"/api/fleet?slot=24":                                     "slot is no",
		"/api/fleet?slot=x":                                      "slot is no",
		"/api/fleet?epsilon=0.001":                               "epsilon",
		"/api/fleet?epsilon=0":                                   "epsilon",
	} {
		var wrong struct{ Error string }
		if status, body := ask(t, h, target, &wrong); status != http.StatusBadRequest ||
			!strings.Contains(wrong.Error, want) {
			t.Errorf("%s: %d, %s; want %q", target, status, body, want)
		}
	}
	if status, _ := ask(t, h, "/api/nothing", nil); status != http.StatusNotFound {
		t.Errorf("an unknown question: %d", status)
	}
}

// TestGuard: who may ask, and how.
func TestGuard(t *testing.T) {
	plain := sampleHandler(t)
	token := "T0KEN"
	far := guard(handler(Options{Truth: sampleTruth(t), Logger: quiet()}), token, hosts("0.0.0.0"),
		answerTime)
	for _, c := range []struct {
		name   string
		h      http.Handler
		method string
		host   string
		path   string
		want   int
	}{
		{"page", plain, "GET", "127.0.0.1:8090", "/", 200},
		{"head", plain, "HEAD", "127.0.0.1:8090", "/", 200},
		{"by name", plain, "GET", "LocalHost:1", "/style.css", 200},
		{"six", plain, "GET", "[::1]:8090", "/api/about", 200},
		{"rebound", plain, "GET", "evil.example", "/api/about", 421},
		{"rebound, port", plain, "GET", "evil.example:8090", "/", 421},
		{"other address", plain, "GET", "192.0.2.1", "/", 421},
		{"no host", plain, "GET", "", "/", 421},
		{"post", plain, "POST", "127.0.0.1", "/api/about", 405},
		{"delete", plain, "DELETE", "127.0.0.1", "/", 405},
		{"climbing", plain, "GET", "127.0.0.1", "/../server.go", 307},
		{"no token", far, "GET", "192.0.2.1:80", "/", 404},
		{"no token, question", far, "GET", "192.0.2.1:80", "/api/about", 404},
		{"wrong token", far, "GET", "192.0.2.1:80", "/T0KEM/api/about", 404},
		{"part of it", far, "GET", "192.0.2.1:80", "/T0KE/api/about", 404},
		{"token", far, "GET", "192.0.2.1:80", "/T0KEN/api/about", 200},
		{"token, page", far, "GET", "192.0.2.1:80", "/T0KEN/", 200},
		{"token, rebound", far, "GET", "evil.example", "/T0KEN/api/about", 421},
		{"token, post", far, "POST", "192.0.2.1:80", "/T0KEN/api/about", 405},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.URL.Path, r.Host = c.path, c.host
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, w.Code, c.want)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'self';") ||
			strings.Contains(policy, "unsafe") ||
			w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: the policy is %q", c.name, policy)
		}
	}
}

// TestOpen: the address has a token that changes, also at loopback, which other accounts of the
// machine reach. Only open data is shown without one, and at loopback alone.
func TestOpen(t *testing.T) {
	truth := sampleTruth(t)
	open := func(listen string, noToken bool) *url.URL {
		s, err := Open(Options{Listen: listen, NoToken: noToken, Truth: truth, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		at, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	get := func(at *url.URL, path string) (status int, body string) {
		answer, err := http.Get("http://" + at.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	tokens := map[string]bool{}
	for range 2 {
		for _, at := range []*url.URL{
			open("", false), open("localhost:0", false), open("0.0.0.0:0", false),
			open("0.0.0.0:0", true),
		} {
			if len(strings.Trim(at.Path, "/")) < 20 || tokens[at.Path] {
				t.Errorf("the address %s has the path %q", at.Host, at.Path)
			}
			tokens[at.Path] = true
		}
	}
	near, plain := open("", false), open("", true)
	if near.Hostname() != "127.0.0.1" || plain.Path != "/" {
		t.Errorf("the addresses are %s and %s", near.Host, plain)
	}
	for _, path := range []string{"/", "/api/about", "/api/course?user=" + bus} {
		if status, body := get(near, path); status != http.StatusNotFound {
			t.Errorf("without the token %s has %d, %.100s", path, status, body)
		}
	}
	for _, at := range []*url.URL{near, plain} {
		if _, body := get(at, at.Path+"api/about"); !strings.Contains(body, `"sample":true`) {
			t.Errorf("about: %s", body)
		}
	}
	for listen, want := range map[string]string{
		"8090":        "HOST:PORT",
		near.Host:     "in use",
		"192.0.2.1:0": "cannot listen",
	} {
		if _, err := Open(Options{Listen: listen, Truth: truth, Logger: quiet()}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", listen, err, want)
		}
	}
}

// TestAnswerTime: what takes too long is given up with words that help, while it can be sent.
func TestAnswerTime(t *testing.T) {
	if answerTime >= writeTime {
		t.Errorf("answers may take %v, but are sent within %v", answerTime, writeTime)
	}
	h := handler(Options{Truth: sampleTruth(t), Logger: quiet()})
	short := guard(h, "", hosts("127.0.0.1"), time.Nanosecond)
	long := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if until, ok := r.Context().Deadline(); !ok || time.Until(until) > time.Hour {
			t.Error("the context of an answer has no end")
		}
		ctx, cancel := context.WithDeadline(r.Context(), time.Now()) // the time is over
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	}), "", hosts("127.0.0.1"), time.Hour)
	const knobs = "?seed=987&fix=3&user=" + bus
	for _, question := range []string{"course", "step", "past"} {
		var wrong struct{ Error string }
		status, body := ask(t, long, "/api/"+question+knobs, &wrong)
		if status != http.StatusServiceUnavailable ||
			!strings.Contains(wrong.Error, "fewer fixes") {
			t.Errorf("%s: %d, %s", question, status, body)
		}
		// Whether there was a free place or not.
		if status, body := ask(t, short, "/api/"+question+knobs, &wrong); wrong.Error == "" ||
			status != http.StatusServiceUnavailable {
			t.Errorf("%s: %d, %s", question, status, body)
		}
	}
}

// TestPageKeepsItsPolicy: nothing in the page runs or looks elsewhere.
func TestPageKeepsItsPolicy(t *testing.T) {
	h := sampleHandler(t)
	for _, path := range []string{"/", "/app.js", "/style.css", "/icon.svg"} {
		status, body := ask(t, h, path, nil)
		if status != http.StatusOK || len(body) < 100 {
			t.Fatalf("%s: %d, %d bytes", path, status, len(body))
		}
		for _, part := range []string{
			"https://", "style=\"", "onclick=", "eval(", "innerHTML", "javascript:",
		} {
			if strings.Contains(body, part) {
				t.Errorf("%s has %q", path, part)
			}
		}
	}
}
