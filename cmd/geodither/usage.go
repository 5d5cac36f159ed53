package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usageError marks an error in what a command was told, such as a config file.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// required marks flags that have no default.
func required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag does not exist: a fault of this program
		}
	}
}

// noArgs refuses arguments. Of a command that only holds others, one is a name
// that does not exist, and what may have been meant is said.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return fmt.Errorf("%s takes no argument, but there is %q", cmd.CommandPath(), args[0])
	}
	cmd.SuggestionsMinimumDistance = 2 // cobra's own default, which it sets too late for us
	message := fmt.Sprintf("%q is no command of %s", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(message)
}

// oneFile wants the name of one file.
func oneFile(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("name one %s, as in %q", what, strings.TrimSpace(firstLine(cmd.Example)))
		}
		return nil
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
