package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/explore"
	"github.com/geodither/geodither/mechanism/mobility"
)

type exploreFlags struct {
	input  cli.InputFlags
	model  string
	listen string
}

func newExplore(std cli.Streams) *cobra.Command {
	var f exploreFlags
	cmd := &cobra.Command{
		Use:   "explore [--model FILE PATH...]",
		Short: "Look at what the mechanism does, step by step, on a web page of this machine",
		Long: `Serve a web page that takes a release apart: where the model expects somebody, what could be
released, what was drawn, and what an observer concludes. Mechanism, ε, δ, interval and cells
can be turned while one looks, also two settings side by side. A third view shows what somebody
who sees every record learns about two places over time, beside what Σε allows.

Without files the page shows the shipped sample, eight Liverpool buses, under a model that is
trained on them. --model and files of traces show those. The page has the truth then: it is for
the owner of the traces alone. All noise on it comes from a seed and is not private.

The page is served to this machine alone, everything in it comes from this binary, and it asks
nobody else for anything. --listen with an address that other machines reach puts a random token
into the page's address: whoever has that address sees all of it. There is no encryption, so
prefer a tunnel such as "ssh -L".

Ctrl-C ends it. The sample contains public sector information licensed under the Open Government
Licence v3.0.`,
		Example: `  geodither explore
  geodither explore --model model.avro --in traces.csv --listen 127.0.0.1:8090`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags, "in")
	flags.StringVar(&f.model, "model", "",
		"model `FILE` from \"geodither train\", for traces of your own")
	flags.StringVar(&f.listen, "listen", explore.DefaultListen,
		"`ADDRESS` to serve at; port 0: the system chooses one")
	return cmd
}

func (f *exploreFlags) run(ctx context.Context, args []string, std cli.Streams) error {
	truth, err := f.truth(ctx, args, std)
	if err != nil {
		return err
	}
	server, err := explore.Open(explore.Options{
		Listen: f.listen, Truth: truth, Logger: slog.New(slog.NewTextHandler(std.Err, nil)),
	})
	if err != nil {
		return cli.Usage(err)
	}
	defer server.Close()
	fmt.Fprintf(std.Out, "open %s in a browser; Ctrl-C ends it\n", server.URL)
	<-ctx.Done()
	return nil
}

// truth reads the traces that are named, or the sample.
func (f *exploreFlags) truth(
	ctx context.Context, args []string, std cli.Streams,
) (*explore.Truth, error) {
	named := len(f.input.Paths)+len(args) > 0
	switch {
	case !named && f.model == "":
		return explore.SampleTruth()
	case !named:
		return nil, cli.Usagef("name the traces to look at with --in, or leave --model out to " +
			"look at the shipped buses")
	case f.model == "":
		return nil, cli.Usagef("name the model of the traces with --model; make one with " +
			"\"geodither train\"")
	}
	model, err := mobility.ReadModelFile(f.model)
	if err != nil {
		return nil, err
	}
	reader, err := f.input.Open(ctx, args, std.In)
	if err != nil {
		return nil, err
	}
	return explore.ReadTruth(model, reader)
}
