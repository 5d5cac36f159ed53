package checks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// reading fails where the config is read, before there is a service.
const reading = "the reading of the config"

// textChecks are those of the settings and the files that they name.
func textChecks() []Check {
	return []Check{
		{"settings", reading, sanitizes, needsFolder, (*examination).settings},
		{"key_file", AtStart, sanitizes, needsText, (*examination).keyFile},
		{"nights", "", sanitizes, needsFolder, (*examination).nights},
		{"release.hours", "", sanitizes, needsText, (*examination).hours},
		{"release.budget", "", sanitizes, needsText, (*examination).budget},
		{"topics.partitioner", AtStart, sanitizes, needsText, (*examination).anyPartitioner},
		{"input.key_check", AtStart, sanitizes, needsText, (*examination).keyCheck},
		{"max_ahead", "", sanitizes, needsText, (*examination).maxAhead},
		{"transaction.timeout", AtStart, sanitizes, needsText, (*examination).timeout},
		{"kafka.sasl.allow_plaintext", "", sanitizes, needsText, (*examination).plainLogin},
		{"models", reading, sanitizes, needsFolder, (*examination).models},
	}
}

func (d *examination) settings(context.Context) {
	if err := d.o.Invalid; err != nil {
		d.add(Failure, "%w", err)
		return
	}
	d.add(OK, "fingerprint %.4x", d.o.Fingerprint())
}

// nights warns where many nights tell where somebody lives.
func (d *examination) nights(context.Context) {
	r := d.o.Release
	if r.Budget.Lifetime == 0 && engine.NightsOpen(r.Hours) {
		d.add(Warning, "releases are drawn at night, and release.budget has no lifetime. Many "+
			"nights together show where somebody lives: leave 21:00 to 06:00 out of "+
			"release.hours, or set a lifetime")
	}
}

func (d *examination) budget(context.Context) {
	if d.o.Release.Validate() != nil || d.o.Config == nil {
		return
	}
	text, warn := engine.BudgetAdvice(d.o.Release, d.step())
	level := OK
	if warn {
		level = Warning
	}
	d.add(level, "%s", text)
}

// step is the model's, or a second where the model is not here.
func (d *examination) step() time.Duration {
	if d.o.Model == nil {
		return time.Second
	}
	return d.o.Model.Step
}

func (d *examination) anyPartitioner(context.Context) {
	if d.o.Config != nil && d.o.Partitioner == engine.AnyPartitioner {
		level, also := d.twoAccounts()
		d.add(level, "with any nothing notices a user in two partitions, who would have two "+
			"accounts%s", also)
	}
}

func (d *examination) keyCheck(context.Context) {
	if d.o.Config != nil && d.o.Config.KeyCheckOff {
		level, also := d.twoAccounts()
		d.add(level, "off is safe only if all records of each user are in one partition, since a "+
			"user in two has two accounts; geodither doctor looks at a sample%s", also)
	}
}

// twoAccounts says what it means if a user may be in two partitions. topics.partitions says how
// many there are, or nothing does before there are brokers.
func (d *examination) twoAccounts() (level, also string) {
	switch n := d.o.Topics.Partitions; {
	case n == 1 || !d.o.Release.Budget.Limited() && !d.o.Config.Counts:
		return Warning, ""
	case n > 1:
		return Failure, fmt.Sprintf(". With release.budget or counts that is refused of a raw "+
			"topic of %d partitions", n)
	}
	return Warning, ". With release.budget or counts it is refused unless the raw topic has one " +
		"partition"
}

func (d *examination) maxAhead(context.Context) {
	if d.o.MaxAhead == engine.AnyAhead {
		d.add(Warning, "off accepts a fix of any time, after which all earlier ones of its user "+
			"are late")
	}
}

func (d *examination) timeout(context.Context) {
	if timeout, interval := d.o.TransactionTimeout, d.o.MaxInterval; timeout <= interval {
		d.add(Failure, "it is %v, and transaction.max_interval %v: brokers would abort "+
			"transactions before they are committed. Set a longer timeout or a shorter interval",
			timeout, interval)
	}
}

func (d *examination) plainLogin(context.Context) {
	if d.o.Config != nil && d.o.Config.PlainLogin {
		d.add(Warning, "the login can be read on the network")
	}
}

// keyFile looks where the key is from, who can read it, and which days it has.
func (d *examination) keyFile(context.Context) {
	key, c := d.o.Key, d.o.Config
	if !key.HasNoise() || c == nil {
		return
	}
	if err := errors.Join(files.RefuseSeeded(key), files.RefuseFuture(key)); err != nil {
		d.add(Failure, "%w", err)
		return
	}
	switch {
	case files.IsExposed(c.KeyFile):
		d.add(Warning, "everybody on this machine can read %s: chmod 600", c.KeyFile)
	case os.Getenv(files.KeyVariable) != "":
		d.add(OK, "from %s in the environment", files.KeyVariable)
	default:
		d.add(OK, "%s can be read, and not by everybody", c.KeyFile)
	}
	switch first := key.FirstDay(); {
	case key.Whole():
		d.add(OK, "it has all days: everybody with this key can take the noise off everything "+
			"that was ever published under it. \"geodither key export --until DAY\" makes one "+
			"without the past")
	case first == noise.DayAt(time.Now().UnixMilli()):
		d.add(Warning, "it has days from %v on, which is today: fixes of yesterday that come "+
			"late are refused (key_destroyed)", first)
	default:
		d.add(OK, "it has days from %v on: fixes of earlier days are refused (key_destroyed), "+
			"and releases of them cannot be replayed or verified", first)
	}
}

// hours warns of entries that no step starts in. Many years have all cases of clocks that change.
func (d *examination) hours(context.Context) {
	if d.o.Model == nil {
		return
	}
	step := d.o.Model.Step
	first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(38, 0, 0)
	for i, span := range d.o.Release.Hours {
		plan, err := hours.New([]hours.Span{span})
		if err == nil && !slices.ContainsFunc(plan.Between(first.UnixMilli(), last.UnixMilli()),
			func(open hours.Interval) bool {
				return open.To-1-(open.To-1)%step.Milliseconds() >= open.From
			}) {
			d.add(Warning, "entry %d holds no step's start, so it never has a release: the model "+
				"has a step each %v: widen the entry", i+1, step)
		}
	}
	if text := engine.HoursAdvice(d.o.Release, step); text != "" {
		d.add(Warning, "%s", text)
	}
}

// models looks at the versions of the model.
func (d *examination) models(context.Context) {
	d.largeMap(d.o.Model)
	for _, v := range d.o.Later {
		model, err := d.o.Try(v)
		if err != nil {
			d.add(Failure, "%w", err)
			continue
		}
		g := model.Grid
		detail, level := fmt.Sprintf("%v: %d × %d cells of %.0f m", v.ID, g.Width(),
			g.Height(), 1000*g.CellKM()), OK
		if v.GridID() != d.o.Model.Grid.ID() {
			level, detail = Warning, detail+
				", another map than the first version's: every user who comes to it starts over"
		}
		d.add(level, "%s", detail)
		d.largeMap(model)
	}
}

// largeMap warns where the most probable cell is published and chance may have chosen it.
func (d *examination) largeMap(m *mobility.Model) {
	// A small mass may become twice the least.
	n, most := m.Grid.Cells(), int(1/mechanism.LeastMass)/2
	if n > most && d.o.Release.Mechanism == law.Codebook &&
		d.o.Release.Estimate == mechanism.EstimateMode {
		d.add(Warning, "the map has %d cells, more than %d, so chance may choose the most "+
			"probable one where little is known: set publish.estimate to mean", n, most)
	}
}
