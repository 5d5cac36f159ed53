package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/deploy"
)

// Exit codes of every command.
const (
	ExitDone        = 0
	ExitFailed      = 1   // what was asked for failed, or something is missing or in use
	ExitUsage       = 2   // the command line or the config says what cannot be
	ExitInterrupted = 130 // Ctrl-C came before the end, as shells say it
)

// Streams are the standard streams, and the number of simulated tracks, which tests lower.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// Tracks is how many tracks a command simulates for the error to expect; 0: as many as package
	// expect chooses.
	Tracks int
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
	if completes := []string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}; len(
		args) == 0 || !slices.Contains(completes, args[0]) { // which sets each flag twice
		markBegin(root, &begun)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	var wrong UsageError
	usage := errors.As(err, &wrong)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		fmt.Fprintln(std.Err, "geodither: interrupted") // whatever the command was doing
		return ExitInterrupted
	}
	fmt.Fprintf(std.Err, "geodither: %v\n", err)
	if remedy, ok := deploy.RemedyOf(err.Error()); ok {
		fmt.Fprintf(std.Err, "see \"geodither explain %s\"\n", remedy.Name)
	}
	if usage || !begun {
		fmt.Fprintf(std.Err, "see %q\n", cmd.CommandPath()+" --help")
		return ExitUsage
	}
	return ExitFailed
}

// explainFlag says how to write a duration or a number, and which flag a misspelt one may be.
// Behind a misspelt command every flag is unknown: then the command is the error.
func explainFlag(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		write := ""
		switch kind := wrong.GetFlag().Value.Type(); {
		case errors.Is(err, errTwice):
			return fmt.Errorf("--%s %w", wrong.GetFlag().Name, errTwice)
		case strings.HasPrefix(kind, "duration"):
			write = "a duration with its unit, such as 30s"
		case kind == "time":
			write = "a time such as 2026-11-21T08:00:00Z, or a day such as 2026-11-21"
		case strings.HasPrefix(kind, "float"):
			write = "a number, such as 0.5"
		case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
			write = "a whole number, such as 10"
		default:
			return err
		}
		return fmt.Errorf("--%s %q: write %s", wrong.GetFlag().Name, wrong.GetValue(), write)
	}
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return NoArgs(cmd, words)
	}
	if missing.GetSpecifiedShortnames() != "" { // one letter is near any other
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := Nearest(missing.GetSpecifiedName(), known); len(near) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return err
}

// markBegin wraps every command, so that execute can tell an error of the work from one that came
// before it: a wrong flag or argument, or a command that does not exist. A flag without its value
// is found before other faults: what it took for its value is missing elsewhere.
func markBegin(cmd *cobra.Command, begun *bool) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(takeOnce)
	}
	if check := cmd.Args; check != nil || !cmd.HasSubCommands() {
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := flagsAsValues(cmd.Flags()); err != nil {
				return err
			}
			if cmd.Flags().Changed(configFlag) && !takesConfig(cmd) && !cmd.HasSubCommands() {
				return fmt.Errorf("%s takes no config (-c)", cmd.CommandPath())
			}
			if err := check(cmd, args); err != nil {
				return err
			}
			return missingFlags(cmd)
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

// Repeatable says that the values of a flag add up: lists, NAMES and pairs do.
func Repeatable(f *pflag.Flag) bool {
	_, list := f.Value.(pflag.SliceValue)
	kind := f.Value.Type()
	return list || kind == "names" || kind == "stringToString"
}

// takeOnce makes a flag of one value refuse a second one, which would silently take the place of
// the first.
func takeOnce(f *pflag.Flag) {
	if _, wrapped := f.Value.(*once); !wrapped && !Repeatable(f) {
		f.Value = &once{Value: f.Value}
		if f.DefValue == "0s" { // the help leaves out no other zero of a value of ours
			f.DefValue = "0"
		}
	}
}

// once is a value that is set once at most.
type once struct {
	pflag.Value
	set bool
}

var errTwice = errors.New("is given twice")

// Set implements [pflag.Value].
func (o *once) Set(text string) error {
	if o.set {
		return errTwice
	}
	o.set = true
	return o.Value.Set(text)
}

// flagsAsValues refuses a flag that was taken for the value of the one before it, as in
// "--report --seed 3", where FILE is missing.
func flagsAsValues(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			if err == nil && isFlag(flags, value) {
				kind, _ := pflag.UnquoteUsage(f)
				if kind == "string" { // the usage names none
					kind = "VALUE"
				}
				err = fmt.Errorf("--%s has no value: the flag %s follows it; write --%s %s",
					f.Name, value, f.Name, kind)
			}
		}
	})
	return err
}

// isFlag reports whether a word would be read as a flag: --seed, --seed=3, a misspelt --sed, -c, or
// -cFILE. A file of such a name is written ./--seed.
func isFlag(flags *pflag.FlagSet, word string) bool {
	if strings.HasPrefix(word, "--") {
		return true
	}
	return len(word) > 1 && word[0] == '-' && flags.ShorthandLookup(word[1:2]) != nil
}
