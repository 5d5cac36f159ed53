package cli

import (
	"maps"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// TestInputWords: the words name the same files and columns to the next command, also where a name
// holds a comma or is the column's own.
func TestInputWords(t *testing.T) {
	register := func(f *InputFlags) *pflag.FlagSet {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Register(flags)
		f.RegisterColumns(flags)
		return flags
	}
	var first, second InputFlags
	if err := register(&first).Parse([]string{
		"--columns", "timestamp=when, utc", "--columns", "user_id=user_id", "--in", "a,b",
	}); err != nil {
		t.Fatal(err)
	}
	if err := register(&second).Parse(first.Words([]string{"c"})); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"timestamp": "when, utc", "user_id": "user_id"}
	if !maps.Equal(second.columns, want) || !slices.Equal(second.Paths, []string{"a,b", "c"}) {
		t.Errorf("columns %v, paths %v", second.columns, second.Paths)
	}
}
