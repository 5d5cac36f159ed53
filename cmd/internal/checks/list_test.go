package checks_test

import (
	"slices"
	"testing"

	"github.com/geodither/geodither/cmd/internal/checks"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// TestOneList: for each check at which "run" stops, a fault makes "run" stop and "doctor" report
// the same failure, in the same words and under the check's name. No other check may fail but one
// that names what refuses the service later.
func TestOneList(t *testing.T) {
	later := func() []*engine.Version {
		return []*engine.Version{
			atwork.Version(t, 1, servicetest.NeighbourModel(t, servicetest.Town, 1000, 4)),
		}
	}
	faults := map[string]func(w *servicetest.World, o *service.Options, c *checks.Config){
		"key_file": func(_ *servicetest.World, o *service.Options, _ *checks.Config) {
			o.Key = noise.KeyFromSeed(1)
		},
		"topics.partitioner": func(_ *servicetest.World, o *service.Options, c *checks.Config) {
			o.Partitioner, o.Topics.Partitions, c.Counts = engine.AnyPartitioner, 4, true
		},
		"input.key_check": func(_ *servicetest.World, o *service.Options, c *checks.Config) {
			c.KeyCheckOff, o.Topics.Partitions, c.Counts = true, 4, true
		},
		"transaction.timeout": func(_ *servicetest.World, o *service.Options, _ *checks.Config) {
			o.TransactionTimeout = o.MaxInterval
		},
		"account": func(w *servicetest.World, o *service.Options, _ *checks.Config) {
			atwork.Serve(t, w, *o, 2)
			w.DeleteTopic(t, o.Topics.Changelog, false)
		},
		"topic": func(w *servicetest.World, o *service.Options, _ *checks.Config) {
			servicetest.OK(t, admin.CreateTopics(t.Context(), w.Client, wire.Options{}, admin.Topic{
				Name: o.Topics.Sanitized, Partitions: servicetest.Partitions,
				Initial: map[string]string{"cleanup.policy": "compact"},
			}))
		},
		"accounts' places": func(_ *servicetest.World, o *service.Options, _ *checks.Config) {
			o.Partitioner = engine.AnyPartitioner
			o.Release.Budget = mechanism.Budget{
				Epsilon: 5, WindowSteps: 60, Spent: mechanism.SpentPredict,
			}
		},
		"changelog": func(w *servicetest.World, o *service.Options, _ *checks.Config) {
			with := *o
			with.Later = later()
			atwork.Serve(t, w, with, 4)
		},
		"first records": func(w *servicetest.World, _ *service.Options, _ *checks.Config) {
			for n := range int64(200) {
				fix := servicetest.Sentinel()
				fix.Latitude, fix.Timestamp = fix.Latitude+9, fix.Timestamp+n*60_000
				w.Send(t, producer.Record{
					Key: []byte(fix.UserID), Timestamp: fix.Timestamp,
					Value: servicetest.Encode(t, schemas.Avro, fix),
				})
			}
		},
	}
	by := map[string]string{}
	for _, c := range checks.List() {
		if _, twice := by[c.Name]; twice {
			t.Errorf("two checks have the name %q", c.Name)
		}
		by[c.Name] = c.By
		// Only counts fail for timestamps: TestCountsService in cmd/geodither.
		if fault := faults[c.Name]; (c.By == checks.AtStart) != (fault != nil) &&
			c.Name != "timestamps" {
			t.Errorf("%q, which fails by %q, has a fault: %t", c.Name, c.By, fault != nil)
		}
	}
	for name, plant := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := servicetest.NewWorld(t, 4)
			o, c := atwork.Options(w, "first"), new(checks.Config)
			o.Topics.Create, o.Key = true, noise.NewKey()
			plant(w, &o, c)
			start := o.Start()
			start.Config = c
			stops := ""
			for _, f := range checks.ByText(start) {
				if f.Level == checks.Failure {
					stops = f.Detail
				}
			}
			if stops == "" {
				err := atwork.Start(t, o).Wait(t)
				if err == nil {
					t.Fatal("the service does not stop")
				}
				stops = err.Error()
			}
			found := service.Examine(t.Context(), o, c, nil)
			if !slices.ContainsFunc(found, func(f checks.Finding) bool {
				return f.Check == name && f.Level == checks.Failure && f.Detail == stops
			}) {
				t.Errorf("run stops with %q, doctor finds\n%s", stops,
					atwork.Details(found, checks.Failure))
			}
			for _, f := range found {
				if refused, known := by[f.Check]; !known || f.Level == checks.Failure &&
					refused == "" {
					t.Errorf("%q is not in the list, or must not fail: %+v", f.Check, f)
				}
			}
		})
	}
}
