package countfiles

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/noise"
)

// Request is what a user wants counted.
type Request struct {
	Config   config.File             // the section counts, with flags in the place of some settings
	Service  config.Counts           // of the service that the config describes; empty: none
	Name     func(key string) string // names a key of the section for errors
	From, To string                  // the first day and the one after the last, or their times
	Typical  bool                    // a typical day, of the range's Days
	Days     string                  // see daysOf
	Now      time.Time               // a typical day's range is over by then

	// Choose has several zones and windows compared, and nothing published. The rest is for
	// counts that are published.
	Choose      bool
	Key         noise.Key
	KeyFile     string // "": Key is a fresh one
	Out, Format string
}

// options say what to count.
type options struct {
	settings counts.Settings
	plan     *counts.Plan
	first    counts.Date
	end      counts.Date // the day after the last
	days     [][]counts.Window
	typical  *counts.Typical // nil: each day for itself
	weekdays hours.Days      // of a typical day
	zones    *counts.Zones
}

// Since is the time at which the range starts, by the request's clock. An error is one of the
// user's.
func (q Request) Since() (time.Time, error) {
	plan, err := counts.NewPlan(cmp.Or(q.Config.Counts.TimeZone, "UTC"), 24*time.Hour)
	if err != nil {
		return time.Time{}, err
	}
	first, err := dayOf(plan, "from", q.From)
	if err != nil {
		return time.Time{}, err
	}
	windows := plan.Windows(first)
	if len(windows) == 0 {
		return time.Time{}, fmt.Errorf("--from %s: the calendar of %s has no such day", q.From,
			plan.Zone())
	}
	return time.UnixMilli(windows[0].StartMS), nil
}

// Validate reports what cannot be counted, before anything is read.
func (q Request) Validate() error {
	if q.Choose {
		return nil
	}
	_, err := q.options()
	return cli.Usage(err)
}

// options reads the request. An error is one of the user's.
func (q Request) options() (o options, err error) {
	if c := q.Config.Counts; c.Epsilon == 0 || c.PerDay == 0 {
		return o, errors.New("to publish, give --epsilon and --per-day; to look first, leave out " +
			"--per-day, --out, --key-file")
	}
	counted, err := q.Config.Counted(q.Name)
	if err != nil {
		return o, err
	}
	o.settings, o.plan, o.zones = counted.Settings, counted.Plan, counted.Zones
	if q.From == "" || q.To == "" {
		return o, errors.New("name the days to publish, --from DAY and --to DAY: which they are " +
			"must not depend on the fixes")
	}
	if o.first, err = dayOf(o.plan, "from", q.From); err != nil {
		return o, err
	}
	if o.end, err = dayOf(o.plan, "to", q.To); err != nil {
		return o, err
	}
	if o.days, err = o.plan.Between(o.first, o.end-1); err != nil || !q.Typical {
		return o, err
	}
	last := o.days[len(o.days)-1]
	if end := time.UnixMilli(last[len(last)-1].EndMS); end.After(q.Now) && !q.Choose {
		return o, fmt.Errorf("--to %s: wait until the range is over", q.To)
	}
	weekdays, without, err := daysOf(q.Days)
	if err != nil {
		return o, err
	}
	o.weekdays = weekdays
	if o.typical, err = o.plan.Typical(o.first, o.end, weekdays, without); err != nil {
		return o, fmt.Errorf("--days %s: %w", q.Days, err)
	}
	o.days = o.typical.Days
	return o, nil
}

// dayOf reads a day, or the time at which it starts.
func dayOf(plan *counts.Plan, flag, text string) (counts.Date, error) {
	if day, err := counts.ParseDate(text); err == nil {
		return day, nil
	}
	var at cli.When
	if at.Set(text) != nil {
		return 0, fmt.Errorf("--%s %q is no day from 1980 on, such as 2026-11-21", flag, text)
	}
	ms := at.UnixMilli()
	day := plan.At(ms).Day
	if windows := plan.Windows(day); windows[0].StartMS != ms {
		return 0, fmt.Errorf("--%s %s: no day starts then by the clock of %s", flag, text,
			plan.Zone())
	}
	return day, nil
}

// daysOf reads which days of a range a typical day stands for: working, weekend, all or names of
// weekdays, and files of days to leave out, one a line.
func daysOf(text string) (weekdays hours.Days, without []counts.Date, err error) {
	known := map[string]string{"working": "mon-fri", "weekend": "sat,sun", "all": "mon-sun"}
	for part := range strings.SplitSeq(text, ",") {
		name := part
		if known[part] != "" {
			name = known[part]
		}
		if days, err := hours.ParseDays(name); err == nil && part != "" {
			weekdays |= days
			continue
		}
		if !strings.ContainsAny(part, "./\\") {
			return 0, nil, fmt.Errorf("--days %q: write working, weekend, all or mon,fri, and a "+
				"file of days to leave out, such as holidays.txt", part)
		}
		left, err := readDays(part)
		if err != nil {
			return 0, nil, fmt.Errorf("--days %q: %w", part, err)
		}
		without = append(without, left...)
	}
	if weekdays == 0 {
		return 0, nil, fmt.Errorf("--days %s: name the days too, such as working,%[1]s", text)
	}
	return weekdays, without, nil
}

// readDays reads a file of days, one a line. What follows a day, after a space or #, is a comment.
func readDays(path string) (days []counts.Date, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		day, err := counts.ParseDate(fields[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		days = append(days, day)
	}
	return days, lines.Err()
}
