package main

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	address, _ = explored(t)
	if about := fetched(t, address+"api/about"); !strings.Contains(about, `"users":8`) {
		t.Errorf("about the buses: %s", about)
	}

	empty := write(t, dir, "empty.csv", "user_id,timestamp,latitude,longitude\n")
	broken := write(t, dir, "broken.avro", "this is no model")
	for _, c := range []struct {
		args []string
		code int
		word string
	}{
		{[]string{"--model", model}, 2, "--in"},
		{[]string{traces}, 2, "--model"},
		{[]string{"--listen", "here"}, 2, "HOST:PORT"},
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
