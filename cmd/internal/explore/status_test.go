package explore

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/monitor"
)

// TestStatus asks instances that answer well, wrongly and not at all.
func TestStatus(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"well": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/status" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			lag := int64(7)
			_ = json.NewEncoder(w).Encode(struct {
				monitor.Status
				More string `json:"more"`
			}{monitor.Status{
				EpsilonSpent: 3, Service: monitor.Service{Group: "g"},
				Partitions: map[string]monitor.PartitionStatus{"4": {LagRecords: &lag}},
			}, "what is not known is not told"})
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"no status": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html>"))
		},
	}
	var watched []Watched
	at := func(address string) {
		w, err := WatchedAt(address)
		if err != nil {
			t.Fatal(err)
		}
		watched = append(watched, w)
	}
	for _, name := range []string{"well", "elsewhere", "no status"} {
		server := httptest.NewServer(answers[name])
		defer server.Close()
		at(strings.TrimPrefix(server.URL, "http://"))
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	at(strings.TrimPrefix(gone.URL, "http://"))
	watched = append(watched, Watched{"here", func(context.Context) (monitor.Status, error) {
		return monitor.Status{}, errors.New("it sleeps")
	}})

	h := handler(Options{Watched: watched, Logger: quiet()})
	var found Instances
	_, body := ask(t, h, "/api/status", &found)
	for i, want := range []string{"", "answer 302", "no status", "nothing answers", "it sleeps"} {
		one := found.Instances[i]
		if one.Name != watched[i].Name || (one.Status == nil) != (want != "") ||
			!strings.Contains(one.Trouble, want) {
			t.Errorf("instance %d: %+v, want %q", i, one, want)
		}
	}
	if s := found.Instances[0].Status; s.EpsilonSpent != 3 || *s.Partitions["4"].LagRecords != 7 {
		t.Errorf("the status is %+v", s)
	}
	if strings.Contains(body, "not known") {
		t.Errorf("what no status has is told: %s", body)
	}
	var about About
	if ask(t, h, "/api/about", &about); !about.Status || about.Truth || about.Public {
		t.Errorf("about: %+v", about)
	}
	if status, _ := ask(t, sampleHandler(t), "/api/status", nil); status != http.StatusNotFound {
		t.Errorf("a page that watches nothing answers %d", status)
	}
	for _, wrong := range []string{
		"", "host", "http://host:1/", "host:", ":0", "host:abc", "host:-1", "host:65536",
	} {
		if _, err := WatchedAt(wrong); err == nil {
			t.Errorf("%q is an address", wrong)
		}
	}
	if w, err := WatchedAt(":9090"); err != nil || w.Name != "localhost:9090" {
		t.Errorf("a listener at all addresses: %q, %v", w.Name, err)
	}
}
