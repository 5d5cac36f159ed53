// Package statement does the work of "geodither statement". It collects what a config, its model
// and this program guarantee, for the people who have to approve of it. The facts are JSON, and one
// page of Markdown says the same in words: every number and name of the page is one of the facts.
package statement

import (
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
	"github.com/geodither/geodither/cmd/internal/countfiles"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/follow"
	"github.com/geodither/geodither/mechanism/law"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/mechanism/trial"
	"github.com/geodither/geodither/schemas/mapping"
)

// Facts are what a statement states. They have no key, no login and no address of a broker. The
// same config, files and program give the same facts, whenever and wherever they are collected.
// A null is a limit or a thing that is not there.
type Facts struct {
	Config   string    `json:"config"` // the file's name, without its folder
	Program  cli.Build `json:"program"`
	Settings *string   `json:"settings"` // the fingerprint; null: the key or a login is not here
	Group    string    `json:"group"`
	Topics   Topics    `json:"topics"`

	Mechanism        string   `json:"mechanism"`
	Epsilon          float64  `json:"epsilon"`            // of one release
	Delta            float64  `json:"delta"`              // of the guarantee: none
	LocationSetDelta *float64 `json:"location_set_delta"` // null: the mechanism has no location set
	StepS            float64  `json:"step_s"`
	IntervalS        float64  `json:"interval_s"` // between two releases of a user, at least
	Between          string   `json:"between"`
	Hours            []string `json:"hours"` // null: all
	NightsOpen       bool     `json:"nights_open"`
	Budget           Budget   `json:"budget"`
	MostIn24H        float64  `json:"most_in_24_h"` // of the Σε of a user
	MostInAYear      float64  `json:"most_in_a_year"`
	OneMoment        Moment   `json:"one_moment"`
	Counts           *Counts  `json:"counts"`

	// Ledger is of the counts and typical days that were published from files; null: none.
	Ledger *countfiles.Sums `json:"ledger_of_counts"`

	Records       Records  `json:"records"`
	OutsideTheMap string   `json:"outside_the_map"`
	LeavesOut     bool     `json:"leaves_reports_out"` // on purpose, by a public rule
	MaxAheadS     *float64 `json:"max_ahead_s"`        // null: a fix of any time is taken
	Partitioner   string   `json:"partitioner"`
	KeyCheck      bool     `json:"key_check"`
	Listen        string   `json:"http_listen"`

	Models   []Model  `json:"models"`
	Key      *Key     `json:"key"` // null: it is not here
	Audits   []Audit  `json:"audits"`
	Warnings []string `json:"warnings"`

	audited map[string]string // what an audit of this config says that it has attacked
}

// Topics are the names of the service's topics.
type Topics struct {
	Raw         string `json:"raw"`
	Sanitized   string `json:"sanitized"`
	DeadLetters string `json:"dead_letters"`
	Changelog   string `json:"changelog"`
}

// Budget limits the Σε of a user.
type Budget struct {
	Epsilon  *float64 `json:"epsilon"` // in any window; null: no limit
	WindowS  *float64 `json:"window_s"`
	Lifetime *float64 `json:"lifetime"` // null: no limit
	Spent    *string  `json:"spent"`    // what is published then; null: there is no budget
}

// Moment bounds the ln of how much all records change the odds between two cells at one moment, for
// an observer who knows the public model alone.
type Moment struct {
	AtARelease *float64 `json:"at_a_release"` // null: nothing but Σε bounds it
	AnyTime    *float64 `json:"any_time"`
	None       string   `json:"none_because"`
	Gaps       bool     `json:"if_reported_in_each_step"` // it holds without silence alone
}

// Counts are what the services that count publish of the same fixes.
type Counts struct {
	Epsilon     float64 `json:"epsilon"` // of all that a user does in a day
	PerDay      int     `json:"windows_per_day"`
	WindowS     float64 `json:"window_s"`
	Zones       int     `json:"zones"`
	Edition     int     `json:"edition"`
	TimeZone    string  `json:"time_zone"`
	Topic       string  `json:"topic"`
	TrueCounts  string  `json:"topic_of_true_counts"`
	LongestDayS float64 `json:"longest_day_s"`
	WithRecords float64 `json:"with_records_in_a_day"`
}

// Records are what a sanitized record has.
type Records struct {
	User      string `json:"user"`
	Timestamp string `json:"timestamp"`
	Release   bool   `json:"release"`
	Estimate  string `json:"estimate"`
}

// Model is one version of the mobility model, whose map has so many cells of so many metres.
type Model struct {
	ID       string  `json:"id"`
	Start    *string `json:"start"` // null: the first version
	Source   string  `json:"source"`
	Users    int64   `json:"users"`
	Epsilon  *string `json:"training_epsilon"` // null: trained without differential privacy
	Cells    int     `json:"cells"`
	CellM    float64 `json:"cell_m"`
	LatLonSW string  `json:"south_west"`
	LatLonNE string  `json:"north_east"`
}

// Key tells a noise key from another without telling anything of it.
type Key struct {
	ID    string  `json:"id"`
	First *string `json:"first_day"` // that it has noise of; null: all days
}

// Audit is what one attack has found.
type Audit struct {
	Time       *time.Time `json:"time"`
	Program    string     `json:"program"`
	Model      string     `json:"model"`
	Passed     bool       `json:"passed"`
	Findings   []string   `json:"findings"`
	AtLeast    float64    `json:"epsilon_at_least"`
	Confidence float64    `json:"confidence"`
	Records    int64      `json:"records"`
	Command    string     `json:"command"`
}

// New collects the facts of the service that a config describes, and cites reports of audits. It
// refuses a config with which the service would not start. The key need not be there. Errors are
// the user's and name the file. A bound for one moment may take ten seconds, which stop ends with
// its error.
func New(path string, audits []string, stop func() error) (*Facts, error) {
	file, warnings, err := config.Lint(path)
	if err != nil {
		return nil, err
	}
	f := &Facts{
		Program: cli.ThisBuild(), Config: filepath.Base(path), Group: file.Group,
		KeyCheck: file.Input.KeyCheck != mapping.KeyCheckOff, Listen: file.HTTP.Listen,
		Warnings: warnings, Audits: []Audit{},
	}
	t := file.Cluster().WithDefaults().Topics
	f.Topics = Topics{t.Raw, t.Sanitized, t.DeadLetters, t.Changelog}
	settings := engine.Settings{
		Publish: file.Publish.Options(), Input: file.Input.Options(),
		SanitizedEncoding: file.Encoding.Sanitized,
		Partitioner:       engine.Partitioner(file.Topics.Partitioner),
		MaxAhead:          time.Duration(file.MaxAhead),
	}.WithDefaults()
	if settings.MaxAhead != engine.AnyAhead {
		f.MaxAheadS = new(settings.MaxAhead.Seconds())
	}
	f.Partitioner = string(settings.Partitioner)
	f.OutsideTheMap = settings.Input.Outside
	model, err := f.takeModels(&file)
	if err != nil {
		return nil, config.Error(path, err)
	}
	release, err := released(model, file.Release)
	if err != nil {
		return nil, config.Error(path, fmt.Errorf("release: %w", err))
	}
	f.takeRelease(release, model.Step)
	f.Records = Records{
		settings.Publish.User, settings.Publish.Timestamp, !settings.Publish.OmitRelease,
		release.Estimate,
	}
	if f.Counts, err = counted(&file, release, model.Step); err != nil {
		return nil, config.Error(path, err)
	}
	if f.Ledger, err = countfiles.Spent(file.KeyFile); err != nil {
		return nil, config.Error(path, err)
	}
	f.audited = audit.Settings{
		Release: release, Publish: settings.Publish, Input: settings.Input,
		Encoding: settings.SanitizedEncoding,
	}.Facts()
	for _, report := range audits {
		if err := f.addAudit(report); err != nil {
			return nil, err
		}
	}
	if f.OneMoment, err = f.boundMoment(model, release, stop); err != nil {
		return nil, err
	}
	return f, config.Error(path, f.lookAtKey(path, file.KeyFile))
}

// takeModels reads all versions of the model, and returns the first.
func (f *Facts) takeModels(file *config.File) (*mobility.Model, error) {
	chosen, err := file.Chosen()
	if err != nil {
		return nil, err
	}
	f.addModel(chosen.Model, chosen.ID(), nil)
	for _, version := range chosen.Later {
		later, err := version.Load()
		if err != nil {
			return nil, fmt.Errorf("models: %w", err)
		}
		f.addModel(later, later.ID(), new(stamp(version.ID.Start())))
	}
	return chosen.Model, nil
}

func (f *Facts) addModel(m *mobility.Model, id string, start *string) {
	box := m.Grid.Box()
	v := Model{
		ID: id, Start: start, Source: m.Provenance.Source, Users: m.Provenance.Report.Users,
		Cells: m.Grid.Cells(), CellM: m.Grid.CellM(),
		LatLonSW: fmt.Sprintf("%.4f, %.4f", box.South, box.West),
		LatLonNE: fmt.Sprintf("%.4f, %.4f", box.North, box.East),
	}
	if private := m.Provenance.Privacy; private != nil {
		v.Epsilon = &private.Epsilon
	}
	f.Models = append(f.Models, v)
	if text := trial.FewUsers(m); text != "" {
		f.Warnings = append(f.Warnings, "model "+id+": "+text)
	}
}

// released returns the section release with its defaults as the service has them.
func released(model *mobility.Model, r config.Release) (mechanism.Options, error) {
	options, err := r.Options(model.Step)
	if err != nil {
		return mechanism.Options{}, err
	}
	sanitizer, err := mechanism.NewSanitizer(model, noise.NewKeyed(noise.NewKey()), options)
	if err != nil {
		return mechanism.Options{}, err
	}
	return sanitizer.Options(), nil
}

func (f *Facts) takeRelease(r mechanism.Options, step time.Duration) {
	f.Mechanism, f.Epsilon, f.Between = r.Mechanism, r.Epsilon, r.Between
	if r.Mechanism == law.Lattice {
		f.LocationSetDelta = &r.Delta
	}
	f.StepS = step.Seconds()
	f.IntervalS = float64(r.ReleaseInterval) * f.StepS
	for _, span := range r.Hours {
		f.Hours = append(f.Hours, span.String())
	}
	f.NightsOpen, f.LeavesOut = engine.NightsOpen(r.Hours), r.Hides()
	b := r.Budget
	if b.WindowSteps != 0 {
		f.Budget.Epsilon, f.Budget.WindowS = &b.Epsilon, new(float64(b.WindowSteps)*f.StepS)
	}
	if b.Lifetime != 0 {
		f.Budget.Lifetime = &b.Lifetime
	}
	if b.Limited() {
		f.Budget.Spent = &b.Spent
	}
	f.MostIn24H = engine.Rounded(engine.MostEpsilonDay(r, step))
	f.MostInAYear = engine.Rounded(engine.MostEpsilon(r, step, 365*24*time.Hour))
}

// counted returns what the config says of counts; nil: nothing.
func counted(file *config.File, r mechanism.Options, step time.Duration) (*Counts, error) {
	if !file.CountsUsers() {
		return nil, nil
	}
	c, err := file.Counted(config.InCounts)
	if err != nil {
		return nil, err
	}
	windows, totals, err := file.CountingClusters()
	// A day may be longer than 24 hours, and its counts may change by 2ε.
	longest := c.Plan.LongestDay()
	return &Counts{
		Epsilon: c.Epsilon, PerDay: c.PerDay, WindowS: c.Plan.Length().Seconds(),
		Zones: c.Zones.Count(), Edition: int(c.Edition), TimeZone: c.Plan.Zone(),
		Topic: totals.Topics.Sanitized, TrueCounts: windows.Topics.Sanitized,
		LongestDayS: longest.Seconds(),
		WithRecords: engine.Rounded(2*c.Epsilon + engine.MostEpsilon(r, step, longest)),
	}, err
}

// mostMomentWork limits the work on a bound for one moment: the cube of the number of cells, for
// each class of the calendar. So much takes about ten seconds on two processors: 864 cells took 36
// to 52 s of one. A limit of time would let the facts depend on the machine.
const mostMomentWork = 250e6

// boundMoment bounds what all records tell about one moment.
func (f *Facts) boundMoment(
	model *mobility.Model, release mechanism.Options, stop func() error,
) (Moment, error) {
	cells := float64(model.Grid.Cells())
	switch {
	case len(f.Models) > 1:
		return Moment{None: "it is computed for one model, and here are several versions"}, nil
	case float64(len(model.Matrices))*cells*cells*cells > mostMomentWork:
		return Moment{None: "the map has too many cells to compute one in seconds"}, nil
	}
	forgetting, err := follow.NewForgetting(model, release.ReleaseInterval, stop)
	if err != nil {
		return Moment{}, err
	}
	told, limit := forgetting.Most(release.Epsilon), release.Budget.Lifetime
	switch {
	case limit > 0 && told.Between >= limit:
		return Moment{None: "the lifetime budget is smaller already"}, nil
	case told.Between > mechanism.HighEpsilonDay:
		return Moment{None: "between two releases the model hardly forgets where somebody was"}, nil
	}
	return Moment{
		AtARelease: new(ceil(told.At)), AnyTime: new(ceil(told.Between)), Gaps: len(model.Gaps) > 0,
	}, nil
}

// lookAtKey takes what may be told of the key, if it is here.
func (f *Facts) lookAtKey(path, keyFile string) error {
	key, err := files.LoadKey(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("key_file: %w", err)
	}
	const idBytes = 8
	id := engine.Settings{Key: key}.KeyFingerprint()[:idBytes]
	f.Key = &Key{ID: hex.EncodeToString(id)}
	if !key.Whole() {
		f.Key.First = new(key.FirstDay().String())
	}
	options, _, err := config.Service(path)
	if err != nil {
		return nil //nolint:nilerr // what is missing here, such as a login, is among the warnings
	}
	f.Settings = new(hex.EncodeToString(options.WithDefaults().Fingerprint()))
	return nil
}

// addAudit takes a report of an audit. It refuses one of other settings, or of another model, which
// would say nothing of this service.
func (f *Facts) addAudit(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: name a report of \"geodither audit -c FILE --json\"", err)
	}
	var r audit.Report
	if err := json.Unmarshal(data, &r); err != nil || r.ModelID == "" {
		return cli.Usagef("%s is no report of \"geodither audit -c FILE --json\": make one", path)
	}
	if err := f.fits(r); err != nil {
		return cli.Usagef("%s: %w: audit what the config describes, with \"geodither audit "+
			"-c FILE --json\"", path, err)
	}
	f.Audits = append(f.Audits, Audit{
		Time: r.Time, Program: r.Program, Model: r.ModelID,
		Passed: r.Passed, Findings: r.Findings, AtLeast: floor(r.Bound.Epsilon),
		Confidence: r.Confidence, Records: r.Records, Command: r.Again,
	})
	return nil
}

// fits compares what was audited with what the config says, and names the settings that differ. The
// service beside the mechanism is attacked too, so all of them count.
func (f *Facts) fits(r audit.Report) error {
	switch {
	case !slices.ContainsFunc(f.Models, func(m Model) bool { return m.ID == r.ModelID }):
		return fmt.Errorf("the audit is of model %s, which the config does not name", r.ModelID)
	case len(r.Settings) == 0:
		return errors.New("the report does not say which settings were attacked")
	}
	var others []string
	for _, key := range slices.Sorted(maps.Keys(f.audited)) {
		if own, other := f.audited[key], r.Settings[key]; own != other {
			others = append(others, fmt.Sprintf("%s %q, and the config's is %q", key, other, own))
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the audit is of %s", strings.Join(others, "; of "))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// floor rounds a bound that was measured down to four decimals, and ceil one that was computed up
// to two.
func floor(x float64) float64 { return math.Floor(x*1e4) / 1e4 }
func ceil(x float64) float64  { return math.Ceil(x*100) / 100 }
