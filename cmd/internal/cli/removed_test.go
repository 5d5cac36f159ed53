package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A flag that is gone says where it went, and only at its own command.
func TestRemovedFlag(t *testing.T) {
	removed["model shake"] = map[string]string{"salt": inConfig("release.salt")}
	t.Cleanup(func() { delete(removed, "model shake") })
	for _, c := range []struct {
		args, want string
	}{
		{
			"model shake --salt 3",
			"--salt is gone: set release.salt in a config, and name the config with -c FILE",
		},
		{"model shake --pepper 3", "unknown flag: --pepper"},
		{"model stir --salt 3", "unknown flag: --salt"},
	} {
		root := &cobra.Command{Use: "geodither", SilenceUsage: true, SilenceErrors: true}
		model := &cobra.Command{Use: "model"}
		for _, name := range []string{"shake", "stir"} {
			model.AddCommand(&cobra.Command{Use: name, RunE: func(*cobra.Command, []string) error {
				return nil
			}})
		}
		root.AddCommand(model)
		var out bytes.Buffer
		code := Execute(t.Context(), root, strings.Fields(c.args), Streams{Out: &out, Err: &out})
		if code != ExitUsage || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit %d, %q instead of %q", c.args, code, &out, c.want)
		}
	}
	if names := RemovedFlags("model shake"); len(names) != 1 || names[0] != "salt" {
		t.Errorf("the removed flags are %q", names)
	}
}
