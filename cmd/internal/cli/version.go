package cli

import "runtime/debug"

// Version is the version of the module that the binary was built from, as Go records it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}

// Tool is the program's name and version, as models and reports carry it.
func Tool() string { return "geodither " + Version() }
