package traces

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// stdinName stands for standard input where a file is named.
const stdinName = "standard input"

// maxDepth is how far below a folder .plt files are looked for:
// Geolife/Data/USER/Trajectory/x.plt, and one more. It ends loops of links.
const maxDepth = 4

// trajectory is the folder that holds a Geolife user's files.
const trajectory = "Trajectory"

// file is one file to be read.
type file struct {
	path    string
	size    int64
	stdin   bool
	regular bool // not a pipe or a device: its size is known
}

// find returns the files that a path stands for: itself, or those of a folder.
func find(path string, format Format) ([]file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: check the path", err)
	}
	if !info.IsDir() {
		return []file{newFile(path, info)}, nil
	}
	var files []file
	if format == "" || format == Geolife {
		if files, err = walk(path, []string{".plt"}, maxDepth); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 && format != Geolife {
		if files, err = walk(path, format.extensions(), 0); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("the folder %s holds no %s files: name its files one by one, or another format",
			path, strings.Join(format.extensions(), ", "))
	}
	return files, nil
}

// walk returns the files in folder that end in one of some extensions, and those
// up to depth folders below it, in the order of names. Links are followed.
// Names with a leading dot are left out: macOS puts a ._x.plt beside each x.plt.
func walk(folder string, extensions []string, depth int) ([]file, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("%w: give read permission or leave the folder out", err)
	}
	var files []file
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		wanted := hasExtension(entry.Name(), extensions)
		if strings.HasPrefix(entry.Name(), ".") || !wanted && entry.Type().IsRegular() {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil && wanted:
			return nil, fmt.Errorf("%w: repair or remove it", err)
		case err != nil: // a dead link to something else
		case info.IsDir() && depth > 0:
			below, err := walk(path, extensions, depth-1)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		case !info.IsDir() && wanted:
			files = append(files, newFile(path, info))
		}
	}
	return files, nil
}

func newFile(path string, info os.FileInfo) file {
	f := file{path: path, regular: info.Mode().IsRegular()}
	if f.regular {
		f.size = info.Size()
	}
	return f
}

// hasExtension reports whether a name ends in one of some extensions, with or
// without .gz behind it, in whatever case.
func hasExtension(name string, extensions []string) bool {
	name = strings.TrimSuffix(strings.ToLower(name), ".gz")
	return slices.ContainsFunc(extensions, func(extension string) bool { return strings.HasSuffix(name, extension) })
}
