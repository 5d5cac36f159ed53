package cli

import "runtime/debug"

// linked is the version of a binary that is built away from the repository, as in an image. The
// linker sets it: go build -ldflags '-X …/cmd/internal/cli.linked=v1.2.3'.
var linked string

// Version is the version of the program: the one that the linker was given, or that of the module
// as the go command records it. A release is a tag v1.2.3 in the repository; "go build" takes it
// from there, and names the commit between two releases.
func Version() string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// Tool is the program's name and version, as models and reports carry it.
func Tool() string { return "geodither " + Version() }
