package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteWhole writes a file for its owner's eyes that appears complete or not at all. It serves data
// that come from people's traces.
func WriteWhole(path string, data []byte) error {
	file, err := Create(path)
	if err != nil {
		return err
	}
	if err := file.Restrict(); err != nil {
		return errors.Join(Unwritten(path, err), file.Discard())
	}
	if _, err := file.Write(data); err != nil {
		return errors.Join(err, file.Discard())
	}
	return file.Close()
}

// WriteSecret writes figures that come from the truth to a file that only its owner may read. An
// existing file loses all permissions of others before anything is written to it; a device or a
// pipe stays as it is.
func WriteSecret(path string, data []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		if open := info.Mode().Perm() & 0o077; open != 0 {
			if err := file.Chmod(info.Mode().Perm() &^ open); err != nil {
				return fmt.Errorf("others could read the file of figures from the truth: %w", err)
			}
		}
		if err := file.Truncate(0); err != nil {
			return err
		}
	}
	_, err = file.Write(data)
	return err
}

// WarnOpenFolder warns if everybody can list a folder that is to hold data from people's traces.
// The files in it are for their owner alone; their names are not.
func WarnOpenFolder(path string, log io.Writer) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		fmt.Fprintf(log, "everybody on this machine can list the folder %s, which is to hold "+
			"what comes from people's traces: chmod 700 it. The files themselves are for "+
			"you alone\n", path)
	}
}

// Hide makes git ignore a folder. It leaves an existing .gitignore of another content alone, and
// warns that the folder may then end up in the repository.
func Hide(folder string, log io.Writer) error {
	const all = "*\n"
	path := filepath.Join(folder, ".gitignore")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if text, err := os.ReadFile(path); err != nil || string(text) != all {
			fmt.Fprintf(log, "%s is left as it is. The files beside it contain personal data: "+
				"keep them out of the repository\n", path)
		}
		return nil
	}
	if err != nil {
		return Unwritten(folder, err)
	}
	_, err = file.WriteString(all)
	if err = errors.Join(err, file.Close()); err != nil {
		// Half a file would hide nothing, and the next run would leave it alone.
		return Unwritten(folder, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// IsExposed reports whether everybody can read a file. A group may read a secret, since that is how
// some reach a container.
func IsExposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
