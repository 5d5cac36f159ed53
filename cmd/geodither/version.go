package main

import "runtime/debug"

// version is the module version the binary was built from, as Go records it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}
