package study

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/geodither/geodither/mechanism/evaluation/chart"
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
func (f Folder) Save(key string, data []byte) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	return chart.Save(f.path(key), data)
}

func (f Folder) path(key string) string { return filepath.Join(string(f), key+".json") }
