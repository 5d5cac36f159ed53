package train

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/geodither/geodither/mechanism/mobility"
)

// Options say how traces become a model. The zero value takes every default.
type Options struct {
	// KernelRadius is the reach of the smoothing kernel in columns and in rows (default 5).
	KernelRadius int
	// Backoff is the weight κ of the kernel in a row, in transitions (default 20). A cell with n
	// counted transitions out of it gives them the weight n/(n + κ) and the kernel κ/(n + κ).
	// Rows without transitions are the kernel alone.
	Backoff float64
	// UserCap bounds what one user contributes to one cell: to its row, in transitions, and to its
	// popularity, in steps (default 30). A user who sat somewhere for weeks does not speak for the
	// others. Weights beyond the cap are scaled down in proportion.
	UserCap int
	// MaxGap cuts a trace where two successive fixes are further apart in time. 0 sets no limit,
	// other than that transitions are between consecutive steps. Any other value must be at least
	// the step (or, with EveryFix, positive).
	MaxGap time.Duration
	// Interpolate places a user at the end of each step on the straight line between the fixes
	// around it, where these are at most MaxGap apart (MaxGap must then be set). Without it a
	// step's last fix counts. With it, moves that take longer than a step give transitions along
	// the way.
	Interpolate bool
	// KeepShared also counts fixes that two users report with the same time and place. By default
	// they are dropped for all of these users, as one trace under two names.
	KeepShared bool
	// Calendar gives each of its classes a matrix of its own. A transition counts in the class of
	// the step that it leaves. The rows of a class back off to those of all classes together, with
	// the weight of Backoff, and these to the kernel.
	Calendar mobility.Calendar
	// EveryFix makes each pair of a user's successive fixes a transition, whatever the time between
	// them. It is for check-ins, which come too rarely for any step. The model's step is then
	// nominal.
	EveryFix bool
	// Uniform is the share of the initial distribution that is spread evenly over the grid (default
	// 0.1), so that a user who starts where nobody was before can be found.
	Uniform float64
	// Jumps is the share of every row that goes to far cells, in eight directions at about two,
	// four and eight times the radius (default 5e-3; a negative number means none). With jumps a
	// user who reappears beyond the kernel is found again sooner. A larger share lowers the drift
	// and enlarges the location sets.
	Jumps float64
	// NoGapLaw leaves the law of gaps out: a gap of so many steps is then as many moves of the
	// chain. With EveryFix there is none in any case.
	NoGapLaw bool
	// Source and Tool are copied into the model's provenance.
	Source, Tool string
}

// Defaults returns o with every zero number replaced by its default.
func (o Options) Defaults() Options {
	o.KernelRadius = cmp.Or(o.KernelRadius, 5)
	o.Backoff = cmp.Or(o.Backoff, 20)
	o.UserCap = cmp.Or(o.UserCap, 30)
	o.Uniform = cmp.Or(o.Uniform, 0.1)
	o.Jumps = cmp.Or(o.Jumps, 5e-3)
	return o
}

// maxInterpolated bounds how many places are interpolated between two fixes.
const maxInterpolated = 1000

// MaxKernelRadius is the largest kernel radius in cells.
const MaxKernelRadius = mobility.MaxRadius

// Validate returns an error for the first option, with defaults filled in, that training at the
// step cannot use.
func (o Options) Validate(step time.Duration) error {
	o = o.Defaults()
	switch {
	case step < time.Millisecond || step > 24*time.Hour || step%time.Millisecond != 0:
		return errors.New("train: the step must be whole milliseconds, at most a day")
	case o.KernelRadius < 1 || o.KernelRadius > MaxKernelRadius:
		return fmt.Errorf("train: the kernel radius is not 1 to %d", MaxKernelRadius)
	case !(o.Backoff > 0) || o.Backoff > 1e6:
		return errors.New("train: the back-off weight is not in (0, 1e6]")
	case o.UserCap < 1 || o.UserCap > 1e6:
		return errors.New("train: the cap of transitions is not 1 to 1e6")
	case !(o.Uniform > 0) || o.Uniform > 1:
		return errors.New("train: the uniform share is not in (0, 1]")
	case !(o.Jumps < 1):
		return errors.New("train: the share of jumps is not below 1")
	case o.Interpolate && o.EveryFix:
		return errors.New("train: EveryFix excludes Interpolate")
	case o.Interpolate && o.MaxGap == 0:
		return errors.New("train: Interpolate needs a MaxGap, such as 5m")
	case o.Interpolate && o.MaxGap > maxInterpolated*step:
		return fmt.Errorf("train: MaxGap exceeds %d steps with Interpolate", maxInterpolated)
	case o.MaxGap < 0, o.MaxGap > 0 && o.MaxGap < step && !o.EveryFix:
		return errors.New("train: MaxGap is below the step, not 0")
	}
	return o.Calendar.Validate()
}

// String returns the options that a model depends on, each as name=value. The place that stands for
// a step is "last fix", "line to its end" or "every fix".
func (o Options) String() string {
	place := "last fix"
	switch {
	case o.EveryFix:
		place = "every fix"
	case o.Interpolate:
		place = "line to its end"
	}
	gaps := ""
	if !o.NoGapLaw && !o.EveryFix {
		gaps = learnedGaps
	}
	return fmt.Sprintf("kernel_radius=%d backoff=%g user_cap=%d max_gap=%s every_fix=%t place=%q "+
		"uniform=%g jumps=%g keep_shared=%t calendar=%q%s",
		o.KernelRadius, o.Backoff, o.UserCap, o.MaxGap, o.EveryFix, place, o.Uniform,
		max(o.Jumps, 0), o.KeepShared, o.Calendar, gaps)
}

// learnedGaps ends the options of a model that was trained with a law of gaps. Those of earlier
// models do not have it.
const learnedGaps = " gaps=learned"

// OptionsOf returns the options that a model was trained with: the inverse of [Options.String],
// with the calendar of the model. It returns an error for a model whose provenance does not tell
// all of them.
func OptionsOf(m *mobility.Model) (Options, error) {
	text := m.Provenance.Options
	o := Options{Calendar: m.Calendar}
	var gap, place string
	_, err := fmt.Sscanf(text, "kernel_radius=%d backoff=%g user_cap=%d max_gap=%s every_fix=%t "+
		"place=%q uniform=%g jumps=%g keep_shared=%t",
		&o.KernelRadius, &o.Backoff, &o.UserCap, &gap, &o.EveryFix, &place, &o.Uniform, &o.Jumps,
		&o.KeepShared)
	if err == nil {
		o.MaxGap, err = time.ParseDuration(gap)
	}
	o.Interpolate = place == "line to its end"
	if o.Jumps == 0 {
		o.Jumps = -1 // 0 would mean the default
	}
	o.NoGapLaw = !o.EveryFix && !strings.Contains(text, learnedGaps)
	rest, same := strings.CutPrefix(text, o.String())
	if err == nil && same && rest == "" {
		err = o.Validate(m.Step)
	} else {
		err = cmp.Or(err, errors.New("they have not this version's form"))
	}
	if err != nil {
		return Options{}, fmt.Errorf("train: the model lacks its training options: %w", err)
	}
	return o, nil
}
