package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
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
	create := &cobra.Command{
		Use:   "new FILE",
		Short: "Write a new random key to FILE, readable by its owner only",
		Long: `Write a new random key to FILE. Only its owner can read it, and an existing file is never
overwritten.

The key is as secret as the raw fixes: anybody with it can take the noise off every release. All
instances of one service share it, and a replay needs the same key to give the same releases.
Other raw fixes, for example those of a second raw topic, need a key of their own: under one key,
two releases of one user and step show whether they come from one place.

"geodither key export" writes files that hold only a part of the key.`,
		Example: "  geodither key new noise.key",
		Args:    cli.OneFile("file"),
		RunE: func(_ *cobra.Command, args []string) error {
			err := files.WriteKey(args[0], noise.NewKey())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(std.Out,
				"wrote %s: keep it as secret as the raw fixes, and back it up\n", args[0])
			return err
		},
	}
	cmd.AddCommand(create, newPseudonym(std), newKeyExport(std))
	return cmd
}

func newPseudonym(std cli.Streams) *cobra.Command {
	var path, user string
	cmd := &cobra.Command{
		Use:   "pseudonym --user USER",
		Short: "Print the pseudonym under which a user's records are published",
		Long: `Print the pseudonym that a user has under "publish: {user: pseudonym}": the first 16 bytes, in hex,
of HMAC-SHA-256 of "geodither pseudonym 1", a zero byte and the user id, under the subkey for
pseudonyms. Only someone with the key can tell which user a pseudonym is. A file from "geodither
key export --pseudonym" is enough, and is of no use for anything else.`,
		Example: `  geodither key pseudonym --key-file noise.key --user bus-31`,
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			read := files.LoadKey
			if path != "" { // what is named comes before the environment
				read = files.ReadKey
			}
			key, err := read(path)
			if err != nil {
				return fmt.Errorf("--key-file: %w", err)
			}
			_, err = fmt.Fprintln(std.Out, engine.Pseudonym(key, user))
			return err
		},
	}
	cmd.Flags().StringVar(&path, "key-file", "", "noise key `FILE`; without it "+files.KeyVariable)
	cmd.Flags().StringVar(&user, "user", "", "user `ID` of the raw records")
	cli.Required(cmd, "user")
	return cmd
}
