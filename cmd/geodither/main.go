// Command geodither turns a Kafka topic of raw GPS fixes into a topic of
// differentially private locations.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/law"
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
	cli.AddConfig(root)
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Look around:", []*cobra.Command{newDemo(std), newExplore(std), newBroker(std)}},
		{"Files:", []*cobra.Command{
			newSanitize(std), newSmooth(std), newCounts(std), newAggregate(std),
		}},
		{"Prepare a service:", []*cobra.Command{
			newTrain(std), newTune(std), newModel(std), newKey(std), newConfig(std), newInput(std),
			newTopics(std), newSchemas(std), newDoctor(std),
		}},
		{"Run it (counts, too):", []*cobra.Command{
			newRun(std), newProduce(std), newConsume(std), newReplay(std), newState(std),
			newErase(std),
		}},
		{"Show what it guarantees:", []*cobra.Command{
			newStatement(std), newAudit(std), newEvaluate(std),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newExplain(std), newVersion(std))
	return root
}

func newVersion(std cli.Streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit, and the versions of what is released and stored",
		Example: "  geodither version",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := cli.ThisBuild()
			if asJSON {
				return json.NewEncoder(std.Out).Encode(struct {
					cli.Build
					Mechanism int `json:"mechanism"`
					Codebook  int `json:"codebook"`
					States    int `json:"states"`
					Records   int `json:"records"`
				}{
					b, mechanism.Version, law.CodebookVersion, mechanism.StateVersion,
					engine.RecordsVersion,
				})
			}
			// What has a version of its own: a change of it is in the changelog.
			_, err := fmt.Fprintf(std.Out, "geodither %s\ncommit %s, %s\n"+
				"mechanism %d, codebook %d, users' states %d, sanitized records %d\n",
				b.Version, cmp.Or(b.Revision, "unknown"), b.Go,
				mechanism.Version, law.CodebookVersion, mechanism.StateVersion,
				engine.RecordsVersion)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
