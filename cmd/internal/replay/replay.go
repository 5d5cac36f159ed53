// Package replay runs a range of a raw topic through the mechanism once more, into topics of its
// own: first a plan (NewPlan), then the run (Run), which is a service with windows. It knows when
// the result is the first release again, byte for byte, and what it costs if it is a second one.
package replay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/cmd/internal/verify"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
)

// Options say what to release once more, and where to.
type Options struct {
	From, To topics.Bound // From's record is in, To's is not
	Output   string       // topic of the replayed records
	Group    string       // default: that of the service, ".replay.", the output topic
	// one folder per running instance; default: the service's, ".replay-", the output topic
	StateDir string

	// SpendAgain accepts a second release of the same fixes.
	SpendAgain bool
	// Progress, if set, is told now and then how many raw offsets of how many
	// the group has come past. One call at a time.
	Progress func(done, total int64)

	// TempDir is where states go if they have to be compared, where the key or the topics lack
	// days: as large as the service's own store, and as private. Default the system's.
	TempDir string
	// Planning, if set, is told how many raw offsets of how many have been gone through for that.
	Planning func(done, total int64)
}

// Plan is what a replay does.
type Plan struct {
	Output      string `json:"output_topic"`
	DeadLetters string `json:"dead_letters_topic"`
	Changelog   string `json:"changelog_topic"`
	Group       string `json:"group"`
	StateDir    string `json:"state_dir"`

	Partitions []PartitionPlan `json:"partitions"`

	// Identical: the records will be those of the first release and cost nothing. They are the
	// same bytes, unless that one had another publish.release.
	Identical bool   `json:"identical"`
	Cost      *Bound `json:"cost"` // of what is not the first release again; null: nothing

	Begun bool `json:"begun"` // an earlier run has begun with it
	Done  bool `json:"done"`  // and there is nothing left to do
}

// PartitionPlan is one partition of a plan.
type PartitionPlan struct {
	Partition int32    `json:"partition"`
	Origin    int64    `json:"origin"`            // raw offset at which processing begins
	From      int64    `json:"from"`              // at which publishing begins
	To        int64    `json:"to"`                // before which it ends
	Committed int64    `json:"committed"`         // up to which it is done; -1: not begun
	Differs   []string `json:"differs,omitempty"` // why it is not the first release again

	begun  bool // by an earlier run
	second bool // it is not the first release again, which its records show

	refused *engine.Offsets // what the first release refused for its day
}

// Bound is what the second releases of a replay can cost each user, beside the first ones. It
// follows from the config alone, since a replay has an account of its own, and holds for everything
// from where processing begins. The states that records before the range lead to are second
// releases too.
type Bound struct {
	Lifetime *float64 `json:"lifetime"` // Σε of all of them; null: no limit
	In24H    *float64 `json:"in_24_h"`  // Σε in any 24 hours of fix times; null: no limit
}

// bound fills in the bound of a replay's config, unless it costs nothing.
func (p *Plan) bound(o service.Options) {
	if p.Identical {
		return
	}
	b, budget := &Bound{}, o.Release.Budget
	if budget.Lifetime > 0 {
		b.Lifetime = &budget.Lifetime
	}
	if budget.Limited() {
		b.In24H = new(engine.Rounded(engine.MostEpsilonDay(o.Release, o.Model.Step)))
	}
	p.Cost = b
}

// String is the bound in words.
func (b *Bound) String() string {
	switch {
	case b.Lifetime != nil:
		return fmt.Sprintf("at most Σε = %g for each user", *b.Lifetime)
	case b.In24H != nil:
		return fmt.Sprintf("at most Σε = %g for each user in any 24 hours of fix times", *b.In24H)
	}
	return "without a bound: release.budget is none"
}

// ErrSpend says that a replay would be a second release.
var ErrSpend = errors.New("the replay would be a second release of the same fixes")

// options are those of the service that replays.
func (r Options) options(o service.Options) (service.Options, Options) {
	r.Group = cmp.Or(r.Group, o.Group+".replay."+r.Output)
	r.StateDir = cmp.Or(r.StateDir, o.StateDir+".replay-"+r.Output)
	o.Group, o.StateDir = r.Group, r.StateDir
	o.Topics = topics.Set{
		Raw: o.Topics.Raw, Sanitized: r.Output, Changelog: r.Group + "-changelog",
		DeadLetters: r.Group + "-dead-letters", Create: true, Replication: o.Topics.Replication,
	}
	// A loss in the middle would be another result, silently; and a static member
	// of the service's name belongs to the service.
	o.SkipLost, o.AcceptSettings, o.InstanceID = false, false, ""
	return o, r
}

// check refuses what would damage the service that made the first release.
func (r Options) check(o service.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	first := o.WithDefaults()
	if r.Output == "" {
		return errors.New("--output-topic: name a new topic for the replayed records")
	}
	replayed, r := r.options(first)
	if err := replayed.Validate(); err != nil {
		return err
	}
	used := map[string]bool{
		first.Topics.Raw: true, first.Topics.Sanitized: true, first.Topics.Changelog: true,
		first.Topics.DeadLetters: true,
	}
	t := replayed.Topics
	for _, topic := range []string{t.Sanitized, t.Changelog, t.DeadLetters} {
		if used[topic] {
			return fmt.Errorf("the service itself uses topic %s: name another --output-topic",
				topic)
		}
		used[topic] = true
	}
	switch {
	case r.Group == first.Group:
		return fmt.Errorf("group %s is the service's own, and its offsets: name another", r.Group)
	case r.StateDir == first.StateDir:
		return fmt.Errorf("state folder %s is the service's own: name another", r.StateDir)
	}
	return nil
}

// planner works out a plan.
type planner struct {
	first    service.Options // of the service
	replay   service.Options
	r        Options
	client   *kafka.Client
	settings []byte
	source   []byte

	partitions int // of the raw topic
}

// NewPlan works out what a replay would do, and what it can cost. It
// writes nothing to Kafka and creates no topic. Its error is the one that Run would end with, up to
// its Refusal.
func NewPlan(ctx context.Context, o service.Options, r Options) (Plan, error) {
	plan, err := planTwice(ctx, o, r)
	if err != nil || plan.Done {
		return plan, err
	}
	replayed, _ := r.options(o.WithDefaults())
	// Run needs the group's coordinator, which may be another broker than those asked so far.
	call := wire.Options{RetryTimeout: topics.CallPatience}
	if _, _, err := consumer.Committed(ctx, o.Client(), call, replayed.Group, replayed.Topics.Raw,
		0); err != nil {
		return plan, err
	}
	_, err = service.New(replayed)
	return plan, err
}

// planTwice plans, and looks a second time where that helps.
func planTwice(ctx context.Context, o service.Options, r Options) (Plan, error) {
	plan, err := planOnce(ctx, o, r)
	if errors.Is(err, errUsed) {
		// Another instance may have begun since the marks were read. Its mark is
		// committed before its first record is written, so a second look finds it.
		return planOnce(ctx, o, r)
	}
	return plan, err
}

func planOnce(ctx context.Context, o service.Options, r Options) (Plan, error) {
	if err := r.check(o); err != nil {
		return Plan{}, err
	}
	p := &planner{first: o.WithDefaults(), client: o.Client()}
	p.replay, p.r = r.options(p.first)
	p.settings = p.first.Fingerprint()
	plan := Plan{
		Output: r.Output, DeadLetters: p.replay.Topics.DeadLetters,
		Changelog: p.replay.Topics.Changelog, Group: p.r.Group, StateDir: p.r.StateDir,
		Identical: true, Done: true,
	}
	counts, err := admin.Partitions(ctx, p.client, wire.Options{}, p.first.Topics.Raw)
	if err != nil {
		return plan, err
	}
	empty := true
	if p.source, err = topics.ID(ctx, p.client, p.first.Topics.Raw); err != nil {
		return plan, err
	}
	p.partitions = counts[p.first.Topics.Raw]
	if err := p.replay.OneAccount(p.partitions); err != nil {
		return plan, err
	}
	for n := range int32(p.partitions) {
		part, begun, err := p.partition(ctx, n)
		if err != nil {
			return plan, fmt.Errorf("partition %d: %w", n, err)
		}
		plan.Begun = plan.Begun || begun
		if !part.empty() {
			empty = false
			plan.Identical = plan.Identical && len(part.Differs) == 0
			plan.Done = plan.Done && part.Committed >= part.To
		}
		plan.Partitions = append(plan.Partitions, part)
	}
	if empty {
		return plan, errors.New("the range holds nothing in any partition: is --from behind " +
			"--to, or has the service not come so far?")
	}
	if !plan.Begun {
		if err := p.requireUnused(ctx, plan.Output); err != nil {
			return plan, err
		}
	}
	if err := p.requireFitting(ctx); err != nil {
		return plan, err
	}
	plan.bound(p.replay)
	return plan, nil
}

var errUsed = errors.New("holds records already, and not of this replay")

// requireUnused refuses an output topic that holds records of something else.
func (p *planner) requireUnused(ctx context.Context, topic string) error {
	there, err := topics.Exists(ctx, p.client, topic)
	if err != nil || !there {
		return err
	}
	counts, err := admin.Partitions(ctx, p.client, wire.Options{}, topic)
	if err != nil {
		return err
	}
	for n := range int32(counts[topic]) {
		r, err := topics.Open(ctx, p.client, topic, n, consumer.FetcherOptions{Uncommitted: true})
		if err != nil {
			return err
		}
		if r.End > 0 {
			return fmt.Errorf("topic %s %w: name a new --output-topic", topic, errUsed)
		}
	}
	return nil
}

// requireFitting refuses topics that exist and would stop the replay at its start.
func (p *planner) requireFitting(ctx context.Context) error {
	names := []string{p.first.Topics.Raw}
	t := p.replay.Topics
	for _, topic := range []string{t.Sanitized, t.Changelog, t.DeadLetters} {
		there, err := topics.Exists(ctx, p.client, topic)
		if err != nil {
			return err
		}
		if there {
			names = append(names, topic)
		}
	}
	if _, err := admin.CoPartitioned(ctx, p.client, wire.Options{}, names...); err != nil {
		return err
	}
	if !slices.Contains(names, t.Changelog) {
		return nil
	}
	err := admin.CheckConfigs(ctx, p.client, wire.Options{}, t.Changelog, topics.Compacted)
	if err != nil {
		return fmt.Errorf("the changelog keeps every user's state: %w", err)
	}
	return nil
}

// partition plans one partition, and says whether an earlier run has begun with it.
func (p *planner) partition(
	ctx context.Context, n int32,
) (part PartitionPlan, begun bool, err error) {
	raw, err := topics.Open(ctx, p.client, p.first.Topics.Raw, n, consumer.FetcherOptions{})
	if err != nil {
		return part, false, err
	}
	first, end := raw.First, raw.End
	mark, marked, err := topics.LastMark(ctx, p.client, p.first.Topics.Changelog, n)
	if err != nil {
		return part, false, err
	}
	own, begun, err := topics.LastMark(ctx, p.client, p.replay.Topics.Changelog, n)
	if err != nil {
		return part, false, err
	}
	if begun {
		// It has come past its origin: that those records may be gone by now
		// changes nothing. If some are gone that it has not come to, it will stop.
		first = min(first, own.Origin)
	}
	part = PartitionPlan{Partition: n, Origin: max(first, mark.Origin), Committed: -1}
	if part.From, err = p.r.From.Resolve(ctx, raw, part.Origin); err != nil {
		return part, false, err
	}
	// Without an end it is that of the first release, so that it does not move.
	last := end
	if marked {
		last = min(end, mark.Input)
	}
	if part.To, err = p.r.To.Resolve(ctx, raw, last); err != nil {
		return part, false, err
	}
	part.From, part.To = max(part.From, part.Origin), min(part.To, end)
	changed, err := topics.SettingsChanged(ctx, p.client, p.first.Topics.Raw, n, mark)
	if err != nil {
		return part, false, err
	}
	part.Differs = p.differs(mark, marked, changed, first, part.To)
	if err := p.erased(ctx, &part, marked); err != nil {
		return part, false, err
	}
	if err := p.first.CheckVersions(mark); err != nil {
		part.Differs = append(part.Differs, err.Error())
	}
	if err := p.days(ctx, &part, raw); err != nil {
		return part, false, err
	}
	part.second = len(part.Differs) > 0
	if part.empty() || !begun {
		return part, false, nil
	}
	return p.resume(ctx, part, own)
}

// erased looks whether somebody was erased before the end of the range. What such a user has after
// that follows from what was kept, which a replay does not know: it would go on with the state.
func (p *planner) erased(ctx context.Context, part *PartitionPlan, marked bool) error {
	if !marked || part.empty() {
		return nil
	}
	r, err := topics.Open(ctx, p.client, p.first.Topics.Changelog, part.Partition,
		consumer.FetcherOptions{})
	if err != nil {
		return err
	}
	first, err := verify.ReadChangelog(ctx, r, nil)
	if at := first.Erased.Before(part.To); err == nil && at >= 0 {
		part.Differs = append(part.Differs, fmt.Sprintf("a user was erased at raw offset %d: "+
			"later records of that user follow from less than a replay would know. A range that "+
			"ends there is not concerned", at))
	}
	return err
}

// resume looks at what an earlier run has left: its last mark, and its offset.
func (p *planner) resume(
	ctx context.Context, part PartitionPlan, own task.Mark,
) (PartitionPlan, bool, error) {
	part.begun = true
	if err := p.takeUp(&part, own); err != nil {
		return part, true, err
	}
	if err := p.replay.CheckVersions(own); err != nil {
		return part, true, fmt.Errorf("group %s has begun with other models: %w", p.r.Group, err)
	}
	committed, found, err := consumer.Committed(ctx, p.client,
		wire.Options{RetryTimeout: p.replay.Patience()}, p.r.Group,
		p.first.Topics.Raw, part.Partition)
	if err == nil && found {
		part.Committed = committed
	}
	return part, true, err
}

// takeUp makes a partition the one that an earlier run has begun with. Whether records are
// marked as a second release is the earlier run's decision: its topic must not hold both.
func (p *planner) takeUp(part *PartitionPlan, own task.Mark) error {
	same := func() bool {
		return bytes.Equal(own.Settings, part.window(p.settings, p.r.Output).Settings)
	}
	if same() {
		return nil
	}
	part.second = !part.second
	switch begun := same(); {
	case begun && part.second:
		part.Differs = append(part.Differs, "an earlier run has begun with it as a second release")
		return nil
	case begun:
		return fmt.Errorf("group %s has begun to replay the first release, now it would be a "+
			"second: %s", p.r.Group, strings.Join(part.Differs, "; "))
	}
	return fmt.Errorf("group %s has begun another replay: name a new --output-topic", p.r.Group)
}

// differs lists why the result is not the first release again.
func (p *planner) differs(
	mark task.Mark, marked bool, settings topics.Change, first, to int64,
) []string {
	if !marked {
		return []string{fmt.Sprintf("%s holds no mark: the service has not released "+
			"these fixes yet", p.first.Topics.Changelog)}
	}
	var why []string
	say := func(is bool, format string, args ...any) {
		if is {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	say(mark.Origin < 0 || len(mark.Settings) == 0,
		"the first release was begun by a version that did not write down its settings")
	say(len(mark.Settings) > 0 && !p.first.SameReleases(mark.Settings),
		"the settings are not those of the first release. Different: %s",
		p.first.Differences(mark.Settings))
	say(settings != topics.Unchanged, "%s, during the first release", settings.At(mark.Since))
	say(mark.Origin >= 0 && first > mark.Origin, "retention has removed the raw records from "+
		"offset %d, where the first release began, to %d: states depend on them", mark.Origin,
		first)
	say(len(mark.Source) > 0 && len(p.source) > 0 && !bytes.Equal(mark.Source, p.source),
		"the raw topic was deleted and made again since the first release")
	say(
		mark.Lost,
		"the first release went on at raw offset %d after a loss (--accept=lost-records), or was "+
			"carried over to another raw topic: it depends on records that are not there",
		mark.Origin,
	)
	say(to > mark.Input, "the service has come to raw offset %d only: what lies behind is not "+
		"released yet (leave --to out to end there)", mark.Input)
	return why
}

// empty reports that there is nothing to publish in the partition.
func (p PartitionPlan) empty() bool { return p.To <= p.Origin || p.To <= p.From }

// tagBytes is how much of the hash in a replay's settings is kept.
const tagBytes = 16

// window is what the partition's task needs to know. Where publishing begins, and
// to which topic, is part of its settings: nothing else tells one replay of a group
// from another.
func (p PartitionPlan) window(settings []byte, output string) service.Window {
	h := sha256.New()
	fmt.Fprintf(h, "replay of %x to %q from %d\n", settings, output, p.From)
	if p.second {
		fmt.Fprintln(h, schemas.SecondRelease)
	}
	tag := append([]byte("replay"), h.Sum(nil)[:tagBytes]...)
	w := service.Window{
		Origin: p.Origin, From: p.From, End: p.To,
		Settings: tag, Second: p.second,
	}
	if !p.second {
		w.Refused = p.refused
	}
	return w
}
