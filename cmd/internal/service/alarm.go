package service

import (
	"context"
	"time"

	"github.com/geodither/geodither/cmd/internal/counting"
	"github.com/geodither/geodither/cmd/internal/engine"
)

const (
	// reportInterval is how often a working service says what it has done.
	reportInterval = time.Minute
	// alarmInterval is how often it looks whether something goes wrong at large: an operator who
	// has just started a service with a wrong setting is still watching its log then.
	alarmInterval = 2 * time.Second
)

// alarmRecords is how many records have to be refused before the share of them says
// anything.
const alarmRecords = 3

// reporter says in the log what a service has done, and what looks wrong.
type reporter struct {
	*Service
	last   engine.Tally // of the last report
	warned bool         // since then, of most records being refused
}

// report logs what was done while there is something to do, and warns where many records are
// refused: a wrong encoding looks like that, or two feeds of the same users.
func (s *Service) report(ctx context.Context) {
	r := reporter{Service: s}
	report, alarm := time.NewTicker(reportInterval), time.NewTicker(s.alarmEvery)
	defer report.Stop()
	defer alarm.Stop()
	for {
		select {
		case <-ctx.Done():
			r.warn(s.options.Counters.Snapshot())
			return
		case <-alarm.C:
			s.outputs.unwritten()
			r.alarm(s.options.Counters.Snapshot())
		case <-report.C:
			r.report(s.options.Counters.Snapshot())
		}
	}
}

// since is what has come of records since the last report, and how many fixes were read in it,
// without those that a rule skips. A record may have several.
func (r *reporter) since(now engine.Tally) (t engine.Tally, in int64) {
	t = now.Minus(r.last)
	return t, max(t.Fixes(), t.RecordsIn-t.RecordsSkipped)
}

// alarm warns at once, and once a report, if most records are refused.
func (r *reporter) alarm(now engine.Tally) {
	t, in := r.since(now)
	if r.warned || t.DeadLetters < alarmRecords || 2*t.DeadLetters <= in {
		return
	}
	r.warned = true
	message := "most records are refused"
	if t.DeadLetters == in {
		message = "every record is refused"
	}
	//nolint:sloglint // the message is one of two constants
	r.log.Warn(message, r.refused(t, in)...)
}

// refused are the attributes of a warning about refused records, with what is likely wrong.
func (r *reporter) refused(t engine.Tally, in int64) []any {
	return r.letters("records", in, "refused", t.DeadLetters, "reasons", t.Refusals.String(),
		"likely", r.options.Source().Advice(t.Refusals, t.OutsideSwapped))
}

// letters adds the topic that says where refused records are, if there is one.
func (r *reporter) letters(attrs ...any) []any {
	if r.options.Topics.NoDeadLetters {
		return attrs
	}
	return append(attrs, "topic", r.options.Topics.DeadLetters)
}

// rules are the names of the rules that skip fixes, by their numbers.
func (r *reporter) rules() []string {
	if _, counts := r.job.(*countingJob); counts {
		return counting.Rules(r.options.Input)
	}
	return r.options.Input.Rules()
}

// report is made every reportInterval. It says what was done in it, if there was anything.
func (r *reporter) report(now engine.Tally) {
	if t := now.Minus(r.last); t.RecordsIn > 0 {
		attrs := t.Counted()
		if r.options.Board != nil {
			attrs = append(attrs, "lag_records", r.options.Board.Lag())
		}
		r.log.Info("progress", attrs...)
	}
	r.warn(now)
}

// skippedRecords is how many records in a row it takes to say that all are skipped: a rule is
// there to skip many. The rule may be wrong, and nothing else shows it.
const skippedRecords = 100

// warn says what looks wrong since the last report. It also comes when the service stops:
// a run may be shorter than the interval.
func (r *reporter) warn(now engine.Tally) {
	r.alarm(now)
	t, in := r.since(now)
	// That a backlog of days before counts.first is skipped is how a group starts.
	if t.RecordsSkipped-t.SkippedByRule[counting.BeforeFirst] >= skippedRecords && in == 0 {
		r.log.Warn("a rule of the section input skips every record", "records", t.RecordsSkipped,
			"by_rule", t.SkippedBy(r.rules()))
	}
	if !r.warned && 10*t.DeadLetters > in {
		r.log.Warn("more than a tenth of the records is refused", r.refused(t, in)...)
	}
	if t.Misplaced > 0 {
		r.log.Warn(misplacedWarning, r.letters("records", in, "misplaced", t.Misplaced,
			"partitioner", r.options.Partitioner)...)
	}
	if t.Destroyed > 0 {
		r.log.Warn("fixes were refused since the noise key of their day was destroyed "+
			"(key_destroyed in the dead-letter topic)",
			"refused", t.Destroyed, "key_first_day", r.options.Key.FirstDay().String())
	}
	r.outside(t, in)
	r.last, r.warned = now, false
}

// outside warns if many fixes lie outside the map. Those that are clamped get records
// which claim a place that they do not have.
func (r *reporter) outside(t engine.Tally, in int64) {
	n := t.OutsideClamped + t.OutsideRefused
	if n < alarmRecords || float64(n) <= engine.OutsideShare*float64(in) {
		return
	}
	likely := "the map is another one than the fleet's: train a model whose box holds it"
	if 2*t.OutsideSwapped > n {
		likely = engine.SwappedAdvice
	}
	r.log.Warn("many fixes lie outside the map", "records", in,
		"clamped", t.OutsideClamped, "refused", t.OutsideRefused, "likely", likely)
}
