package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// TestSchemas: check says what register would do, register does it, and check is content then. A
// schema that a registry would refuse fails, and so does a registry that is away.
func TestSchemas(t *testing.T) {
	r := srfake.New()
	defer r.Close()
	config := withConfig(t, fmt.Sprintf("{group: g, topics: {sanitized: out}, "+
		"registry: {url: %q}}", r.URL()))
	run := func(command string, more ...string) result {
		return call(t, append(append([]string{"schemas", command}, config...), more...)...)
	}
	for _, step := range []struct {
		command string
		want    string
	}{
		{"check", "out-value: is not registered"},
		{"register", "out-value: registered, id 1, version 1\n" +
			"g-dead-letters-value: registered, id 2, version 1\n"},
		{"register", "out-value: was registered already, id 1, version 1\n"},
		{"check", "g-dead-letters-value: is registered, id 2, version 1\n"},
	} {
		if got := run(step.command); got.code != 0 || !strings.Contains(got.out, step.want) {
			t.Errorf("%s says %q, %q, want %q", step.command, got.out, got.err, step.want)
		}
	}
	if got := run("register", "--topic", "again", "--dead-letters", "letters"); got.code != 0 ||
		!r.SubjectExists("again-value") || !r.SubjectExists("letters-value") {
		t.Errorf("for other topics: %q", got.err)
	}
	r.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/compatibility") {
			_, _ = w.Write([]byte(`{"is_compatible":false,"messages":["speed has no default"]}`))
			return true
		}
		return false
	})
	requireMessage(t, run("check", "--topic", "third", "--dead-letters", "fourth"), 1,
		"third-value", "would refuse the schema", "speed has no default")
	r.Close()
	requireMessage(t, run("check"), 1, "does not answer")
	requireMessage(t, call(t, append([]string{"schemas", "check"},
		withConfig(t, "{group: g, topics: {sanitized: out}}")...)...), 2, "registry.url")
}
