// Package statement does the work of "geodither statement". It collects what a config, its model
// and this program guarantee, for the people who have to approve of it: in YAML, in the fields of
// OpenDP's deployments registry, or in Markdown, under the headings of a data protection impact
// assessment. Both are made of the same facts and of the same texts, so that they agree.
//
// A Sheet has the facts, words.go has the texts, and yaml.go and markdown.go say what stands where.
// What geodither cannot know is null with a comment in YAML, and an item of the last section in
// Markdown; it is never guessed. There is no template: text/template looks methods up by name, for
// which the linker keeps every method of every type of the program.
package statement

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/geodither/geodither/cmd/internal/audit"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/config"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/expect"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/moment"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas/mapping"
)

// Sheet has the facts that a statement states. The texts that state them take every number from
// here. It holds no key, no login and no address of a broker.
type Sheet struct {
	Now     time.Time
	Program cli.Build
	Config  string // the file's name, without its folder
	// Settings is the fingerprint of all settings, which /status shows of a running service and
	// which tells nothing of the key; empty where the key is not here.
	Settings string
	Group    string
	Topics   topics.Set // their names
	StateDir string
	MaxAhead time.Duration
	Warnings []string // of "config lint"; warned has all

	Release    mechanism.Options // with the defaults that the statement needs filled in
	Step       time.Duration
	DayEpsilon float64 // the most that a user's releases can cost in 24 hours

	Publish  engine.Publish
	Clamped  bool // fixes outside the map count as in the nearest cell
	Hides    bool // some reports leave no record on purpose
	Vouched  bool // topics.partitioner is any: nothing checks that a user is in one partition
	KeyCheck bool // a record's key must be its user id

	Models   []Model
	Key      Key
	Counts   *Counts         // nil: the config has no section counts
	Listen   string          // address of metrics and health; empty: none
	Measured []audit.Report  // what attacks on the mechanism and the service have found
	Expected *expect.Summary // nil: not simulated
	Homes    []expect.Home   // what nights at home tell; empty: not simulated
	Nights   []int           // the numbers of nights that Simulate measures
	// Moment bounds what all records tell about one moment, under the first version of the model;
	// nil: not computed. NoMoment is why nothing but Σε bounds it; empty: Moment does.
	Moment   *moment.Told
	NoMoment string

	// differences names the settings that differ from those of another fingerprint; nil where the
	// key is not here.
	differences func(fingerprint []byte) string

	audited map[string]string // what an audit of this config says that it has attacked
}

// Model is one version of the mobility model.
type Model struct {
	*mobility.Model
	ID    string
	Start time.Time // zero for the first version
}

// Key says what is known of the noise key without telling anything of it.
type Key struct {
	Known bool   // the key was there to be looked at
	ID    string // tells it from another key; empty: not known
	First string // the first day that it has noise of; empty: all days
}

// Counts is what the config says of the services that count the same fixes.
type Counts struct {
	counts.Settings
	Zones          int
	Window         time.Duration
	TimeZone       string
	LongestDay     time.Duration // by the clock of the time zone
	Topic, Partial string
}

// counted returns what the config says of counts.
func counted(file *config.File) (*Counts, error) {
	if !file.CountsUsers() {
		return nil, nil
	}
	s, err := file.Counted(config.InCounts)
	if err != nil {
		return nil, err
	}
	windows, totals, err := file.CountingClusters()
	return &Counts{
		Settings: s.Settings, Zones: s.Zones.Count(), Window: s.Plan.Length(),
		TimeZone: s.Plan.Zone(), LongestDay: s.Plan.LongestDay(),
		Topic: totals.Topics.Sanitized, Partial: windows.Topics.Sanitized,
	}, err
}

// New collects the facts of the service that a config describes. It refuses a config with which the
// service would not start. The key need not be there: the statement then names it. Errors are the
// user's and name the file.
func New(path string, now time.Time) (*Sheet, error) {
	file, warnings, err := config.Lint(path)
	if err != nil {
		return nil, err
	}
	s := &Sheet{
		Now: now.UTC().Truncate(time.Second), Program: cli.ThisBuild(),
		Config: filepath.Base(path), Group: file.Group, StateDir: filepath.Base(file.StateDir),
		Topics: file.Cluster().WithDefaults().Topics, Nights: expect.Nights, Warnings: warnings,
		KeyCheck: file.Input.KeyCheck != mapping.KeyCheckOff, Listen: file.HTTP.Listen,
	}
	settings := engine.Settings{
		Publish: file.Publish.Options(), Input: file.Input.Options(),
		SanitizedEncoding: file.Encoding.Sanitized,
		Partitioner:       engine.Partitioner(file.Topics.Partitioner),
		MaxAhead:          time.Duration(file.MaxAhead),
	}.WithDefaults()
	s.MaxAhead = settings.MaxAhead
	s.Publish, s.Clamped = settings.Publish, settings.Input.Outside == engine.OutsideClamp
	s.Vouched = settings.Partitioner == engine.AnyPartitioner
	if s.Counts, err = counted(&file); err != nil {
		return nil, config.Error(path, err)
	}
	if s.Models, err = models(&file); err != nil {
		return nil, config.Error(path, err)
	}
	if err := s.takeRelease(file.Release); err != nil {
		return nil, config.Error(path, fmt.Errorf("release: %w", err))
	}
	s.audited = audit.Settings{
		Release: s.Release, Publish: settings.Publish, Input: settings.Input,
		Encoding: settings.SanitizedEncoding,
	}.Facts()
	return s, config.Error(path, s.lookAtKey(path, file.KeyFile))
}

// models returns the versions of the model, all of which are read.
func models(file *config.File) ([]Model, error) {
	chosen, err := file.Chosen()
	if err != nil {
		return nil, err
	}
	list := []Model{{Model: chosen.Model, ID: chosen.ID()}}
	for _, version := range chosen.Later {
		model, err := version.Load()
		if err != nil {
			return nil, fmt.Errorf("models: %w", err)
		}
		list = append(list, Model{Model: model, ID: model.ID(), Start: version.ID.Start()})
	}
	return list, nil
}

// Simulate works out which error to expect, as "geodither doctor" does, and what nights at home
// and all records of a moment tell, under the first version of the model. It takes some 20 s of one
// processor, and on a map of a thousand cells or more minutes. tracks and progress are those of
// expect.Options. tracks is for the error alone, and both simulations report to progress.
func (s *Sheet) Simulate(
	ctx context.Context, tracks int, progress func(done, total int64) error,
) error {
	x, err := expect.Simulate(ctx, s.Models[0].Model, s.Release,
		expect.Options{Tracks: tracks, Seed: expect.Seed, Progress: progress})
	if err != nil {
		return err
	}
	summary := x.Summary()
	s.Expected = &summary
	s.Homes, err = expect.Homes(ctx, s.Models[0].Model, s.Release, s.Nights,
		expect.Options{Seed: 1, Progress: progress})
	if err == nil {
		err = s.boundMoment(ctx)
	}
	return err
}

// boundMoment bounds what all records tell about one moment.
func (s *Sheet) boundMoment(ctx context.Context) error {
	if len(s.Models) > 1 {
		s.NoMoment = "it is computed for one model, and this service has several versions"
		return nil
	}
	forgetting, err := moment.New(s.Models[0].Model, s.Release.ReleaseInterval, ctx.Err)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.NoMoment = err.Error()
		return nil //nolint:nilerr // the statement says why it has no bound
	}
	told := forgetting.Most(s.Release.Epsilon)
	s.Moment = &told
	switch limit := s.Release.Budget.Lifetime; {
	case limit > 0 && told.Between >= limit:
		s.NoMoment = "the lifetime budget is smaller already"
	case told.Between > mechanism.HighEpsilonDay:
		s.NoMoment = "in " + cli.Duration(s.interval()) + ", the time between two releases, the " +
			"model hardly forgets where somebody was"
	}
	return nil
}

// takeRelease fills in the section release, with its defaults as the service has them.
func (s *Sheet) takeRelease(r config.Release) error {
	first := s.Models[0].Model
	options, err := r.Options(first.Step)
	if err != nil {
		return err
	}
	sanitizer, err := mechanism.NewSanitizer(first, noise.NewKeyed(noise.NewKey()), options)
	if err != nil {
		return err
	}
	s.Release, s.Step = sanitizer.Options(), first.Step
	s.Hides, s.DayEpsilon = s.Release.Hides(), engine.MostEpsilonDay(s.Release, s.Step)
	return nil
}

// withRecords bounds what records and counts of the same fixes cost together for the values of a
// day of the counts. That day may be longer than 24 hours.
func (s *Sheet) withRecords() float64 {
	return 2*s.Counts.Epsilon + engine.MostEpsilon(s.Release, s.Step, s.Counts.LongestDay)
}

// lookAtKey takes what may be told of the key, if it is here.
func (s *Sheet) lookAtKey(path, keyFile string) error {
	key, err := files.LoadKey(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("key_file: %w", err)
	}
	s.Key.Known = true
	if !key.Whole() {
		s.Key.First = key.FirstDay().String()
	}
	const idBytes = 8
	s.Key.ID = hex.EncodeToString(engine.Settings{Key: key}.KeyFingerprint()[:idBytes])
	options, _, err := config.Service(path)
	if err != nil {
		return nil //nolint:nilerr // what is missing here, such as a login, is among the warnings
	}
	s.Settings = hex.EncodeToString(options.WithDefaults().Fingerprint())
	s.differences = options.Differences
	return nil
}

// codebook reports whether the mechanism is the codebook.
func (s *Sheet) codebook() bool { return s.Release.Mechanism == law.Codebook }

// window is the window of the budget; 0: there is no limit over a window.
func (s *Sheet) window() time.Duration {
	return time.Duration(s.Release.Budget.WindowSteps) * s.Step
}

// releases says how many releases a budget leaves.
func (s *Sheet) releases(limit float64) string {
	return cli.Quantity(int64(math.Floor(limit/s.Release.Epsilon+1e-9)), "release")
}

// unlimited reports whether no budget limits Σε.
func (s *Sheet) unlimited() bool { return s.window() == 0 && s.Release.Budget.Lifetime == 0 }

// high reports whether Σε of 24 hours is so high that it promises little about a day.
func (s *Sheet) high() bool { return s.DayEpsilon > mechanism.HighEpsilonDay }

// interval is the least time between two releases of a user.
func (s *Sheet) interval() time.Duration {
	return time.Duration(s.Release.ReleaseInterval) * s.Step
}

// pseudonym reports whether records carry a pseudonym in the place of the user id.
func (s *Sheet) pseudonym() bool { return s.Publish.User == engine.UserPseudonym }

// stepTimes reports whether records tell the step in the place of the exact time.
func (s *Sheet) stepTimes() bool { return s.Publish.Timestamp == engine.TimestampStep }

// AddAudit takes a report of an audit. It refuses one of other settings, or of another model, which
// would say nothing of this service.
func (s *Sheet) AddAudit(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: name a report of \"geodither audit -c FILE --json\"", err)
	}
	var m audit.Report
	if err := json.Unmarshal(data, &m); err != nil || m.ModelID == "" {
		return cli.Usagef("%s is no report of \"geodither audit -c FILE --json\": make one", path)
	}
	if err := s.fits(m); err != nil {
		return cli.Usagef("%s: %w: audit what the config describes, with \"geodither audit "+
			"-c FILE --json\"", path, err)
	}
	s.Measured = append(s.Measured, m)
	return nil
}

// fits compares what was audited with what the config says.
func (s *Sheet) fits(m audit.Report) error {
	switch {
	case !slices.ContainsFunc(s.Models, func(v Model) bool { return v.ID == m.ModelID }):
		return fmt.Errorf("the audit is of model %s, which the config does not name", m.ModelID)
	case len(m.Settings) == 0:
		return errors.New("the report does not say which settings were attacked: make it " +
			"again with \"geodither audit -c FILE --json\"")
	}
	return s.sameSettings(m.Settings)
}

// sameSettings names the settings that differ. The service beside the mechanism is attacked too, so
// all of them count.
func (s *Sheet) sameSettings(audited map[string]string) error {
	var others []string
	for _, key := range slices.Sorted(maps.Keys(s.audited)) {
		if own, other := s.audited[key], audited[key]; own != other {
			others = append(others, fmt.Sprintf("%s %q, and the config's is %q", key, other, own))
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the audit is of %s", strings.Join(others, "; of "))
	}
	return nil
}
