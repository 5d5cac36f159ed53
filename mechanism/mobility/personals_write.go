package mobility

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/geodither/geodither/mechanism/parallel"
)

// WritePersonals writes a folder of personal models over the popular one, from each user's counts in any order, a user
// once. The folder appears under its name complete or not at all: it is written beside it and renamed; the name must be
// free, or an empty folder's. Folder and files are the owner's alone. Files are written on all cores, and synced.
func WritePersonals(dir string, popular *Model, counts iter.Seq2[string, PersonalCounts]) (err error) {
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("mobility: the folder %s is not empty: name a new one for the personal models", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mobility: %w", err)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*") // 0700
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(temporary) // what failed is reported; a rest beside it does no harm
		}
	}()
	if err := writeFolder(temporary, popular, counts); err != nil {
		return err
	}
	// A rename takes the place of a file only. What is not an empty folder stays, and fails the rename.
	_ = os.Remove(dir)
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	return syncFolder(filepath.Dir(dir))
}

func writeFolder(dir string, popular *Model, counts iter.Seq2[string, PersonalCounts]) error {
	popular.ID() // once, not by every file
	var written []entry
	tasks := func(yield func(func() (entry, error), error) bool) {
		for user, c := range counts {
			if !yield(func() (entry, error) { return writePersonal(dir, user, popular, c) }, nil) {
				return
			}
		}
	}
	keep := func(e entry) error {
		written = append(written, e)
		return nil
	}
	if err := parallel.Ordered(tasks, keep); err != nil {
		return err
	}
	folders, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	for _, folder := range folders {
		if err := syncFolder(filepath.Join(dir, folder.Name())); err != nil {
			return fmt.Errorf("mobility: %w", err)
		}
	}
	return writeIndex(dir, popular, written)
}

// entry is a user in the index.
type entry struct {
	name    [nameSize]byte
	content [contentSize]byte
}

func writePersonal(dir, user string, popular *Model, c PersonalCounts) (e entry, err error) {
	m, err := NewPersonal(popular, c)
	if err != nil {
		return e, err
	}
	data, err := m.MarshalBinary()
	if err != nil {
		return e, err
	}
	if len(data) > maxPersonalBytes {
		return e, fmt.Errorf("mobility: a personal model has %d bytes, a folder takes %d; choose larger cells", len(data), maxPersonalBytes)
	}
	e.name = nameOf(user)
	if _, err := hex.Decode(e.content[:], []byte(m.ID())); err != nil {
		return e, fmt.Errorf("mobility: %w", err)
	}
	path := filepath.Join(dir, fileOf(e.name[:]))
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return e, fmt.Errorf("mobility: %w", err)
	}
	err = writeSynced(path, data)
	if errors.Is(err, fs.ErrExist) {
		err = errors.New("mobility: a user's counts come twice: bring each user's together")
	}
	return e, err
}

func writeIndex(dir string, popular *Model, written []entry) error {
	slices.SortFunc(written, func(a, b entry) int { return bytes.Compare(a.name[:], b.name[:]) })
	x := index{popular: popular.ID()}
	for _, e := range written {
		x.names = append(x.names, e.name[:]...)
		x.contents = append(x.contents, e.content[:]...)
	}
	codec, err := personalsCodec()
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	data, err := codec.SingleFromNative(nil, fields{"popular": popular.ID(), "id": x.hash(), "names": x.names, "contents": x.contents})
	if err != nil {
		return fmt.Errorf("mobility: the index cannot be encoded: %w", err)
	}
	if len(data) > maxIndexBytes {
		return fmt.Errorf("mobility: %d users are more than a folder of personal models takes; split them", len(written))
	}
	if err := writeSynced(filepath.Join(dir, indexName), data); err != nil {
		return err
	}
	return syncFolder(dir)
}

// writeSynced writes a file that is not there yet.
func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	return nil
}
