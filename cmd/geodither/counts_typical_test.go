package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/files"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/mechanism/counts"
	"github.com/geodither/geodither/mechanism/hours"
	"github.com/geodither/geodither/mechanism/noise"
	"github.com/geodither/geodither/schemas"
)

// typicalArgs publishes a typical day of the two days of countsArgs.
func typicalArgs(more ...string) []string { return append(countsArgs("--typical"), more...) }

// TestCountsTypical: a typical day has the sums of plain counts over all windows of a slot, plus
// the noise of the key, as averages. Files and their order change nothing.
func TestCountsTypical(t *testing.T) {
	dir := t.TempDir()
	lines := someFixes()
	in := write(t, dir, "in.csv", countsColumns+strings.Join(lines, ""))
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	out := succeed(t, typicalArgs("--in", in, "--key-file", key)...)
	rows, err := csv.NewReader(strings.NewReader(out.out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	days, zones, truth := plainCounts(t, lines)
	secret, err := files.ReadKey(key)
	if err != nil {
		t.Fatal(err)
	}
	plan, _ := counts.NewPlan("Europe/London", time.Hour)
	all, _ := hours.ParseDays("")
	typical, err := plan.Typical(days[0][0].Day, days[1][0].Day+1, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := counts.NewTypical(noise.NewKeyed(secret), zones,
		counts.Settings{Source: "files", Edition: 1, Epsilon: 1, PerDay: 3}, typical)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[int][]int64{} // by hour
	for i, w := range slices.Concat(days...) {
		hour := plan.Hour(w.StartMS)
		if sums[hour] == nil {
			sums[hour] = make([]int64, zones.Count())
		}
		for zone, n := range truth[i] {
			sums[hour][zone] += n
		}
	}
	if len(rows) != 1+24*zones.Count() {
		t.Fatalf("%d records", len(rows))
	}
	for hour, slot := range typical.Slots {
		want, err := p.PublishSlot(slot, sums[hour], nil)
		if err != nil {
			t.Fatal(err)
		}
		windows := 2
		if hour == 1 {
			windows = 3 // the clock shows 01:00 twice
		}
		for zone, sum := range want.Vehicles {
			row := rows[1+hour*zones.Count()+zone]
			fields := []string{
				"2026-10-25", "2026-10-27", "mon-sun", "2", fmt.Sprintf("%02d:00", hour),
				fmt.Sprintf("%02d:00", hour+1), fmt.Sprint(windows), zones.Name(int32(zone)),
			}
			vehicles, err := strconv.ParseFloat(row[10], 64)
			if err != nil || !slices.Equal(row[:8], fields) ||
				max(vehicles-float64(sum)/float64(windows),
					float64(sum)/float64(windows)-vehicles) > .005 {
				t.Fatalf("%v: the sum is %d, want %v", row, sum, fields)
			}
		}
	}
	for _, words := range []string{
		"all that one user does on 2 days (mon-sun) changes the odds of what is published by at " +
			"most e^1 (ε = 1); one such period in place of another 2",
		"one day alone: ε = 0.5; in place of another 1", "vehicles ± 7 holds",
	} {
		if !strings.Contains(out.err, words) {
			t.Errorf("no %q in\n%s", words, out.err)
		}
	}
	half := len(lines) / 2
	first := write(t, dir, "first.csv", countsColumns+strings.Join(lines[:half], ""))
	rest := write(t, dir, "rest.csv", countsColumns+strings.Join(lines[half:], ""))
	again := succeed(t, typicalArgs("--in", rest, "--in", first, "--key-file", key,
		"--from", "2026-10-24T23:00:00Z", "--days", "mon-sun")...)
	if again.out != out.out {
		t.Error("the same fixes of the same days give other bytes")
	}
	lined := filepath.Join(dir, "out.ndjson")
	succeed(t, typicalArgs("--in", in, "--key-file", key, "--out", lined)...)
	for i, line := range strings.Split(strings.TrimSpace(read(t, lined)), "\n") {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil || len(r) != len(rows[0]) {
			t.Fatalf("%s: %v", line, err)
		}
		want, _ := strconv.ParseFloat(rows[i+1][10], 64)
		if r["vehicles"] != want || r["slot"] != rows[i+1][4] ||
			(r["latitude"] == nil) != (rows[i+1][8] == "") {
			t.Fatalf("%s is %v", line, rows[i+1])
		}
	}
}

// TestCountsTypicalLedger: the ledger refuses other data, days or settings under one edition, and
// adds up both kinds for the days that they share.
func TestCountsTypicalLedger(t *testing.T) {
	dir := t.TempDir()
	lines := someFixes()
	in := write(t, dir, "in.csv", countsColumns+strings.Join(lines, ""))
	less := write(t, dir, "less.csv", countsColumns+strings.Join(lines[:2000], ""))
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	first := succeed(t, typicalArgs("--in", in, "--key-file", key)...)
	kept := read(t, key+".counts")
	for _, c := range []struct {
		args  []string
		words string
	}{
		{typicalArgs("--in", less, "--key-file", key), "other counts"},
		{typicalArgs("--in", in, "--key-file", key, "--days", "mon"), "a typical day of 2 days"},
		{
			typicalArgs("--in", in, "--key-file", key, "--to", "2026-10-26"),
			"a typical day of 2 days",
		},
		{typicalArgs("--in", in, "--key-file", key, "--window", "2h"), "a typical day of 2 days"},
		{typicalArgs("--in", in, "--key-file", key, "--per-day", "4"), "per day 3"},
		{typicalArgs("--in", in, "--key-file", key, "--zone", "3km"), "other zones"},
	} {
		requireMessage(t, call(t, c.args...), cli.ExitFailed, c.words, "counts-published")
		if read(t, key+".counts") != kept {
			t.Errorf("%v: a refused run is in the ledger", c.args)
		}
	}
	if again := succeed(t, typicalArgs("--in", in, "--key-file", key)...); again.out != first.out ||
		read(t, key+".counts") != kept || strings.Contains(again.err, "in all") {
		t.Errorf("the same typical day is not what it was: %s", again.err)
	}
	// A day's counts of ε = 1 and half of a typical day of two, for each day.
	daily := succeed(t, countsArgs("--in", in, "--key-file", key)...)
	const both = "for a user's day that is ε = 1.5 in all, for the 2 days of this run 3\n"
	if !strings.Contains(daily.err, both) {
		t.Errorf("no %q in\n%s", both, daily.err)
	}
	second := succeed(t, typicalArgs("--in", less, "--key-file", key, "--edition", "2")...)
	const three = "3 days that were published under this key meet in one that this run touches: " +
		"for a user's day that is ε = 2 in all, for the 2 days of this run 4\n"
	if !strings.Contains(second.err, three) {
		t.Errorf("no %q in\n%s", three, second.err)
	}
	other := succeed(t, typicalArgs("--in", in, "--key-file", key, "--from", "2026-10-27", "--to",
		"2026-10-29")...)
	if strings.Contains(other.err, "in all") {
		t.Errorf("periods that do not meet are added up: %s", other.err)
	}
}

// TestCountsTypicalService: days that the config's service counts by itself are not in the ledger,
// but in the sums, under a fresh key too: from its first day on, and by the clock of its time zone.
func TestCountsTypicalService(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "in.csv", countsColumns+strings.Join(someFixes(), ""))
	for section, want := range map[string]string{
		"{epsilon: 2}":                           "",
		"{epsilon: 2, time_zone: Europe/London}": "ε = 2.5 in all, for the 2 days of this run 5\n",
		"{epsilon: 2, time_zone: Europe/London, first: 2026-10-26}": "ε = 2.5 in all, for the 2 " +
			"days of this run 3\n",
		"{epsilon: 2, time_zone: Europe/London, first: 2026-10-27}": "",
		// A part of a day is twice its ε, and each day of the run meets two.
		"{epsilon: 2, time_zone: UTC}": "ε = 6.5 in all, for the 2 days of this run 7\n",
	} {
		brokers := "brokers: [localhost:1]\n"
		if section == "{epsilon: 2}" {
			brokers = "" // there is no service
		}
		key := filepath.Join(t.TempDir(), "noise.key")
		succeed(t, "key", "new", key)
		c := write(t, dir, "geodither.yml", brokers+"counts: "+section+"\n")
		r := succeed(t, typicalArgs("--in", in, "--key-file", key, "-c", c)...)
		fresh := succeed(t, typicalArgs("--in", in, "-c", c)...)
		for from, words := range map[string]string{
			"under this key": r.err, "by this run": fresh.err,
		} {
			from += ` or by the config's "counts serve" meet`
			wrong := strings.Contains(words, "in all")
			if want != "" {
				wrong = !strings.Contains(words, want) || !strings.Contains(words, from)
			}
			if wrong {
				t.Errorf("%s: no %q, %q in\n%s", section, from, want, words)
			}
		}
	}
}

// TestCountsTypicalDays: which days are meant, and what is refused.
func TestCountsTypicalDays(t *testing.T) {
	dir := t.TempDir()
	in := write(t, dir, "in.csv", countsColumns+strings.Join(someFixes()[:50], ""))
	holidays := write(t, dir, "holidays.txt", "# of the depot\n2026-10-27 closed\n\n2026-12-25\n")
	args := func(days string, more ...string) []string {
		return typicalArgs(append([]string{
			"--in", in, "--from", "2026-10-20", "--to", "2026-11-03", "--days", days,
		}, more...)...)
	}
	for days, want := range map[string]string{
		"working": "10 days (mon-fri)", "weekend": "4 days (sat,sun)", "all": "14 days (mon-sun)",
		"mon,fri": "4 days (mon,fri)", "working," + holidays: "9 days (mon-fri)",
	} {
		if r := succeed(t, args(days)...); !strings.Contains(r.err, "does on "+want) {
			t.Errorf("--days %s: no %q in\n%s", days, want, r.err)
		}
	}
	damaged := write(t, dir, "damaged.txt", "2026-10-27\n27.10.2026\n")
	for _, c := range []struct {
		args  []string
		words string
	}{
		{args("often"), "write working, weekend"},
		{args(holidays), "name the days too"},
		{args("working," + damaged), "line 2"},
		{args("mon", "--from", "2026-10-20", "--to", "2026-10-25"), "has none of these days"},
		{args("all", "--to", time.Now().AddDate(0, 0, 3).Format(time.DateOnly)), "range is over"},
	} {
		requireMessage(t, call(t, c.args...), cli.ExitUsage, c.words)
	}
}

// TestCountsTypicalEmptyDays: a range beyond the files lowers all averages. That is said where
// nothing is published, too.
func TestCountsTypicalEmptyDays(t *testing.T) {
	in := write(t, t.TempDir(), "in.csv", countsColumns+strings.Join(someFixes(), ""))
	const words = "days have no fix"
	if r := succeed(t, typicalArgs("--in", in)...); strings.Contains(r.err, words) {
		t.Errorf("without an empty day: %s", r.err)
	}
	r := succeed(t, typicalArgs("--in", in, "--days", "all", "--to", "2026-11-03")...)
	requireWords(t, r.err, words, "correct --from and")
	look := []string{"counts", "--in", in, "--box", countedBox, "--from", "2026-10-25", "--to"}
	for to, empty := range map[string]bool{"2026-10-27": false, "2026-11-03": true} {
		r := succeed(t, append(look, to)...)
		if strings.Contains(r.err, "WARNING     6 of 9 days have no fix") != empty {
			t.Errorf("up to %s: %s", to, r.err)
		}
	}
}

// TestCountsTypicalTopic: a raw topic gives the bytes of the same fixes in files, whatever the
// times of its records are. It is refused once records of the range may be lost.
func TestCountsTypicalTopic(t *testing.T) {
	dir, broker := t.TempDir(), startBroker(t)
	random := rand.New(rand.NewPCG(7, 8))
	start := time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)
	var fixes []schemas.Raw
	for range 400 {
		at := start.Add(time.Duration(random.IntN(48*60)) * time.Minute)
		fixes = append(fixes, schemas.Raw{
			UserID: fmt.Sprintf("v%d", random.IntN(9)), Timestamp: at.UnixMilli(),
			Latitude: 51.41 + random.Float64()*.04, Longitude: -.19 + random.Float64()*.08,
		})
	}
	in := write(t, dir, "in.ndjson", asNDJSON(fixes))
	var records []kgo.Record
	for i, line := range strings.Split(strings.TrimSpace(asNDJSON(fixes)), "\n") {
		at := time.UnixMilli(fixes[i].Timestamp)
		if fixes[i].UserID == "v1" {
			at = at.AddDate(0, 0, 20) // one clock must not end the range for others
		}
		records = append(records, kgo.Record{
			Key: []byte(fixes[i].UserID), Value: []byte(line), Timestamp: at,
		})
	}
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "2", "--in",
		write(t, dir, "none.csv", countsColumns))
	put(t, broker, "raw", records...)
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	config := topicConfig(t, broker, "raw", "json", "")
	args := typicalArgs("-c", config, "--key-file", key)
	first := succeed(t, args...)
	if files := succeed(t, typicalArgs("--in", in, "--key-file", key)...); files.out != first.out {
		t.Error("the topic gives other bytes than the same fixes in a file")
	}
	requireMessage(t, call(t, countsArgs("-c", config)...), cli.ExitUsage, "only --typical")
	if advice := succeed(t, "counts", "--typical", "-c", config, "--from", "2026-10-25", "--to",
		"2026-10-27", "--box", countedBox); !strings.Contains(advice.err, "useful ") {
		t.Errorf("no advice in\n%s", advice.err)
	}
	deleteRecords(t, broker, "raw", 1)
	requireMessage(t, call(t, args...), cli.ExitFailed, "raw/0 has lost records, nothing says",
		"counts-lost")
}

// deleteRecords deletes those of partition 0 before an offset.
func deleteRecords(t *testing.T, broker, name string, offset int64) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lost, topic := kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewDeleteRecordsRequestTopic()
	partition := kmsg.NewDeleteRecordsRequestTopicPartition()
	topic.Topic, partition.Offset = name, offset
	topic.Partitions = append(topic.Partitions, partition)
	lost.Topics = append(lost.Topics, topic)
	if _, err := lost.RequestWith(t.Context(), client); err != nil {
		t.Fatal(err)
	}
}

// TestCountsTypicalLost: where a log has lost records, only the broker's time of its first one says
// whether they are of the range. A producer's time says nothing, however early it is.
func TestCountsTypicalLost(t *testing.T) {
	broker, dir := startBroker(t), t.TempDir()
	none := write(t, dir, "none.csv", countsColumns)
	of := func(topic string, from time.Time) []string {
		c := topicConfig(t, broker, topic, "json", "")
		return []string{
			"counts", "--typical", "-c", c, "--from", from.Format(time.DateOnly), "--to",
			from.AddDate(0, 0, 2).Format(time.DateOnly), "--box", countedBox, "--zone", "2km",
		}
	}
	now := time.Now()
	line := asNDJSON([]schemas.Raw{{
		UserID: "a", Timestamp: now.AddDate(-1, 0, 0).UnixMilli(), Latitude: 51.42, Longitude: -.15,
	}})
	early := kgo.Record{
		Key: []byte("a"), Value: []byte(line), Timestamp: now.AddDate(-1, 0, 0),
	}
	for _, topic := range []string{"created", "appended"} {
		succeed(t, "produce", "--brokers", broker, "--topic", topic, "--create", "1", "--in", none)
	}
	(&servicetest.World{Addr: broker}).Alter(t, "appended", "message.timestamp.type",
		"LogAppendTime")
	for _, topic := range []string{"created", "appended"} {
		put(t, broker, topic, early, early)
		succeed(t, of(topic, now.AddDate(0, 0, -3))...)
		deleteRecords(t, broker, topic, 1)
	}
	requireMessage(t, call(t, of("created", now.AddDate(0, 0, -3))...), cli.ExitFailed,
		"nothing says since when")
	requireMessage(t, call(t, of("appended", now.AddDate(0, 0, -3))...), cli.ExitFailed,
		"appended/0 has lost records since")
	succeed(t, of("appended", now.AddDate(0, 0, 3))...)
	deleteRecords(t, broker, "appended", 2)
	requireMessage(t, call(t, of("appended", now.AddDate(0, 0, 3))...), cli.ExitFailed,
		"appended/0 has lost all records: count files", "counts-lost")
}

// TestCountsTypicalCompacted: compaction deletes records of any time and leaves the first one, so a
// compacted topic is refused as one that has lost records.
func TestCountsTypicalCompacted(t *testing.T) {
	broker, dir := startBroker(t), t.TempDir()
	succeed(t, "produce", "--brokers", broker, "--topic", "raw", "--create", "1", "--in",
		write(t, dir, "none.csv", countsColumns))
	put(t, broker, "raw", kgo.Record{Key: []byte("a"), Value: []byte(asNDJSON([]schemas.Raw{{
		UserID: "a", Timestamp: time.Date(2026, 10, 25, 9, 0, 0, 0, time.UTC).UnixMilli(),
		Latitude: 51.42, Longitude: -.15,
	}}))})
	key := filepath.Join(dir, "noise.key")
	succeed(t, "key", "new", key)
	args := typicalArgs("-c", topicConfig(t, broker, "raw", "json", ""), "--key-file", key)
	succeed(t, args...)
	for _, policy := range []string{"compact", "compact,delete"} {
		(&servicetest.World{Addr: broker}).Alter(t, "raw", "cleanup.policy", policy)
		requireMessage(t, call(t, args...), cli.ExitFailed, "raw is compacted", "counts-lost")
	}
}
