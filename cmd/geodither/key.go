package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/pipeline"
	"github.com/geodither/geodither/mechanism/noise"
)

func newKey(std cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Short:   "Make and use the secret key of the noise",
		Example: "  geodither key new noise.key",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var ifMissing bool
	create := &cobra.Command{
		Use:   "new FILE",
		Short: "Write a new random key to FILE, readable by its owner only",
		Long: `Write a new random key to FILE, readable by its owner only.

The key is as secret as the raw fixes: whoever has it can take the noise off every
release. All instances of one service share it, and replays need the same key to give
the same releases. Other raw fixes, of a second raw topic, say, need a key of their own:
under one key two releases of one user and step show whether they come from one place.
An existing file is never overwritten.

"geodither key export" writes files that hold only a part of the key.`,
		Example: "  geodither key new noise.key",
		Args:    cli.OneFile("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			err := writeKey(args[0])
			if ifMissing && errors.Is(err, fs.ErrExist) {
				return nil
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(std.Out, "wrote %s: keep it as secret as the raw fixes, and back it up\n", args[0])
			return err
		},
	}
	create.Flags().BoolVar(&ifMissing, "if-missing", false, "keep an existing key and succeed")
	cmd.AddCommand(create, newPseudonym(std), newKeyExport(std))
	return cmd
}

func newPseudonym(std cli.Streams) *cobra.Command {
	var path, user string
	cmd := &cobra.Command{
		Use:   "pseudonym --user USER",
		Short: "Print the pseudonym under which a user's records are published",
		Long: `Print the pseudonym that a user has with "publish: {user: pseudonym}": the first 16 bytes, in
hex, of HMAC-SHA-256 of "geodither pseudonym 2", a zero byte and the user id, under the key's
subkey for pseudonyms. Only who has that can tell which user a pseudonym is. A file from
"geodither key export --pseudonym" is enough, and is of no use for anything else.`,
		Example: `  geodither key pseudonym --key-file noise.key --user bus-31`,
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			read := loadKey
			if path != "" { // what is named comes before the environment
				read = readKey
			}
			key, err := read(path)
			if err != nil {
				return fmt.Errorf("--key-file: %w", err)
			}
			_, err = fmt.Fprintln(std.Out, pipeline.Pseudonym(key, user))
			return err
		},
	}
	cmd.Flags().StringVar(&path, "key-file", "", "noise key `FILE`; without it "+keyVariable)
	cmd.Flags().StringVar(&user, "user", "", "user `ID` of the raw records")
	cli.Required(cmd, "user")
	return cmd
}

// writeKey puts a fresh key into a new file.
func writeKey(path string) error { return writeKeyFile(path, noise.NewKey()) }

// writeKeyFile puts a key into a new file of mode 0600, on disk before it
// returns: a key lost after its first use could never repeat a release.
func writeKeyFile(path string, key noise.Key) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; it is kept: a new key would give other releases of the same fixes", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, key.Reveal())
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		// Half a key must not be kept by the next "key new --if-missing".
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// keyVariable is the environment variable that may hold the noise key, in hex.
const keyVariable = "GEODITHER_KEY"

// loadKey reads the noise key from the environment if it is set there, else
// from the file. The key itself is never part of an error.
func loadKey(path string) (noise.Key, error) {
	if hex := os.Getenv(keyVariable); hex != "" {
		key, err := noise.ParseKey(strings.TrimSpace(hex))
		if err != nil {
			return key, fmt.Errorf("%s in the environment: %w", keyVariable, err)
		}
		return key, nil
	}
	if path == "" {
		return noise.Key{}, fmt.Errorf("name a file (make one with \"geodither key new FILE\") or set %s", keyVariable)
	}
	return readKey(path)
}

// readKey reads the noise key from a file.
func readKey(path string) (noise.Key, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return noise.Key{}, fmt.Errorf("%w; make one with \"geodither key new %s\"", err, path)
	}
	if err != nil {
		return noise.Key{}, fmt.Errorf("%w; the key must be a file that this user can read", err)
	}
	key, err := noise.ParseKey(strings.TrimSpace(string(data)))
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// bothKeys reports that the environment and the config both name a key, of which the
// environment's is used.
func bothKeys(path string) bool { return path != "" && os.Getenv(keyVariable) != "" }

const bothKeysText = "both " + keyVariable + " and key_file are set: the environment's key is used, and the file is not looked at"

// isExposed reports that users other than a file's owner and group can read it.
// A group may be how a secret reaches a container, everybody never is.
func isExposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
