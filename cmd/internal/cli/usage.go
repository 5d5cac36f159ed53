package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UsageError marks an error in what the user told a command, such as a flag or a config file. What
// was told may still fail for another reason: a file is missing, or a port is in use.
type UsageError struct{ err error }

// Error implements error.
func (e UsageError) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e UsageError) Unwrap() error { return e.err }

// Usage marks an error as a [UsageError], unless the system had a part in it: the same words would
// have been right on another machine, or at another time.
func Usage(err error) error {
	if err == nil || ofSystem(err) {
		return err
	}
	return UsageError{err}
}

// ofSystem reports whether an error, or each of several joined ones, is of the system: a file that
// is missing or cannot be read, or an address that is in use.
func ofSystem(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it takes the tree apart
	case *fs.PathError, *os.SyscallError:
		return true
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool {
			return !ofSystem(err)
		})
	case interface{ Unwrap() error }:
		return ofSystem(e.Unwrap())
	}
	return errors.Is(err, fs.ErrNotExist)
}

// Usagef makes a [UsageError], as [fmt.Errorf] makes errors.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Required marks flags that have no default.
func Required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag does not exist: a fault of this program
		}
	}
}

const (
	configFlag = "config"
	configUse  = "-c FILE" // stands in the usage line of every command that takes a config
)

// takesConfig reports whether a command takes -c.
func takesConfig(cmd *cobra.Command) bool { return strings.Contains(cmd.Use, configUse) }

// Values makes the shell offer the values that a flag can have.
func Values(cmd *cobra.Command, flag string, values ...string) {
	offer := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc(flag, offer); err != nil {
		panic(err) // the flag does not exist: a fault of this program
	}
}

// missingFlags refuses a command line without flags that have no default.
func missingFlags(cmd *cobra.Command) error {
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[cobra.BashCompOneRequiredFlag] != nil && !f.Changed {
			kind, _ := pflag.UnquoteUsage(f)
			missing = append(missing, fmt.Sprintf("--%s %s", f.Name, kind))
		}
	})
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("add %s", strings.Join(missing, " "))
}

// usageWidth is the width at which the lines of flags are wrapped.
const usageWidth = 100

// WrapUsage wraps the long lines of flags in the usage of a command and of those below it. It works
// on cobra's own text: a template of ours would link text/template, and with it every method of
// every type, a sixth of the binary.
func WrapUsage(root *cobra.Command) {
	plain := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		var text bytes.Buffer
		cmd.SetOut(&text)
		if config := cmd.InheritedFlags().Lookup(configFlag); config != nil {
			config.Hidden = !takesConfig(cmd)
		}
		err := plain(cmd)
		cmd.SetOut(out)
		if err != nil {
			return err
		}
		wrapped := text.String()
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			if long := flags.FlagUsages(); long != "" {
				wrapped = strings.Replace(wrapped, strings.TrimRight(long, " \n"),
					strings.TrimRight(flags.FlagUsagesWrapped(usageWidth), " \n"), 1)
			}
		}
		_, err = io.WriteString(out, wrapped)
		return err
	})
}

// Nearest returns the known words that differ least from a word. A word that is near many others is
// near none.
func Nearest(word string, known []string) (near []string) {
	most := max(2, len(word)/3)
	if len(word) <= 3 {
		most = 1
	}
	for within := 1; within <= most && len(near) == 0; within++ {
		near = Near(word, known, within)
	}
	if len(near) > 3 {
		return nil
	}
	return near
}

// NoArgs refuses arguments. An argument of a command that only holds other commands is the name
// of one that does not exist: the error names those that the user may have meant.
func NoArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return fmt.Errorf("%s takes no argument, but got %q", cmd.CommandPath(), args[0])
	}
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets too late for us
	message := fmt.Sprintf("%q is no command of %s", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(message)
}

// Near returns the known words that begin with a word, or differ from it by so many letters at
// most. Letters in the wrong order are two differences.
func Near(word string, known []string, within int) []string {
	words := &cobra.Command{SuggestionsMinimumDistance: within} // as cobra compares commands
	for _, k := range known {
		words.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	return words.SuggestionsFor(word)
}

// OneFile asks for the name of one file; what says what it is.
func OneFile(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("name one %s, as in %q", what,
				strings.TrimSpace(FirstLine(cmd.Example)))
		}
		return nil
	}
}

// FirstLine returns the first line of a text, such as the first example of a command.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
