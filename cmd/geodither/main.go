// Command geodither turns a Kafka topic of raw GPS fixes into a topic of
// differentially private locations.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
)

func main() {
	std := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(run(cli.UntilSignal(context.Background()), os.Args[1:], std))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, std cli.Streams) int {
	return cli.Execute(ctx, newRoot(std), args, std)
}

func newRoot(std cli.Streams) *cobra.Command {
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
		Version:       cli.Version(),
		Example: `  geodither demo
  geodither train --in traces.csv --box 39.85,116.27,39.97,116.50 --cell 340m --step 60s \
    --out model.avro
  geodither run -c geodither.yml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cli.WrapUsage(root)
	root.AddCommand(
		newDemo(std), newExplore(std), newRun(std), newDoctor(std), newSanitize(std),
		newTrain(std), newModel(std), newEvaluate(std), newTune(std), newAudit(std),
		newProduce(std), newConsume(std), newAggregate(std), newSmooth(std), newCounts(std),
		newReplay(std), newState(std), newErase(std), newStatement(std), newSchemas(std),
		newTopics(std), newConfig(std), newInput(std), newKey(std), newBroker(std),
		newVersion(std),
	)
	return root
}
