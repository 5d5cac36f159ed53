package study

import (
	"errors"
	"os"
	"path/filepath"
)

// Folder is a Store of files in a folder, one for each piece. They hold what the pieces have
// measured of the truth: only their owner may read them.
type Folder string

// Load implements Store.
func (f Folder) Load(key string) ([]byte, error) {
	data, err := os.ReadFile(f.path(key))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Save implements Store. The file appears whole or not at all.
func (f Folder) Save(key string, data []byte) (err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(string(f), ".piece-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), f.path(key))
}

func (f Folder) path(key string) string { return filepath.Join(string(f), key+".json") }
