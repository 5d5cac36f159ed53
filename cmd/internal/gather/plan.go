package gather

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/mobility/train"
)

// Plan says what map and step a model has, and how fixes become it.
type Plan struct {
	Box, Cell string // as for [cli.ParseMap]
	Step      time.Duration
	Train     train.Options
}

// Into returns what traces are read into. It has made a trainer: what the plan asks for can be
// done. source names the traces in the model's provenance.
func (p Plan) Into(source string) (Into, error) {
	g, err := cli.ParseMap(p.Box, p.Cell)
	if err != nil {
		return Into{}, cli.Usage(err)
	}
	o := p.Train
	if o.Calendar.UTCOffset != 0 && o.Calendar.Classes() == 1 {
		return Into{},
			cli.Usagef("utc in --calendar needs hours or weekends beside it")
	}
	o.Source, o.Tool = source, cli.Tool()
	if _, err := train.New(g, p.Step, o); err != nil {
		return Into{}, cli.Usage(err)
	}
	return Into{Grid: g, New: func() *train.Trainer {
		trainer, err := train.New(g, p.Step, o)
		if err != nil {
			panic(err) // the same arguments were fine a moment ago
		}
		return trainer
	}}, nil
}

// Smoothing is the value of --smoothing, such as radius=5,backoff=20,cap=30,jumps=0.005: the
// training options that decide how rows are smoothed. Each part is optional, and a zero stands for
// its default.
type Smoothing struct {
	radius, cap    int
	backoff, jumps float64 // jumps: negative for none, as in train.Options
}

// Apply sets the training options that the smoothing has.
func (s Smoothing) Apply(o *train.Options) {
	o.KernelRadius, o.UserCap, o.Backoff, o.Jumps = s.radius, s.cap, s.backoff, s.jumps
}

// Set reads a value of the flag.
func (s *Smoothing) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		var err error
		switch name {
		case "radius":
			s.radius, err = positive(strconv.Atoi(value))
		case "cap":
			s.cap, err = positive(strconv.Atoi(value))
		case "backoff":
			s.backoff, err = positive(strconv.ParseFloat(value, 64))
		case "jumps":
			if s.jumps, err = strconv.ParseFloat(value, 64); s.jumps <= 0 {
				s.jumps = -1 // 0 is no jumps here, and the default in the options
			}
		default:
			return fmt.Errorf("there is no part %q: write radius=5,backoff=20,cap=30,jumps=0.005",
				name)
		}
		if err != nil {
			return fmt.Errorf("%q is no %s: write radius=5,backoff=20,cap=30,jumps=0.005", value,
				name)
		}
	}
	return nil
}

// positive returns an error for a number that is none or not above 0: a zero would stand for the
// default.
func positive[T int | float64](v T, err error) (T, error) {
	if err == nil && v <= 0 {
		err = strconv.ErrRange
	}
	return v, err
}

// String returns the value of the flag, empty for all defaults.
func (s *Smoothing) String() string {
	if *s == (Smoothing{}) {
		return ""
	}
	return fmt.Sprintf("radius=%d,backoff=%g,cap=%d,jumps=%g", s.radius, s.backoff, s.cap,
		max(s.jumps, 0))
}

// Type names the value in the help.
func (s *Smoothing) Type() string { return "smoothing" }

// Calendar is the value of --calendar, such as 6,10,16,20,weekend,utc+1h: the local hours at which
// parts of the day start, whether weekends have classes of their own, and the local time minus UTC.
type Calendar mobility.Calendar

// Set reads a value of the flag.
func (c *Calendar) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		offset, isOffset := strings.CutPrefix(part, "utc")
		hour, err := strconv.Atoi(part)
		switch {
		case part == "weekend":
			c.Weekend = true
		case isOffset:
			if c.UTCOffset, err = time.ParseDuration(offset); err != nil {
				return fmt.Errorf("%q is no local time: write utc+8h or utc-5h30m", part)
			}
		case err == nil:
			c.Hours = append(c.Hours, hour)
		default:
			return fmt.Errorf("%q is no hour: write 6,10,16,20,weekend,utc+1h", part)
		}
	}
	return nil
}

// String returns the value of the flag, empty for a single class.
func (c *Calendar) String() string {
	var parts []string
	for _, hour := range c.Hours {
		parts = append(parts, strconv.Itoa(hour))
	}
	if c.Weekend {
		parts = append(parts, "weekend")
	}
	if c.UTCOffset != 0 {
		parts = append(parts, fmt.Sprintf("utc%+gh", c.UTCOffset.Hours()))
	}
	return strings.Join(parts, ",")
}

// Type names the value in the help.
func (c *Calendar) Type() string { return "calendar" }
