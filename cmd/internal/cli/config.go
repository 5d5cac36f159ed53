package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

const (
	// ConfigVariable is the environment variable that names the config where -c is missing.
	ConfigVariable = "GEODITHER_CONFIG"
	// ConfigFile is the config where neither of them names one.
	ConfigFile = "geodither.yml"
)

// AddConfig registers -c for all commands below the root. A command takes it if its usage line has
// it: in square brackets where only a given -c counts, and else with a default.
func AddConfig(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringP(configFlag, "c", "", "config `FILE` of the service; default, where the command "+
		"needs one: $"+ConfigVariable+", or else ./"+ConfigFile)
	if err := root.MarkPersistentFlagFilename(configFlag, "yml", "yaml"); err != nil {
		panic(err) // the flag is registered above
	}
}

// Config returns the path of the config that -c names. Where the command needs one and -c is
// missing, it returns the default, if there is one, and names it on the standard error stream. A
// command that means something else without a config, [-c FILE], says there that it takes none.
// Else it returns an empty path.
func Config(cmd *cobra.Command, needed bool) string {
	flag := cmd.Flag(configFlag)
	if flag.Changed {
		return flag.Value.String()
	}
	path := cmp.Or(os.Getenv(ConfigVariable), ConfigFile)
	info, err := os.Stat(path)
	exists := err == nil && !info.IsDir()
	if !needed {
		if exists && strings.Contains(cmd.Use, "["+configUse+"]") {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is not read: add -c %[1]s if you mean it\n", path)
		}
		return ""
	}
	if !exists && os.Getenv(ConfigVariable) == "" {
		return ""
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "config: %s\n", path)
	if err := cmd.Flags().Set(configFlag, path); err != nil { // for all that asks the flag later
		panic(err) // every path is a text
	}
	return path
}

// NeedConfig returns the path of the config of a command that cannot work without one.
func NeedConfig(cmd *cobra.Command) (string, error) {
	path := Config(cmd, true)
	if path == "" {
		return "", Usagef("name a config with -c FILE: there is no ./%s here, and %s is not set",
			ConfigFile, ConfigVariable)
	}
	return path, nil
}
