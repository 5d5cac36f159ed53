package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism/noise"
)

// WriteKey puts a key into a new file of mode 0600. The file is on disk when it returns: a
// service that lost its key after the first use could never repeat a release.
func WriteKey(path string, key noise.Key) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; it is kept: a new key would give other releases of the same fixes",
			err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, key.Reveal())
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		// Half a key would keep the next "key new" from writing a whole one.
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// KeyVariable is the environment variable that may hold the noise key, in hex.
const KeyVariable = "GEODITHER_KEY"

// LoadKey reads the noise key from the environment if it is set there, else from the file. Where
// both have one they must have the same: which of two keys counts must not be decided in silence.
// The key itself is never part of an error.
func LoadKey(path string) (noise.Key, error) {
	if hex := os.Getenv(KeyVariable); hex != "" {
		key, err := noise.ParseKey(strings.TrimSpace(hex))
		if err != nil {
			return key, fmt.Errorf("%s in the environment: %w", KeyVariable, err)
		}
		return key, sameKey(key, path)
	}
	if path == "" {
		return noise.Key{}, noKey{}
	}
	return ReadKey(path)
}

// noKey is the error where neither a file nor the environment has a key.
type noKey struct{}

// Error implements error.
func (noKey) Error() string { return fmt.Sprintf("name a file, or set %s (key-file)", KeyVariable) }

// Is makes a key that is nowhere equal to a file that is missing.
func (noKey) Is(other error) bool { return other == fs.ErrNotExist }

// sameKey refuses a file that holds another key than the environment. One that does not exist holds
// none.
func sameKey(key noise.Key, path string) error {
	if path == "" {
		return nil
	}
	other, err := ReadKey(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s is set too, and cannot be compared: %w", KeyVariable, err)
	case !key.Equal(other):
		return fmt.Errorf("%s holds another key than %s: unset the one", KeyVariable, path)
	}
	return nil
}

// ReadKey reads the noise key from a file.
func ReadKey(path string) (noise.Key, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return noise.Key{}, fmt.Errorf("%w (geodither key new %s)", err, path)
	}
	if err != nil {
		return noise.Key{}, fmt.Errorf("%w (key-file)", err)
	}
	key, err := noise.ParseKey(strings.TrimSpace(string(data)))
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// RefuseSeeded refuses a key that was made of a small seed. Use it where the key has to protect
// somebody.
func RefuseSeeded(key noise.Key) error {
	tried := uint64(triedSeeds)
	if !key.Whole() {
		tried = triedSeedsPart
	}
	if _, found := key.SeedBelow(tried); found {
		return errors.New("the noise key was made of a small seed, which anybody can find " +
			"(key-file)")
	}
	return nil
}

// RefuseFuture refuses a key whose noise begins after today, in UTC: a service would refuse every
// fix until then. A command looks at the clock only when it starts; releases never depend on it.
func RefuseFuture(key noise.Key) error {
	today := noise.DayAt(time.Now().UnixMilli())
	if first := key.FirstDay(); first > today {
		return fmt.Errorf("the noise key begins at %v, and today is %v in UTC (key-file)", first,
			today)
	}
	return nil
}

// How many seeds refuseSeeded tries: more than anybody writes by hand, and as many as take some
// tenths of a second. A seed costs five times as much on a key without past days.
const (
	triedSeeds     = 1<<19 + 1
	triedSeedsPart = 1<<17 + 1
)
