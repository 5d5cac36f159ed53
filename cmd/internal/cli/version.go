package cli

import (
	"runtime/debug"
	"strings"
)

// linked and linkedRevision are the version and the commit that "make build", "make image" and a
// release have. The linker sets them, by -ldflags
// '-X …/cmd/internal/cli.linked=v1.2.3 -X …/cmd/internal/cli.linkedRevision=0a1b'.
var linked, linkedRevision string

// Build says what a binary was built from. What is not known is empty.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // the commit
	Time     string `json:"time,omitempty"`     // of the commit
	Dirty    bool   `json:"dirty,omitempty"`    // there were changes beside the commit
	Go       string `json:"go"`                 // the compiler's version
}

// ThisBuild returns what this binary was built from: what the linker was given, or else what the go
// command records. A release is a tag v1.2.3 in the repository.
func ThisBuild() Build {
	b := Build{
		Version: linked, Revision: linkedRevision, Dirty: strings.HasSuffix(linked, "-dirty"),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Go = info.GoVersion
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Dirty = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

// Version is the version of the program.
func Version() string { return ThisBuild().Version }

// Tool is the program's name and version, as models and reports carry it.
func Tool() string { return "geodither " + Version() }
