package service

import (
	"context"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
)

const (
	// reportInterval is how often a working service says what it has done.
	reportInterval = 30 * time.Second
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

// report logs the totals while they grow, and warns where many records are refused: a
// wrong encoding looks like that, or two feeds of the same users.
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
			r.alarm(s.options.Counters.Snapshot())
		case <-report.C:
			r.report(s.options.Counters.Snapshot())
		}
	}
}

// alarm warns at once, and once a report, if most records are refused.
func (r *reporter) alarm(now engine.Tally) {
	refused, in := now.DeadLetters-r.last.DeadLetters, r.since(now)
	if r.warned || refused < alarmRecords || 2*refused <= in {
		return
	}
	r.warned = true
	reasons := now.Refusals.Minus(r.last.Refusals)
	message := "most records are refused"
	if refused == in {
		message = "every record is refused"
	}
	//nolint:sloglint // the message is one of two constants
	r.log.Warn(message, "records", in, "refused", refused, "reasons", reasons.String(),
		"likely", r.options.Source().Advice(reasons, now.OutsideSwapped-r.last.OutsideSwapped),
		"topic", r.options.Topics.DeadLetters)
}

// report is made every reportInterval.
func (r *reporter) report(now engine.Tally) {
	if now.RecordsIn > r.last.RecordsIn {
		r.log.Info("progress", now.LogAttrs()...)
	}
	r.warn(now)
}

// warn says what looks wrong since the last report. It also comes when the service stops:
// a run may be shorter than the interval.
func (r *reporter) warn(now engine.Tally) {
	r.alarm(now)
	r.skipped(now)
	refused, in := now.DeadLetters-r.last.DeadLetters, r.since(now)
	if !r.warned && 10*refused > in {
		reasons := now.Refusals.Minus(r.last.Refusals)
		r.log.Warn("more than a tenth of the records is refused; the dead-letter topic says "+
			"where they are", "records", in, "refused", refused, "reasons", reasons.String(),
			"likely",
			r.options.Source().Advice(reasons, now.OutsideSwapped-r.last.OutsideSwapped),
			"topic", r.options.Topics.DeadLetters)
	}
	if n := now.Misplaced - r.last.Misplaced; n > 0 {
		r.log.Warn(misplacedWarning, "records", in, "misplaced", n,
			"partitioner", r.options.Partitioner, "topic", r.options.Topics.DeadLetters)
	}
	if n := now.Destroyed - r.last.Destroyed; n > 0 {
		r.log.Warn("fixes were refused since the noise key of their day was destroyed "+
			"(key_destroyed in the dead-letter topic)",
			"refused", n, "key_first_day", r.options.Key.FirstDay().String())
	}
	r.outside(now)
	r.last, r.warned = now, false
}

// skippedRecords is how many records in a row it takes to say that all are skipped: a rule is
// there to skip many.
const skippedRecords = 100

// skipped warns if every record was skipped by a rule: the rule may be wrong, and nothing else
// shows it.
func (r *reporter) skipped(now engine.Tally) {
	n := now.RecordsSkipped - r.last.RecordsSkipped
	if n < skippedRecords || r.since(now) > 0 {
		return
	}
	r.log.Warn("a rule of the section input skips every record", "records", n,
		"by_rule", now.SkippedBy(r.options.Input.Rules(), r.last))
}

// since is how many fixes were read since the last report, without those that a rule skips.
func (r *reporter) since(now engine.Tally) int64 {
	return max(now.Fixes()-r.last.Fixes(), // a record may have several
		now.RecordsIn-r.last.RecordsIn-(now.RecordsSkipped-r.last.RecordsSkipped))
}

// outside warns if many fixes lie outside the map. Those that are clamped get records
// which claim a place that they do not have.
func (r *reporter) outside(now engine.Tally) {
	outside, in := now.Outside()-r.last.Outside(), r.since(now)
	if outside < alarmRecords || float64(outside) <= engine.OutsideShare*float64(in) {
		return
	}
	likely := "the map is another one than the fleet's: train a model whose box holds it"
	if 2*(now.OutsideSwapped-r.last.OutsideSwapped) > outside {
		likely = engine.SwappedAdvice
	}
	r.log.Warn("many fixes lie outside the map", "records", in,
		"clamped", now.OutsideClamped-r.last.OutsideClamped, "refused",
		now.OutsideRefused-r.last.OutsideRefused, "likely", likely)
}
