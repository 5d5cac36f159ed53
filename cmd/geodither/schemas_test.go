package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// TestSchemas: register does what is missing. A registry that is away fails.
func TestSchemas(t *testing.T) {
	r := srfake.New()
	defer r.Close()
	register := func(section string) result {
		return call(t, append([]string{"schemas", "register"}, withConfig(t, section)...)...)
	}
	config := fmt.Sprintf("{group: g, topics: {sanitized: out}, registry: {url: %q}}", r.URL())
	for _, want := range []string{
		"out-value: registered, id 1, version 1\n" +
			"g-dead-letters-value: registered, id 2, version 1\n",
		"out-value: was registered already, id 1, version 1\n",
	} {
		if got := register(config); got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("register says %q, %q, want %q", got.out, got.err, want)
		}
	}
	r.Close()
	requireMessage(t, register(config), 1, "does not answer")
	requireMessage(t, register("{group: g, topics: {sanitized: out}}"), 2, "registry.url")
}
