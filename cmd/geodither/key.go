package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/mechanism/noise"
)

func newKey(std streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Short:   "Make the secret key of the noise",
		Example: "  geodither key new noise.key",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var ifMissing bool
	create := &cobra.Command{
		Use:   "new FILE",
		Short: "Write a new random key to FILE, readable by its owner only",
		Long: `Write a new random key to FILE, readable by its owner only.

The key is as secret as the raw fixes: whoever has it can take the noise off every
release. All instances of one service share it, and replays need the same key to give
the same releases. An existing file is never overwritten.`,
		Example: "  geodither key new noise.key",
		Args:    oneFile("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			err := writeKey(args[0])
			if ifMissing && errors.Is(err, fs.ErrExist) {
				return nil
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(std.out, "wrote %s: keep it as secret as the raw fixes, and back it up\n", args[0])
			return err
		},
	}
	create.Flags().BoolVar(&ifMissing, "if-missing", false, "keep an existing key and succeed")
	cmd.AddCommand(create)
	return cmd
}

// writeKey puts a fresh key into a new file of mode 0600, on disk before it
// returns: a key lost after its first use could never repeat a release.
func writeKey(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; it is kept: a new key would give other releases of the same fixes", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, noise.NewKey().Reveal())
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
