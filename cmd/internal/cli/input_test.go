package cli

import (
	"maps"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// TestInputFlags: the name of a column or of a file may hold a comma, and a column its own name.
func TestInputFlags(t *testing.T) {
	var f InputFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Register(flags)
	f.RegisterColumns(flags)
	if err := flags.Parse([]string{
		"--columns", "timestamp=when, utc", "--columns", "user_id=user_id", "--in", "a,b",
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"timestamp": "when, utc", "user_id": "user_id"}
	if !maps.Equal(f.Columns, want) || !slices.Equal(f.Paths, []string{"a,b"}) {
		t.Errorf("columns %v, paths %v", f.Columns, f.Paths)
	}
}
