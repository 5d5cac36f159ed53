// Command geodither turns a Kafka topic of raw GPS fixes into a topic of
// differentially private locations.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of the command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(untilSignal(context.Background()), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// streams are the standard streams, so that tests can run a whole command.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	begun := false
	markBegin(root, &begun)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted") // whatever was being done when it was
	}
	fmt.Fprintf(std.err, "geodither: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) || !begun {
		fmt.Fprintf(std.err, "see %q\n", cmd.CommandPath()+" --help")
		return exitUsage
	}
	return exitFailed
}

// markBegin wraps every command so that an error from before it began (a flag,
// an argument, a command that does not exist) can be told apart.
func markBegin(cmd *cobra.Command, begun *bool) {
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

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "geodither",
		Short: "Differentially private locations from a Kafka topic of GPS fixes, exactly once",
		Long: `geodither reads raw GPS fixes from a Kafka topic and publishes, per user and under a
mobility model, differentially private locations: each release with an estimate of
where the user is and an honest radius. Records, state and offsets are committed in
one Kafka transaction.

Start with:  geodither demo`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		Example: `  geodither demo
  geodither train --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s --out model.avro
  geodither run -c geodither.yml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(
		newDemo(std), newRun(std), newDoctor(std), newSanitize(std), newTrain(std), newModel(std), newEvaluate(std), newTune(std), newAudit(std),
		newProduce(std), newConsume(std), newAggregate(std), newReplay(std), newState(std), newKey(std), newBroker(std), newVersion(std),
	)
	return root
}
