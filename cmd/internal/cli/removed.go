package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// removed has the flags that earlier releases had, by command and then by name, with what to do
// instead. The text completes "--name is gone: ". A flag stays in the table for good: scripts are
// old when they meet a new release.
var removed = map[string]map[string]string{
	"aggregate": with(releaseKeys, map[string]string{
		"delta":      "records tell δ; to require another one, " + inConfig("release.delta"),
		"epsilon":    "records tell ε; to require another one, " + inConfig("release.epsilon"),
		"mechanism":  "records tell it; to require another one, " + inConfig("release.mechanism"),
		"out-format": outFormat,
		"resamples":  "the intervals are always made with 40 resamples",
		"seed":       "the seed is fixed, so that the same records give the same figures",
		"open":       "all windows of files are open at once, and two of a topic",
		"models":     inConfig("models"),
		"personal":   inConfig("personal"),
		"brokers":    inConfig("brokers"),
		"topic": inConfig("topics.sanitized") +
			`; or pipe "geodither consume --topic TOPIC" to --in -`,
		"encoding": inConfig("encoding.sanitized"),
	}),
	"audit": with(releaseKeys, map[string]string{
		"confidence": "a sound program always fails in one of a thousand audits",
		"exact":      "the exponents of all pairs of places are always compared",
		"format":     format,
		"strict":     strict,
	}),
	"consume": {
		"encoding":         inConfig("encoding.sanitized"),
		"read-uncommitted": "only committed records are read; the others were never released",
	},
	"demo": with(releaseKeys, map[string]string{
		"delta":    inConfig("release.delta"),
		"interval": inConfig("release.interval"),
		"seed":     "the seed is fixed, so that every demo gives the same records",
		"port":     "the embedded broker takes any free port, and the demo prints it",
		"speed": "the sample is fed 120 times faster than it happened, with --once as fast " +
			"as it goes",
	}),
	"evaluate": {
		"seed":  "the seed is fixed, so that the same traces give the same report",
		"runs":  "every experiment has its own number of runs, with --quick a smaller one",
		"users": "every experiment has its own number of users, with --quick a smaller one",
	},
	"model diff": {
		"tracks": "60 tracks are always simulated",
		"steps":  "a track always has 60 steps",
		"cells":  "the ten cells that differ most are always named",
		"seed":   "the seed is fixed, so that the same models give the same figures",
	},
	"model inspect": with(releaseKeys, map[string]string{
		"ahead":  "flows are always told for 1, 3 and 10 steps",
		"flows":  "--map FILE draws the flows if --from names a cell",
		"tracks": "100 tracks are always simulated",
		"steps":  "a track always has 120 steps, or ten release intervals if that is more",
		"seed":   "the seed is fixed, so that the same settings give the same figures",
	}),
	"produce": {
		"encoding": inConfig("encoding.raw"),
		"format":   format,
		"strict":   strict,
	},
	"replay": {
		"group":    `the group is always the service's, ".replay." and the output topic`,
		"temp-dir": temporary,
	},
	"sanitize": with(releaseKeys, map[string]string{
		"format":            format,
		"models":            inConfig("models"),
		"out-format":        outFormat,
		"personal":          inConfig("personal"),
		"outside":           inConfig("input.outside"),
		"publish-timestamp": inConfig("publish.timestamp"),
		"publish-user":      inConfig("publish.user"),
		"publish-metric":    inConfig("publish.metric"),
		"strict":            strict,
	}),
	"state rebuild-changelog": {
		"from-store": "the changelog is always written from state folders; leave the flag out",
	},
	"state verify": {"temp-dir": temporary},
	"tune": {
		"seed":        "the seed is fixed, so that the same traces give the same figures",
		"scout-steps": "the numbers of steps are fixed, --quick takes fewer",
		"steps":       "the numbers of steps are fixed, --quick takes fewer",
		"format":      format,
		"strict":      strict,
	},
	"model fit": {
		"deltas":      "drift is always measured at δ = .001, .003, .01, .03, .1 and .3 besides",
		"estimate":    "the error is that of the mean",
		"format":      format,
		"interpolate": "places are taken as the model's training took them",
		"max-gap":     "places are taken as the model's training took them",
		"seed": "the seed is fixed, so that the same traces give the same figures; --runs " +
			"averages over more noise",
		"strict": strict,
	},
	"train": {
		"backoff":         smoothing("backoff"),
		"brokers":         inConfig("brokers"),
		"dp-contribution": "with --dp-epsilon, " + smoothing("cap"),
		"dp-radius": "the radius of --smoothing bounds the moves that count, such as " +
			"--smoothing radius=3",
		"format":        format,
		"strict":        strict,
		"encoding":      inConfig("encoding.raw"),
		"fit-delta":     inModelFit("--delta"),
		"fit-deltas":    inModelFit("--held-out"),
		"fit-epsilon":   inModelFit("--epsilon"),
		"fit-estimate":  inModelFit("--held-out"),
		"fit-json":      inModelFit("--json"),
		"fit-plot":      inModelFit("--plot"),
		"fit-runs":      inModelFit("--runs"),
		"fit-seed":      inModelFit("--runs"),
		"fit-steps":     inModelFit("--steps"),
		"hours":         calendar,
		"held-out":      inModelFit("--held-out"),
		"jumps":         smoothing("jumps"),
		"keep-shared":   "fixes that two users report with the same time and place never count",
		"kernel-radius": smoothing("radius"),
		"max-ahead":     inConfig("max_ahead"),
		"max-gap":       withGap,
		"min-segment":   inModelFit("--min-segment"),
		"personal-weight": "the popular model always weighs 20 transitions in a row of a " +
			"user's own",
		"select": `train first, then run "geodither model fit MODEL --in TRACES --select": ` +
			"it prints the --smoothing to train with",
		"topic":      inConfig("topics.raw"),
		"utc-offset": calendar,
		"weekend":    calendar,
		"user-cap":   smoothing("cap"),
	},
}

// temporary says where the folder for temporary files comes from.
const temporary = "the environment variable TMPDIR names the folder for temporary files"

const (
	format    = "the content and the name of a file tell its format"
	outFormat = "the extension of --out is the format: .csv, .ndjson or .geojson"
	calendar  = "write --calendar, such as --calendar 6,10,16,20,weekend,utc+1h"
	strict    = "rows that cannot be used are counted and left out"
)

// withGap says where the greatest gap of interpolation went.
const withGap = "--interpolate takes the longest gap as its value, such as --interpolate 2m"

// smoothing says which part of --smoothing a flag became.
func smoothing(part string) string { return fmt.Sprintf("write --smoothing %s=NUMBER", part) }

// inModelFit says that a fit is measured by a command of its own.
func inModelFit(flag string) string {
	return fmt.Sprintf("\"train\" trains and measures nothing; afterwards, measure with "+
		"\"geodither model fit MODEL "+
		"--in TRACES --held-out 0.1\", which has %s", flag)
}

// releaseKeys are the settings of release that commands on files once had as flags.
var releaseKeys = map[string]string{
	"min-radius":      inConfig("release.min_radius"),
	"between":         inConfig("release.between"),
	"adaptive-radius": inConfig("release.adaptive_radius"),
	"same-step":       inConfig("release.same_step"),
	"inference":       inConfig("release.inference"),
	"budget":          inConfig("release.budget.epsilon"),
	"budget-window":   inConfig("release.budget.window"),
	"budget-lifetime": inConfig("release.budget.lifetime"),
	"budget-spent":    inConfig("release.budget.spent"),
	"estimate":        "the estimate is always the mean of the posterior",
	"isotropy":        "pim always takes the transform in closed form",
	"max-gap":         "the model's law of gaps decides; without one, 60 steps",
	"min-cells":       "location sets always have at least 3 cells",
	"prune":           "cells are always forgotten below a posterior mass of 1e-7",
	"subdivision":     "the lattice always has 256 steps to a cell's side",
}

// with returns both maps in one.
func with(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// inConfig says that a setting is a key of the service's config now.
func inConfig(key string) string {
	return fmt.Sprintf("set %s in a config, and name the config with -c FILE", key)
}

// RemovedFlags returns the names of the flags that a command once had, and has no more. The command
// is its path without the program's name, such as "model fit".
func RemovedFlags(command string) []string {
	return slices.Sorted(maps.Keys(removed[command]))
}

// explainFlag says how to write a duration or a number, and adds to the error of an unknown flag
// where that flag went. Behind a misspelt command every flag is unknown: then the command is the
// error.
func explainFlag(cmd *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		write := ""
		switch kind := wrong.GetFlag().Value.Type(); {
		case strings.HasPrefix(kind, "duration"):
			write = "a duration with its unit, such as 30s"
		case strings.HasPrefix(kind, "float"):
			write = "a number, such as 0.5"
		case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
			write = "a whole number, such as 10"
		default:
			return err
		}
		return fmt.Errorf("--%s %q: write %s", wrong.GetFlag().Name, wrong.GetValue(), write)
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return NoArgs(cmd, words)
	}
	_, command, _ := strings.Cut(cmd.CommandPath(), " ")
	name := unknown.GetSpecifiedName()
	if instead, ok := removed[command][name]; ok {
		return fmt.Errorf("--%s is gone: %s", name, instead)
	}
	return err
}
