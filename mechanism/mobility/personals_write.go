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

// WritePersonals writes a folder of personal models of the popular one, from each user's counts:
// users in any order, each user once. The folder appears under its name complete or not at all: it
// is written under another name and renamed. The name must be free, or that of an empty folder.
// Only the owner may read the folder and its files. Files are written on all cores, and synced.
func WritePersonals(dir string, popular *Model, counts iter.Seq2[string, PersonalCounts]) (
	err error,
) {
	dir = filepath.Clean(dir)
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("mobility: the folder %s is not empty: "+
			"name a new one for the personal models", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mobility: %w", err)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".*") // 0700
	if err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(temporary) // the failure is reported; leftovers do no harm
		}
	}()
	if err := writeFolder(temporary, popular, counts); err != nil {
		return err
	}
	// A rename replaces a file but not a folder. If the folder is not empty it stays, and the
	// rename fails.
	_ = os.Remove(dir)
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("mobility: %w", err)
	}
	return syncFolder(filepath.Dir(dir))
}

func writeFolder(dir string, popular *Model, counts iter.Seq2[string, PersonalCounts]) error {
	popular.ID() // computed once, not for every file
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
		return e, fmt.Errorf("mobility: a personal model has %d bytes, and a folder takes at "+
			"most %d; choose larger cells", len(data), maxPersonalBytes)
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
		err = errors.New("mobility: a user occurs twice: give all counts of a user at once")
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
	data, err := codec.SingleFromNative(nil, fields{
		"popular": popular.ID(), "id": x.hash(),
		"names": x.names, "contents": x.contents,
	})
	if err != nil {
		return fmt.Errorf("mobility: the index cannot be encoded: %w", err)
	}
	if len(data) > maxIndexBytes {
		return fmt.Errorf("mobility: a folder of personal models cannot hold %d users; split them",
			len(written))
	}
	if err := writeSynced(filepath.Join(dir, indexName), data); err != nil {
		return err
	}
	return syncFolder(dir)
}

// writeSynced writes a file that must not exist yet.
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
