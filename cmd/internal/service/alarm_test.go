package service

import (
	"slices"
	"strings"
	"testing"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/schemas"
)

// judged is what a reporter says of two readings, the first one reported before.
func judged(o Options, from, to engine.Tally) string {
	var log servicetest.Log
	r := reporter{Service: &Service{options: o, log: log.Logger()}, last: from}
	r.report(to)
	return log.String()
}

// TestReports: shares count since the last report, not since the start.
func TestReports(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)).WithDefaults()
	refused := func(reason schemas.Reason, n int) (r engine.Refusals) {
		for range n {
			r.Add(reason, nil)
		}
		return r
	}
	before := engine.Tally{
		RecordsIn: 1000, DeadLetters: 1000, OutsideRefused: 500,
		Refusals: refused(schemas.ReasonMalformed, 1000),
	}
	after := func(in, dead, clamped, outside, swapped int64, r engine.Refusals) engine.Tally {
		for range 1000 {
			r.Add(schemas.ReasonMalformed, nil)
		}
		return engine.Tally{
			RecordsIn: 1000 + in, DeadLetters: 1000 + dead, OutsideClamped: clamped,
			OutsideRefused: 500 + outside, OutsideSwapped: swapped, Refusals: r,
		}
	}
	skipped := before
	skipped.RecordsIn, skipped.RecordsSkipped = 1100, 100
	skipped.SkippedByRule[slices.Index(o.Input.Rules(), "tombstone")] = 100
	for name, c := range map[string]struct {
		now         engine.Tally
		want, never string
	}{
		"all are skipped": {
			skipped,
			`section input skips every record" records=100 by_rule="tombstone 100"`, "is refused",
		},
		"all is well": {
			after(1000, 100, 0, 50, 0, refused(schemas.ReasonLate, 100)), "records_in=1000",
			"level=WARN",
		},
		"nothing came": {before, "", "level="},
		"many are late": {
			after(1000, 200, 0, 0, 0, refused(schemas.ReasonLate, 200)), `more than a tenth`,
			"most records",
		},
		"with the reason": {
			after(1000, 200, 0, 0, 0, refused(schemas.ReasonLate, 200)), `reasons="late 200"`,
			"malformed",
		},
		"most": {
			after(1000, 501, 0, 0, 0, refused(schemas.ReasonKeyMismatch, 501)),
			`most records are refused`, "more than a tenth",
		},
		"two are no share": {
			after(2, 2, 0, 0, 0, refused(schemas.ReasonKeyMismatch, 2)), `more than a tenth`,
			"every record",
		},
		"outside, clamped": {
			after(1000, 0, 51, 0, 0, engine.Refusals{}),
			`many fixes lie outside the map" records=1000 clamped=51 refused=0`, "swapped",
		},
		"outside, refused": {
			after(1000, 60, 0, 60, 20, refused(schemas.ReasonOutsideMap, 60)),
			`clamped=0 refused=60`, "swapped",
		},
		"swapped, clamped": {
			after(1000, 0, 1000, 0, 900, engine.Refusals{}), "look swapped", "is refused",
		},
		"outside, but a few": {
			after(1000, 0, 50, 0, 0, engine.Refusals{}), "progress", "level=WARN",
		},
	} {
		got := judged(o, before, c.now)
		if !strings.Contains(got, c.want) || strings.Contains(got, c.never) {
			t.Errorf("%s: want %q and no %q in\n%s", name, c.want, c.never, got)
		}
	}
}

// TestAlarmOncePerReport: what goes on is not repeated every two seconds.
func TestAlarmOncePerReport(t *testing.T) {
	var log servicetest.Log
	r := reporter{
		Service: &Service{options: testOptions(t, servicetest.NeighbourModel(t, servicetest.Town,
			5000, 4)).WithDefaults(), log: log.Logger()},
	}
	warnings := func() int { return strings.Count(log.String(), "every record is refused") }
	for n := range int64(5) {
		r.alarm(engine.Tally{RecordsIn: 10 * (n + 1), DeadLetters: 10 * (n + 1)})
	}
	if warnings() != 1 {
		t.Errorf("%d warnings before the report", warnings())
	}
	r.report(engine.Tally{RecordsIn: 60, DeadLetters: 60})
	r.alarm(engine.Tally{RecordsIn: 70, DeadLetters: 70})
	if warnings() != 2 {
		t.Errorf("%d warnings after it", warnings())
	}
}
