package main

import (
	"errors"
	"fmt"
	"os"
	"time"

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

type keyExportFlags struct {
	keyFile   string
	until     string
	pseudonym bool
}

func newKeyExport(std cli.Streams) *cobra.Command {
	var f keyExportFlags
	cmd := &cobra.Command{
		Use:   "export (--until DAY | --pseudonym) FILE",
		Short: "Write a part of the key to FILE: without the past, or for pseudonyms only",
		Long: `Write a part of a key to a new FILE, readable by its owner only.

--until DAY leaves out the noise of every day before DAY, in UTC. A service goes on with FILE as
before. To make sure that nobody can take the noise off what was published before DAY, whatever is
stolen later:

  1. export FILE, with a DAY that leaves room for fixes that come late;
  2. stop all instances cleanly, replace the old file with FILE, and start them again;
  3. destroy every copy of the old file, also those in backups and in GEODITHER_KEY.

This cannot be undone. A fix of a destroyed day that still comes is refused, and so are "replay" and
"state verify" for releases of destroyed days.

--pseudonym leaves out all that "geodither key pseudonym" does not need: with FILE anybody can tell
which user a pseudonym is, and nobody can take the noise off.`,
		Example: `  geodither key export --key-file noise.key --until 2026-11-01 noise-november.key
  geodither key export --key-file noise.key --pseudonym pseudonyms.key`,
		Args: cli.OneFile("file"),
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args[0], std) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.keyFile, "key-file", "",
		"key `FILE` to export from; without it "+files.KeyVariable)
	flags.StringVar(&f.until, "until", "",
		"leave out the noise of all days before this `DAY`, such as 2026-11-01, in UTC")
	flags.BoolVar(&f.pseudonym, "pseudonym", false, "leave out all but the pseudonyms")
	return cmd
}

func (f *keyExportFlags) run(path string, std cli.Streams) error {
	if (f.until != "") == f.pseudonym {
		return cli.Usagef("export either --until DAY or --pseudonym")
	}
	var day noise.Day
	var err error
	if f.until != "" {
		if day, err = noise.ParseDay(f.until); err != nil {
			return cli.Usagef("--until: %w", err)
		}
		if today := noise.DayAt(time.Now().UnixMilli()); day > today {
			return cli.Usagef("--until: %v is still to come: today is %v in UTC", day, today)
		}
	}
	key, err := f.read()
	if err != nil {
		return fmt.Errorf("--key-file: %w", err)
	}
	said := "it maps users to pseudonyms and is of no use for anything else"
	if f.pseudonym {
		key = key.PseudonymsOnly()
	} else {
		key, err = key.From(day)
		said = fmt.Sprintf("it has no noise of the days before %v. Put it in the place of the "+
			"old file, restart the service, and then destroy every copy of the old one", day)
		switch {
		case errors.Is(err, noise.ErrDestroyed):
			return fmt.Errorf("--until: %w. Choose a later day", err)
		case err != nil:
			return err
		}
	}
	if err := files.WriteKey(path, key); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "wrote %s: %s\n", path, said)
	return err
}

// read reads the key that is named, or that of the environment.
func (f *keyExportFlags) read() (noise.Key, error) {
	if f.keyFile != "" {
		return files.ReadKey(f.keyFile)
	}
	if os.Getenv(files.KeyVariable) == "" {
		return noise.Key{}, fmt.Errorf("name the file of the key, or set %s", files.KeyVariable)
	}
	return files.LoadKey("")
}
