package mechanism

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestPolicyDoesNotAllocate(t *testing.T) {
	model := roadModel(t)
	for _, o := range []Options{
		{MinCells: 60},
		{Estimate: EstimateMedian},
		{Estimate: EstimateMode, ReleaseInterval: 3},
		{Budget: Budget{Epsilon: 20, WindowSteps: 50, Lifetime: 1e6}},
	} {
		o.Epsilon, o.Delta = 1, .05
		s := newSanitizer(t, model, o)
		path := walk(model, 1, 300)
		var state State
		var data []byte
		step, i := int64(0), 0
		next := func() {
			step += int64(i * i % 7)
			out := mustStep(t, s, &state, Input{
				User: "user", Step: step, Cell: path[i%len(path)],
				Release: true,
			})
			data = state.AppendBinary(data[:0])
			if err := state.DecodeBinary(data); err != nil {
				t.Fatal(err)
			}
			if out.Kind == Released && !(out.Metric.Across > 1) {
				t.Fatal(out)
			}
			i++
		}
		for range len(path) {
			next()
		}
		state.Started = false
		state.Ledger.Reset()
		state, step, i = State{Posterior: state.Posterior, Ledger: state.Ledger}, 0, 0
		if n := testing.AllocsPerRun(len(path)-1, next); n != 0 {
			t.Errorf("%+v: %g allocations a step", o, n)
		}
	}
}

func TestPolicyOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"min cells": {func(o *Options) { o.MinCells = MaxMinCells + 1 }, "min cells"},
		"estimate":  {func(o *Options) { o.Estimate = "best" }, "mean, median, mode"},
		"between":   {func(o *Options) { o.Between = "guess" }, "predict, skip"},
		"spent": {
			func(o *Options) { o.Budget.Spent = "stop" },
			"suppress, repeat, predict",
		},
		"interval":      {func(o *Options) { o.ReleaseInterval = -1 }, "interval"},
		"long interval": {func(o *Options) { o.ReleaseInterval = MaxSteps + 1 }, "interval"},
		"no window":     {func(o *Options) { o.Budget.Epsilon = 5 }, "both"},
		"no budget":     {func(o *Options) { o.Budget.WindowSteps = 5 }, "both"},
		"negative window": {
			func(o *Options) { o.Budget = Budget{Epsilon: 5, WindowSteps: -1} },
			"window",
		},
		"small budget": {func(o *Options) {
			o.Budget = Budget{Epsilon: .9999999999, WindowSteps: 5}
		}, "below"},
		"small lifetime": {func(o *Options) { o.Budget.Lifetime = .5 }, "below"},
		"large budget":   {func(o *Options) { o.Budget.Lifetime = 2 * MaxBudget }, "lifetime"},
		"budget no number": {func(o *Options) {
			o.Budget = Budget{Epsilon: math.NaN(), WindowSteps: 5}
		}, "budget"},
	} {
		o := Options{Epsilon: 1}
		c.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := Options{Epsilon: 1, MinCells: -1}
	if err := o.Validate(); err != nil {
		t.Errorf("no padding: %v", err)
	}
	o = Options{Epsilon: 1}.withDefaults()
	if o.MinCells != DefaultMinCells || o.Estimate != EstimateMean || o.ReleaseInterval != 1 ||
		o.Between != BetweenPredict ||
		o.Budget != (Budget{Spent: SpentPredict}) {
		t.Errorf("defaults: %+v", o)
	}
	for k := Kind(1); k <= Suppressed; k++ {
		if text := k.String(); text == "" || strings.HasPrefix(text, "Kind") {
			t.Errorf("kind %d is called %q", uint8(k), text)
		}
	}
	if fmt.Sprint(Kind(0), Kind(99)) != "Kind(0) Kind(99)" {
		t.Errorf("no kinds: %v, %v", Kind(0), Kind(99))
	}
}
