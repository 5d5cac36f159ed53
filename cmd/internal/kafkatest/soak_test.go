//go:build kafka

package kafkatest

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// soak feeds the raw topic while instances restart in turn, samples meanwhile, and judges the
// samples. They are written also where it fails or is interrupted.
func soak(ctx context.Context, h *campaign, r *report, w *witness) error {
	client, err := newClient(h.brokers)
	if err != nil {
		return err
	}
	defer client.Close()
	p := &sampler{settings: h.settings, instances: h.instances, client: client, witness: w}
	err = p.during(ctx, func(ctx context.Context) error { return breakAndFeed(ctx, h, r, w) })
	if err != nil {
		return err
	}
	r.soaked = judge(p.all, p.names(), h.Duration)
	for _, f := range r.soaked {
		r.Violations = append(r.Violations, f.failures...)
	}
	return nil
}

const (
	// mostBetween is the longest time between two samples.
	mostBetween = 10 * time.Second
	// longestBlind is how long the brokers may answer no question. A single one they may refuse, as
	// while a partition has no leader.
	longestBlind = time.Minute
)

// topicsName stands for the topics where others stand for an instance.
const topicsName = "topics"

// sampler samples the instances and the topics of a soak.
type sampler struct {
	settings
	instances []*supervised
	client    *kgo.Client
	witness   *witness
	began     time.Time
	all       map[lifeOf]series
	rows      [][]string // of the CSV file
}

// during samples while work runs, and then writes the samples, whatever has ended it.
func (p *sampler) during(ctx context.Context, work func(context.Context) error) error {
	group, running := errgroup.WithContext(ctx)
	sampling, end := context.WithCancel(running)
	group.Go(func() error { return p.run(sampling) })
	group.Go(func() error {
		defer end()
		return work(running)
	})
	err := group.Wait()
	if len(p.rows) == 0 {
		return err
	}
	return errors.Join(err, p.write(p.out))
}

// names are those of the instances.
func (p *sampler) names() []string {
	var names []string
	for _, i := range p.instances {
		names = append(names, i.name)
	}
	return names
}

// run samples until the context ends. An instance that restarts has no sample.
func (p *sampler) run(ctx context.Context) error {
	p.began, p.all = time.Now(), map[lifeOf]series{}
	between, last := min(mostBetween, p.Every/30), p.began
	for pause(ctx, between) == nil {
		for _, i := range p.instances {
			if values, err := i.sample(ctx); err == nil {
				p.add(i.name, i.life(), values)
			}
		}
		values, err := p.topics(ctx)
		if err == nil {
			p.add(topicsName, 1, values)
			last = time.Now()
		} else if ctx.Err() == nil && time.Since(last) > longestBlind {
			return fmt.Errorf("no sample of the topics in the last %v: %w", longestBlind, err)
		}
	}
	return nil
}

// add notes a sample.
func (p *sampler) add(who string, life int, values map[string]float64) {
	at := time.Since(p.began).Seconds()
	row := []string{strconv.FormatFloat(at, 'f', 1, 64), who, strconv.Itoa(life)}
	for _, q := range quantities {
		v, ok := values[q.name]
		if !ok {
			row = append(row, "")
			continue
		}
		row = append(row, strconv.FormatFloat(v, 'f', -1, 64))
		key := lifeOf{q.name, who, life}
		s := p.all[key]
		s.at, s.values = append(s.at, at), append(s.values, v/q.unit)
		p.all[key] = s
	}
	p.rows = append(p.rows, row)
}

// topics returns how large one copy of the changelog is, and how long the feed takes for the raw
// records that are not answered yet.
func (p *sampler) topics(ctx context.Context) (map[string]float64, error) {
	answered := p.witness.count()
	fed, err := ends(ctx, p.client, rawTopic, p.Partitions, true)
	if err != nil {
		return nil, err
	}
	behind := -float64(answered)
	for _, n := range fed {
		behind += float64(n)
	}
	request := kmsg.NewPtrDescribeLogDirsRequest()
	of := kmsg.NewDescribeLogDirsRequestTopic()
	of.Topic = changelogTopic
	for partition := range p.Partitions {
		of.Partitions = append(of.Partitions, int32(partition))
	}
	request.Topics = append(request.Topics, of)
	size := 0.0
	for _, shard := range p.client.RequestSharded(ctx, request) {
		if shard.Err != nil {
			return nil, shard.Err
		}
		of, err := bytesOf(shard.Resp.(*kmsg.DescribeLogDirsResponse))
		if err != nil {
			return nil, err
		}
		size += of
	}
	return map[string]float64{
		"changelog_bytes": size / float64(p.Nodes), "lag_seconds": max(behind, 0) / p.rate(),
	}, nil
}

// bytesOf adds up the partitions that a broker's folders hold.
func bytesOf(r *kmsg.DescribeLogDirsResponse) (float64, error) {
	size, err := 0.0, kerr.ErrorForCode(r.ErrorCode)
	for _, dir := range r.Dirs {
		err = errors.Join(err, kerr.ErrorForCode(dir.ErrorCode))
		for _, topic := range dir.Topics {
			for _, partition := range topic.Partitions {
				size += float64(partition.Size)
			}
		}
	}
	if err != nil {
		return 0, fmt.Errorf("a broker does not say how large the changelog is: %w", err)
	}
	return size, nil
}

// shown are the metrics of an instance that are sampled.
var shown = map[string]string{
	"process_resident_memory_bytes": "rss_bytes",
	"process_open_fds":              "open_files",
	"go_goroutines":                 "goroutines",
	"geodither_state_bytes":         "store_bytes",
}

// sample asks an instance for its metrics.
func (i *supervised) sample(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+i.listen+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return metricsOf(answer.Body)
}

// metricsOf reads the metrics that are sampled. All of them must be there.
func metricsOf(text io.Reader) (map[string]float64, error) {
	values := map[string]float64{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		name, number, _ := strings.Cut(lines.Text(), " ")
		if shown[name] == "" {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("the metric %s is %q", name, number)
		}
		values[shown[name]] = v
	}
	if len(values) != len(shown) {
		return nil, fmt.Errorf("of %d metrics the instance shows %s", len(shown),
			strings.Join(slices.Sorted(maps.Keys(values)), ", "))
	}
	return values, lines.Err()
}

// write writes the samples into a folder, which is below that of the repository.
func (p *sampler) write(folder string) error {
	if !filepath.IsAbs(folder) {
		folder = filepath.Join("..", "..", "..", folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(folder, "soak.csv"))
	if err != nil {
		return err
	}
	header := []string{"seconds", "instance", "life"}
	for _, q := range quantities {
		header = append(header, q.name)
	}
	err = csv.NewWriter(file).WriteAll(append([][]string{header}, p.rows...))
	return errors.Join(err, file.Close())
}

// A soak looks for what grows under a steady load. The rules:
//
//   - A life is the time from a start of an instance to its end. A restart frees what a process
//     has leaked, so each life is judged by itself. The first instance is never restarted, so that
//     one life lasts as long as the run.
//   - The first fifth of a life is warm-up, five minutes at most. What is left must last for a
//     minute and have 12 samples, or the life is too short to be judged. One life of each instance
//     must be long enough. That of the first one, and the topics, must have samples of nine tenths
//     of the run.
//   - The trend of a life is the median of the slopes between any two of its samples (Theil 1950;
//     Sen 1968, doi 10.1080/01621459.1968.10480934). A restart of another instance moves partitions
//     here for some seconds, and garbage collection comes in steps: neither moves a median much.
//   - The life fails if the trend adds more over the life than the quantity's rule allows: a share
//     of the life's median, and a floor for the steps in which the quantity comes.
type leakRule struct {
	share, floor float64
	most         float64 // the largest median; 0: none
}

// quantity is one thing that is sampled.
type quantity struct {
	name, label string
	unit        float64  // samples in one unit of the label
	rule        leakRule // in units
}

// quantities are what a soak watches, in the order of the CSV file. The topics' stand behind those
// of instances.
//
// Where the rules come from: a heap of Go doubles between two collections, and so does the state
// folder between compactions, but their medians stay. A store of a fixed fleet keeps one state for
// each user. A changelog is compacted when a tenth of it is old. The feed's lag is that of one
// transaction.
var quantities = []quantity{
	{"rss_bytes", "memory, MB", 1e6, leakRule{share: .2, floor: 10}},
	{"open_files", "open files", 1, leakRule{share: .1, floor: 5}},
	{"goroutines", "goroutines", 1, leakRule{share: .1, floor: 8}},
	{"store_bytes", "state folder, MB", 1e6, leakRule{share: .25, floor: 5}},
	{"changelog_bytes", "changelog, MB", 1e6, leakRule{share: .25, floor: 10}},
	{"lag_seconds", "lag, seconds of the feed", 1, leakRule{floor: 1, most: 2}},
}

// whose returns who has the quantity: the instances, or the topics.
func (q quantity) whose(instances []string) []string {
	for _, name := range shown {
		if name == q.name {
			return instances
		}
	}
	return []string{topicsName}
}

// lifeOf names a series: one quantity of one life of an instance, or of the topics.
type lifeOf struct {
	quantity string
	who      string
	life     int
}

// series are samples in the order of time.
type series struct {
	at     []float64 // seconds since the feed began
	values []float64 // in units
}

const (
	warmShare    = .2
	longestWarm  = 5 * time.Minute
	leastJudged  = time.Minute
	leastSamples = 12
	mostSamples  = 600 // of a trend: pairs grow with the square
	leastWhole   = .9  // share of the run with samples of a life that nothing ends
)

// warm returns the samples behind the warm-up.
func (s series) warm() series {
	if len(s.at) == 0 {
		return s
	}
	first, last := s.at[0], s.at[len(s.at)-1]
	from := first + min((last-first)*warmShare, longestWarm.Seconds())
	i, _ := slices.BinarySearch(s.at, from)
	return series{s.at[i:], s.values[i:]}
}

// judged says whether there is enough to see a trend in.
func (s series) judged() bool {
	return len(s.at) >= leastSamples && s.lasts() >= leastJudged.Seconds()
}

func (s series) lasts() float64 { return s.at[len(s.at)-1] - s.at[0] }

// covers returns the seconds with samples: from the first one to the last one, without the pauses
// that are longer than longestBlind.
func (s series) covers() float64 {
	covered := 0.0
	for i := 1; i < len(s.at); i++ {
		if d := s.at[i] - s.at[i-1]; d <= longestBlind.Seconds() {
			covered += d
		}
	}
	return covered
}

// slope returns the median slope between two samples, in units a second.
func (s series) slope() float64 {
	stride := (len(s.at) + mostSamples - 1) / mostSamples
	var slopes []float64
	for i := 0; i < len(s.at); i += stride {
		for j := i + stride; j < len(s.at); j += stride {
			if d := s.at[j] - s.at[i]; d > 0 {
				slopes = append(slopes, (s.values[j]-s.values[i])/d)
			}
		}
	}
	return median(slopes)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// finding is what came of one quantity: that of the life that is nearest to its bound.
type finding struct {
	quantity        quantity
	life            lifeOf
	level           float64 // median
	rise, allowed   float64 // over lasts
	lasts           time.Duration
	lives, tooShort int
	failures        []string
}

// judge applies the rules to all series of a run with these instances.
func judge(all map[lifeOf]series, instances []string, run time.Duration) []finding {
	var findings []finding
	for _, q := range quantities {
		f := finding{quantity: q, allowed: math.NaN()}
		longest := map[string]float64{} // of a life that was judged: seconds with samples
		for _, life := range livesOf(all, q.name) {
			if f.add(life, all[life].warm()) {
				longest[life.who] = max(longest[life.who], all[life].covers())
			}
		}
		f.want(longest, instances, run)
		findings = append(findings, f)
	}
	return findings
}

// want fails where somebody was not judged, or somebody that nothing restarts for a part of the run
// only.
func (f *finding) want(longest map[string]float64, instances []string, run time.Duration) {
	all := f.quantity.whose(instances)
	var without []string
	for _, who := range all {
		if _, ok := longest[who]; !ok {
			without = append(without, who)
		}
	}
	if len(without) > 0 {
		f.failures = append(f.failures, fmt.Sprintf("%s of %s: no life has samples enough to be "+
			"judged: soak for longer, or see in the logs why there are none", f.quantity.label,
			strings.Join(without, ", ")))
	}
	whole := all[0]
	alone := len(instances) == 1 && whole == instances[0] // which is restarted then
	if got, ok := longest[whole]; ok && got < leastWhole*run.Seconds() && !alone {
		f.failures = append(f.failures, fmt.Sprintf("%s of %s: its longest life has samples of %v "+
			"of %v, though nothing restarts it: see the logs", f.quantity.label, whole,
			time.Duration(got*float64(time.Second)).Round(time.Second), run))
	}
}

// livesOf returns the lives of a quantity, in order.
func livesOf(all map[lifeOf]series, quantity string) []lifeOf {
	var lives []lifeOf
	for life := range all {
		if life.quantity == quantity {
			lives = append(lives, life)
		}
	}
	slices.SortFunc(lives, func(a, b lifeOf) int {
		if a.who != b.who {
			return slices.Compare([]string{a.who}, []string{b.who})
		}
		return a.life - b.life
	})
	return lives
}

// add judges one life, and returns whether it is long enough for that.
func (f *finding) add(life lifeOf, s series) bool {
	if !s.judged() {
		f.tooShort++
		return false
	}
	f.lives++
	r, level := f.quantity.rule, median(s.values)
	rise, allowed := s.slope()*s.lasts(), r.share*level+r.floor
	if math.IsNaN(f.allowed) || rise-allowed > f.rise-f.allowed {
		f.life, f.level, f.rise, f.allowed = life, level, rise, allowed
		f.lasts = time.Duration(s.lasts() * float64(time.Second))
	}
	where := fmt.Sprintf("%s of %s", f.quantity.label, life.who)
	if life.life > 1 {
		where += fmt.Sprintf(" after its restart %d", life.life-1)
	}
	if !(rise <= allowed) {
		f.failures = append(f.failures, fmt.Sprintf("%s: the trend adds %.3g to a median of %.3g "+
			"within %v, and %.3g is allowed", where, rise, level,
			time.Duration(s.lasts()*float64(time.Second)).Round(time.Second), allowed))
	}
	if r.most > 0 && !(level <= r.most) {
		f.failures = append(f.failures,
			fmt.Sprintf("%s: the median is %.3g, and %.3g is allowed", where, level, r.most))
	}
	return true
}

// name is what was judged, without its unit.
func (f *finding) name() string {
	name, _, _ := strings.Cut(f.quantity.label, ",")
	return name
}

func (f *finding) verdict() string {
	switch {
	case f.lives == 0:
		return "not judged"
	case len(f.failures) > 0:
		return "FAILED"
	}
	return "ok"
}

// text is a line of the report.
func (f *finding) text() string {
	if f.lives == 0 {
		return f.verdict()
	}
	return fmt.Sprintf("%s: %+.3g on %.3g within %v, %.3g allowed (%s, nearest of %d lives; %d "+
		"more are too short)", f.verdict(), f.rise, f.level, f.lasts.Round(time.Second), f.allowed,
		f.life.who, f.lives, f.tooShort)
}
