package main

import (
	"fmt"
	"os"

	"github.com/geodither/geodither/cmd/internal/cli"
)

// warnOpenFolder says that everybody can look into a folder for what comes from people's
// traces. The files in it are for their owner alone; their names are not.
func warnOpenFolder(path string, std cli.Streams) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		fmt.Fprintf(std.Err, "everybody on this machine can list the folder %s, which is to hold what comes from people's traces: chmod 700 it. "+
			"The files themselves are for you alone\n", path)
	}
}
