package modelview

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/mobility"
)

// Folder is what "model inspect" prints of a folder of personal models. The size of the largest
// file is the only figure of a single user.
type Folder struct {
	ID        string `json:"id"`
	Popular   string `json:"popular"` // the popular model's id
	Users     int    `json:"users"`
	FileBytes int64  `json:"file_bytes"`         // of all files
	Largest   int64  `json:"largest_file_bytes"` // of one user
	// Read sums up the models themselves; nil: the popular model was not named.
	Read *FolderRead `json:"read,omitempty"`
}

// FolderRead sums up models that were read and checked.
type FolderRead struct {
	MemoryBytes int64  `json:"memory_bytes"`
	Transitions Spread `json:"transitions"` // different ones, a user
	Counted     Spread `json:"counted"`     // transitions, a user
	Visited     Spread `json:"visited"`     // cells, a user
}

// Spread is how a number is spread over users.
type Spread struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	Most   float64 `json:"most"`
}

func spreadOf(values []float64) (c Spread) {
	if len(values) == 0 {
		return c
	}
	slices.Sort(values)
	for _, v := range values {
		c.Mean += v / float64(len(values))
	}
	c.Median, c.Most = values[len(values)/2], values[len(values)-1]
	return c
}

// ReadFolder looks at a folder of personal models. If the file of the popular model is named, which
// they lie over, it reads and checks them all.
func ReadFolder(ctx context.Context, dir, popular string) (s Folder, err error) {
	if s.ID, s.Popular, s.Users, err = mobility.ReadPersonalsIndex(dir); err != nil {
		return s, err
	}
	if err := s.measure(dir); err != nil || popular == "" {
		return s, err
	}
	s.Read, err = readAll(ctx, dir, popular)
	return s, err
}

// measure adds up the files.
func (s *Folder) measure(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		s.FileBytes += info.Size()
		if filepath.Dir(path) != filepath.Clean(dir) {
			s.Largest = max(s.Largest, info.Size())
		}
		return nil
	})
}

func readAll(ctx context.Context, dir, popular string) (*FolderRead, error) {
	model, err := mobility.ReadModelFile(popular)
	if err != nil {
		return nil, err
	}
	personals, err := mobility.OpenPersonals(dir, model, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = personals.Close() }() // only read: nothing is lost if closing fails
	var r FolderRead
	var transitions, all, visited []float64
	for m, err := range personals.All() {
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c, sum := m.Counts(), 0.0
		for _, t := range c.Transitions {
			sum += t.N
		}
		r.MemoryBytes += m.Bytes()
		transitions = append(transitions, float64(len(c.Transitions)))
		all, visited = append(all, sum), append(visited, float64(len(c.Visits)))
	}
	r.Transitions, r.Counted = spreadOf(transitions), spreadOf(all)
	r.Visited = spreadOf(visited)
	return &r, nil
}

// Print prints the folder for a person.
func (s Folder) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, `personal     %s
popular      %s, the model that they lie over
users        %d
files        %s, the largest of a user %s
privacy      whoever has this folder learns about each user's traces, and file names are a hash of
             user ids: anyone who can guess an id can look for it
`, s.ID, s.Popular, s.Users, cli.ByteSize(s.FileBytes), cli.ByteSize(s.Largest))
	if err != nil {
		return err
	}
	if s.Read == nil {
		_, err = fmt.Fprintln(out, "models       not read: name the popular model with --popular "+
			"to check them")
		return err
	}
	_, err = fmt.Fprintf(out, `models       all are whole; %s in memory if all were loaded
             a user has %.0f transitions on average (median %.0f, most %.0f), of which %.0f are
             different (%.0f, %.0f), and has visited %.0f cells (%.0f, %.0f)
`, cli.ByteSize(s.Read.MemoryBytes),
		s.Read.Counted.Mean, s.Read.Counted.Median, s.Read.Counted.Most,
		s.Read.Transitions.Mean, s.Read.Transitions.Median, s.Read.Transitions.Most,
		s.Read.Visited.Mean, s.Read.Visited.Median, s.Read.Visited.Most)
	return err
}
