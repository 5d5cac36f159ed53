package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/explore"
	"github.com/geodither/geodither/cmd/internal/gather"
	"github.com/geodither/geodither/mechanism/mobility"
)

type exploreFlags struct {
	settings config.Flags
	input    cli.InputFlags
	model    string
	listen   string
	outline  string
}

func newExplore(std cli.Streams) *cobra.Command {
	var f exploreFlags
	cmd := &cobra.Command{
		Use:   "explore [-c FILE] [--model FILE PATH...]",
		Short: "Look at what the mechanism does, step by step, on a web page of this machine",
		Long: `Serve a web page that takes a release apart: where the model expects somebody, what could be
released, what was drawn, and what an observer concludes. Mechanism, ε, δ, interval and hours can
be turned while one looks.

Without files the page shows the shipped sample, eight Liverpool buses. --model and files of traces
show those: the page has the truth then, and is for the owner of the traces alone. The noise in
these views comes from a seed and is not private. -c follows the sanitized topic of a service, and
knows nothing but its records, the public model and the public settings.

The page is served at this machine alone and asks nobody else for anything. Its address has a
random token: anybody with that address sees all of the page. --listen takes an address that other
machines reach; there is no encryption, so prefer a tunnel such as "ssh -L".

The sample contains public sector information licensed under the Open Government Licence v3.0.`,
		Example: `  geodither explore
  geodither explore --model model.avro --in traces.csv --listen 127.0.0.1:8090
  geodither explore -c geodither.yml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.settings.Path = cli.Config(cmd, false)
			return f.run(cmd.Context(), cmd.Flags(), args, std)
		},
	}
	flags := cmd.Flags()
	f.input.Register(flags)
	f.input.RegisterColumns(flags)
	flags.StringVar(&f.model, "model", "",
		"model `FILE` from \"geodither train\", for traces of your own")
	flags.StringVar(&f.listen, "listen", explore.DefaultListen,
		"`ADDRESS` to serve at; port 0: the system chooses one")
	flags.StringVar(&f.outline, "outline", "",
		"GeoJSON `FILE` of coasts, streets and names, for the maps")
	return cmd
}

func (f *exploreFlags) run(
	ctx context.Context, flags *pflag.FlagSet, args []string, std cli.Streams,
) error {
	o := explore.Options{
		Listen: f.listen, Logger: slog.New(slog.NewTextHandler(std.Err, nil)),
	}
	// Most of the heap is a model, which stays. Garbage as large as that would be a waste.
	debug.SetGCPercent(25)
	var err error
	if f.outline != "" {
		if o.Outline, err = explore.ReadOutline(f.outline); err != nil {
			return cli.Usagef("--outline: %v", err)
		}
	}
	if o.Truth, err = f.truth(ctx, args, std); err != nil {
		return err
	}
	if f.settings.Path != "" {
		c, err := f.settings.File(flags)
		if err != nil {
			return err
		}
		o.TimeZone = c.Counts.TimeZone
		if o.Public, err = f.public(ctx, c, std); err != nil {
			return err
		}
	}
	server, err := explore.Open(o)
	if err != nil {
		return cli.Usage(err)
	}
	defer server.Close()
	debug.FreeOSMemory() // what reading took
	fmt.Fprintf(std.Out, "open %s in a browser; Ctrl-C ends it\n", server.URL)
	if o.Public != nil {
		o.Public.Run(ctx)
		return nil
	}
	<-ctx.Done()
	return nil
}

// truth reads the traces that are named, or the sample where nothing else is.
func (f *exploreFlags) truth(
	ctx context.Context, args []string, std cli.Streams,
) (*explore.Truth, error) {
	named := len(f.input.Paths)+len(args) > 0
	switch {
	case !named && f.model == "" && f.settings.Path != "":
		return nil, nil //nolint:nilnil // a page of a topic alone has no secret side
	case !named && f.model == "":
		return explore.SampleTruth()
	case !named:
		return nil, cli.Usagef("name the traces with --in, or leave --model out")
	case f.model == "":
		return nil, cli.Usagef("name the model of the traces with --model")
	}
	bar := cli.NewProgress(std.Err, nil)
	bar.Phase("reading the model and the traces", nil)
	defer bar.Done()
	model, err := mobility.ReadModelFile(f.model)
	if err != nil {
		return nil, err
	}
	if f.input.Mapping, err = f.settings.Mapping(); err != nil {
		return nil, err
	}
	reader, err := f.input.Open(ctx, args, std.In)
	if err != nil {
		return nil, err
	}
	truth, err := explore.ReadTruth(model, reader)
	bar.Done()
	if err == nil && reader.Skips().Total > 0 {
		fmt.Fprintln(std.Err, reader.Skips())
	}
	return truth, err
}

// exploreWindow is the length of a window in which the page shows where the fleet was.
const exploreWindow = 15 * time.Minute

// public connects to the topic of a config. It reads no key.
func (f *exploreFlags) public(
	ctx context.Context, c config.File, std cli.Streams,
) (_ *explore.Public, err error) {
	topic := c.SanitizedTopic()
	if topic.Connection, err = c.Connection(); err != nil {
		return nil, f.settings.Error(err)
	}
	switch {
	case topic.Name == "":
		return nil, cli.Usagef("%s names no sanitized topic: set topics.sanitized",
			f.settings.Path)
	case c.Model == "" && c.Models == "":
		return nil, cli.Usagef("%s: set model or models", f.settings.Path)
	}
	bar := cli.NewProgress(std.Err, nil)
	bar.Phase("reading the model", nil)
	known, err := f.settings.Public(c, nil)
	bar.Done()
	if err != nil {
		return nil, err
	}
	for _, m := range known.Models {
		if m.Provenance.Privacy == nil {
			fmt.Fprintf(std.Err, "WARNING: model %s was trained without differential privacy, so "+
				"the page tells about the traces that it was trained on: show it only to those "+
				"who may have the model.\n", m.ID())
		}
	}
	if err := topic.Encoding.Validate(); err != nil {
		return nil, cli.Usage(err)
	}
	client, err := topic.Connect(ctx)
	if err != nil {
		return nil, err
	}
	source := gather.Records{Client: client, Topic: topic.Name, Encoding: topic.Encoding}
	return explore.NewPublic(explore.PublicOptions{
		Topic: topic.Name, Source: source.Follow, Known: known, Window: exploreWindow,
	})
}
