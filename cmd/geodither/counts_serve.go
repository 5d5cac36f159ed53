package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/monitor"
	"github.com/geodither/geodither/cmd/internal/service"
)

// serveCounts runs an instance of the two services that count, until the context ends or one of
// them fails.
func serveCounts(ctx context.Context, path string, std cli.Streams) error {
	n, file, err := config.ReadCounting(path)
	if err != nil {
		return err
	}
	log, err := file.Log.Logger(std.Err)
	if err != nil {
		return config.Error(path, err)
	}
	log = slog.New(monitor.NameEvents(log.Handler()))
	var services [2]*service.Service
	var sources [2]monitor.Source
	for i, stage := range []struct {
		name    string
		options *service.Options
		create  func(service.Options, *service.Counting) (*service.Service, error)
	}{
		{"windows", &n.Windows, service.NewWindows}, {"totals", &n.Totals, service.NewTotals},
	} {
		o := stage.options
		o.Logger = log.With("stage", stage.name)
		o.Board, o.Counters = monitor.NewBoard(), new(engine.Counters)
		if services[i], err = stage.create(*o, n.Count); err != nil {
			return config.Error(path, err)
		}
		sources[i] = countsSource(stage.name, *o, n)
	}
	sources[0].Next = &sources[1]
	server, err := monitor.Open(file.HTTP.Options(n.Windows.WithDefaults().SessionTimeout),
		sources[0], log)
	if err != nil {
		return fmt.Errorf("http.%w", err)
	}
	defer server.Close()
	n.Windows.Connection.Log(log)
	if err := n.Windows.Connection.Refused(ctx, n.Windows.Brokers); err != nil {
		return err
	}
	return together(ctx, services[0].Run, services[1].Run)
}

// together runs functions until all have returned. When one has, the context of the others ends.
func together(ctx context.Context, all ...func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, run := range all {
		running.Go(func() {
			defer stop()
			errs[i] = run(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// countsSource is what is told over HTTP of one of the two services.
func countsSource(stage string, o service.Options, n config.Counting) monitor.Source {
	build := cli.ThisBuild()
	return monitor.Source{
		Build: monitor.Build{Version: build.Version, Revision: build.Revision, Go: build.Go},
		Settings: monitor.Settings{
			Fingerprint: n.Settings.Fingerprint(), Mechanism: "counts",
			EncodingSanitized: string(n.Totals.WithDefaults().SanitizedEncoding),
		},
		Service: monitor.NewService(o.Cluster, o.InstanceID),
		Board:   o.Board, Counters: o.Counters, Certificates: o.Connection.Certificates,
		Stage: stage,
	}
}
