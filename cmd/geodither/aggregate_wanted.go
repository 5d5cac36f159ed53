package main

import (
	"github.com/geodither/geodither/mechanism/aggregate"
	"github.com/geodither/geodither/mechanism/mobility"
)

// wantedCounts are the collector's counts of the records of windows that are wanted: what
// --from and --to leave out is no fault of the records that were asked for.
type wantedCounts struct {
	records, followed, foreign int64 // as in aggregate.Counts
	after                      int64 // records after --to, which the collector does not see

	inside bool
	since  aggregate.Counts // when a record was wanted, after one that was not
}

// turn tells whether the next record is wanted. Where that changes, which it does once in
// records that are in the order of their steps, it costs a pass over the users.
func (w *wantedCounts) turn(inside bool, k *aggregate.Collector) {
	if inside == w.inside {
		return
	}
	w.inside = inside
	now := k.Counts()
	if inside {
		w.since = now
		return
	}
	w.records += now.Records - w.since.Records
	w.followed += now.Followed - w.since.Followed
	w.foreign += now.Foreign - w.since.Foreign
}

// outside says whether a step's window begins before --from, and whether it ends after
// --to. Nothing that is wanted depends on records of the latter.
func (r *aggregateRun) outside(step int64) (before, after bool) {
	length := r.collect.WindowSteps * r.settings.models.public[0].Step.Milliseconds()
	start := mobility.StepOf(step, r.collect.WindowSteps) * length
	from, to := r.collect.FromMS, r.collect.BeforeMS
	return from != 0 && start < from, to != 0 && start+length > to
}
