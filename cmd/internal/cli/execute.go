package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Streams are the standard streams. Tests put their own in place and run a whole command.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Execute runs one command line and returns its exit code. It prints the error, if there is one:
// with a hint to the command's help where the error lies in what the user wrote.
func Execute(ctx context.Context, root *cobra.Command, args []string, std Streams) int {
	root.SetArgs(args)
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	root.SetFlagErrorFunc(explainFlag)
	begun := false
	markBegin(root, &begun)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted") // whatever the command was doing
	}
	fmt.Fprintf(std.Err, "geodither: %v\n", err)
	var wrong UsageError
	if errors.As(err, &wrong) || !begun {
		fmt.Fprintf(std.Err, "see %q\n", cmd.CommandPath()+" --help")
		return ExitUsage
	}
	return ExitFailed
}

// markBegin wraps every command, so that execute can tell an error of the work from one that came
// before it: a wrong flag or argument, or a command that does not exist. A flag without its value
// is found before other faults: what it took for its value is missing elsewhere.
func markBegin(cmd *cobra.Command, begun *bool) {
	if check := cmd.Args; check != nil || !cmd.HasSubCommands() {
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := flagsAsValues(cmd.Flags()); err != nil {
				return err
			}
			return check(cmd, args)
		}
	}
	if work := cmd.RunE; work != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*begun = true
			return work(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markBegin(sub, begun)
	}
}
