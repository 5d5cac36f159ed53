package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
)

func newRun(std cli.Streams) *cobra.Command {
	var accept acceptances
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run the service: raw topic in, sanitized topic out",
		Long: `Run one instance of the service until SIGTERM or Ctrl-C. Start more instances with the same config
(each with its own state_dir) to share the partitions. A killed instance loses nothing and repeats
nothing: the next owner of its partitions goes on at the committed offset.

Keys of the config; deploy/geodither.yml is a complete one that explains each of them:
` + config.Keys() + `
Required: brokers, group, topics.raw, topics.sanitized, model or models, key_file (or the
key in GEODITHER_KEY), state_dir, release.mechanism,
release.epsilon and release.budget, and release.delta except with the mechanism codebook.`,
		Example: `  geodither run -c geodither.yml
  GEODITHER_KEY=$(cat noise.key) geodither run -c geodither.yml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := cli.NeedConfig(cmd)
			if err != nil {
				return err
			}
			options, file, err := config.Service(path)
			if err != nil {
				return err
			}
			options.AcceptSettings, options.AcceptLost = accept["settings"], accept["lost-account"]
			options.SkipLost, options.AcceptRefused = accept["lost-records"], accept["refused"]
			if options.Logger, err = file.Log.Logger(std.Err); err != nil {
				return config.Error(path, err)
			}
			options.Logger = slog.New(monitor.NameEvents(options.Logger.Handler()))
			for _, f := range file.Checks(options) {
				switch f.Level {
				case checks.Failure:
					return cli.Usagef("config %s: %s: %s", path, f.Check, f.Detail)
				case checks.Warning:
					options.Logger.Warn("a check before the start warns", "check", f.Check,
						"remedy", f.Detail)
				}
			}
			return serve(cmd.Context(), path, options, file.HTTP, std)
		},
	}
	accept = acceptFlag(cmd, "for one start go on, by `NAME`: settings, after a kill under "+
		"another key, model or release settings; lost-account, without the changelog, every "+
		"user's sum of ε at 0; lost-records, where raw records were lost before they were read; "+
		"refused, where nearly all of the first raw records would be refused",
		"settings", "lost-account", "lost-records", "refused")
	return cmd
}

// acceptances say what a command may go on with, by the names that --accept takes.
type acceptances map[string]bool

// acceptFlag registers --accept with the names that a command takes.
func acceptFlag(cmd *cobra.Command, usage string, names ...string) acceptances {
	a := acceptances{}
	for _, name := range names {
		a[name] = false
	}
	cmd.Flags().Var(a, "accept", usage)
	cli.Values(cmd, "accept", names...)
	return a
}

// Set implements [pflag.Value]: it takes names with commas.
func (a acceptances) Set(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if _, known := a[name]; !known {
			return fmt.Errorf("choose of %s", strings.Join(slices.Sorted(maps.Keys(a)), ", "))
		}
		a[name] = true
	}
	return nil
}

// String returns nothing: nothing is accepted by default.
func (a acceptances) String() string { return "" }

// Type names the value in errors.
func (a acceptances) Type() string { return "names" }

// serve runs an instance of the service until the context ends. path is that of the config.
func serve(
	ctx context.Context, path string, o service.Options, h config.HTTP, std cli.Streams,
) error {
	o.Board, o.Counters = monitor.NewBoard(), new(engine.Counters)
	s, err := service.New(o)
	if err != nil {
		return config.Error(path, err)
	}
	answers, err := listen(o, h)
	if err != nil {
		return err
	}
	defer answers.Close()
	o.Connection.Log(o.Logger)
	// Only a proven refusal ends the start. Later a broker that refuses the service is waited for,
	// as one that is away is.
	if err := o.Connection.Refused(ctx, o.Brokers); err != nil {
		return err
	}
	defer expect.Log(ctx, o.Model, o.Release, std.Tracks, o.Logger)()
	return s.Run(ctx)
}

// listen begins to answer those who watch the service over HTTP, if the config says where.
func listen(o service.Options, h config.HTTP) (*monitor.Server, error) {
	o = o.WithDefaults()
	build := cli.ThisBuild()
	server, err := monitor.Open(h.Options(o.SessionTimeout), monitor.Source{
		Build: monitor.Build{
			Version: build.Version, Revision: build.Revision, Go: build.Go,
		},
		Settings: monitor.NewSettings(o.Settings),
		Service:  monitor.NewService(o.Cluster, o.InstanceID),
		Board:    o.Board, Counters: o.Counters, Certificates: o.Connection.Certificates,
	}, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("http.%w", err)
	}
	return server, nil
}

// loadService reads the config of a service for a command that only looks at what
// it does, and makes sure that its brokers answer.
func loadService(cmd *cobra.Command, std cli.Streams) (service.Options, error) {
	options, err := loadLocal(cmd, std)
	if err == nil {
		_, err = options.Connection.Connect(cmd.Context(), options.Brokers)
	}
	return options, err
}

// loadLocal reads the config alone.
func loadLocal(cmd *cobra.Command, std cli.Streams) (service.Options, error) {
	path, err := cli.NeedConfig(cmd)
	if err != nil {
		return service.Options{}, err
	}
	options, _, err := loadFile(path, std)
	return options, err
}

// loadFile is loadLocal, and returns the config too.
func loadFile(path string, std cli.Streams) (service.Options, config.File, error) {
	options, file, err := config.Service(path)
	if err != nil {
		return options, file, err
	}
	if options.Logger, err = file.Log.Logger(std.Err); err != nil {
		return options, file, config.Error(path, err)
	}
	return options, file, nil
}
