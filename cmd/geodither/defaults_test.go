package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
)

// TestRemovedNameTheirDefaults: flags and keys that are gone name the value that now always counts.
func TestRemovedNameTheirDefaults(t *testing.T) {
	_, model := townFiles(t, t.TempDir())
	for name, value := range map[string]any{
		"min-cells":   fmt.Sprintf("at least %d cells", mechanism.DefaultMinCells),
		"subdivision": fmt.Sprintf("always has %d steps", law.DefaultSubdivision),
		"prune": fmt.Sprintf("a posterior mass of %s",
			strings.Replace(fmt.Sprint(mechanism.DefaultPrune), "e-07", "e-7", 1)),
		"max-gap": fmt.Sprintf("without one, %d steps", mechanism.DefaultMaxGap),
	} {
		words := []string{name + " is gone", fmt.Sprint(value)}
		requireMessage(t, call(t, "audit", "--model", model, "--"+name, "1"),
			cli.ExitUsage, words...)
		key := strings.ReplaceAll(name, "-", "_")
		words[0] = fmt.Sprintf("the key %q is gone", key)
		requireMessage(t, call(t, append([]string{"audit"},
			withConfig(t, "release: {"+key+": 1}")...)...),
			cli.ExitUsage, words...)
	}
}
