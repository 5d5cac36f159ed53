package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// removed has the flags that earlier releases had, by command and then by name, with what to do
// instead. The text completes "--name is gone: ". A flag stays in the table for good: scripts are
// old when they meet a new release.
var removed = map[string]map[string]string{
	"aggregate": {
		"resamples":       "the intervals are always made with 40 resamples",
		"seed":            "the seed is fixed, so that the same records give the same figures",
		"open":            "all windows of files are open at once, and two of a topic",
		"models":          inConfig("models"),
		"personal":        inConfig("personal"),
		"min-radius":      inConfig("release.min_radius"),
		"between":         inConfig("release.between"),
		"adaptive-radius": inConfig("release.adaptive_radius"),
		"same-step":       inConfig("release.same_step"),
		"inference":       inConfig("release.inference"),
		"budget":          inConfig("release.budget.epsilon"),
		"budget-window":   inConfig("release.budget.window"),
		"budget-lifetime": inConfig("release.budget.lifetime"),
		"budget-spent":    inConfig("release.budget.spent"),
		"estimate":        asTheService,
		"isotropy":        asTheService,
		"max-gap":         asTheService,
		"min-cells":       asTheService,
		"prune":           asTheService,
		"subdivision":     asTheService,
	},
}

// asTheService is for a setting that has to be the service's.
const asTheService = "the service's own setting counts; name its config with -c FILE"

// inConfig says that a setting is a key of the service's config now.
func inConfig(key string) string {
	return fmt.Sprintf("set %s in a config, and name the config with -c FILE", key)
}

// RemovedFlags returns the names of the flags that a command once had, and has no more. The command
// is its path without the program's name, such as "model fit".
func RemovedFlags(command string) []string {
	return slices.Sorted(maps.Keys(removed[command]))
}

// explainFlag adds to the error of an unknown flag where that flag went.
func explainFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	_, command, _ := strings.Cut(cmd.CommandPath(), " ")
	name := unknown.GetSpecifiedName()
	if instead, ok := removed[command][name]; ok {
		return fmt.Errorf("--%s is gone: %s", name, instead)
	}
	return err
}
