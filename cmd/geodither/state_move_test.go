package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/cli"
	"github.com/geodither/geodither/cmd/internal/devbroker"
	"github.com/geodither/geodither/cmd/internal/kafkaconn"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/producer"
	"github.com/geodither/geodither/schemas"
)

// secondFeed begins here, behind the last step of the first one.
var secondFeed = time.UnixMilli(1_700_000_000_000).Add(time.Hour)

// mirrored is a second cluster to which a mirror has copied the topics of a first one: what was
// committed, and no markers, so offsets differ.
type mirrored struct {
	*crashWorld
	from *crashWorld
	t    *testing.T
}

func newMirrored(t *testing.T, from *crashWorld) *mirrored {
	t.Helper()
	broker, err := devbroker.Start(devbroker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Close() })
	own := *from
	own.addr, own.dir = broker.Addr(), t.TempDir()
	own.client = kafkaconn.NewClient([]string{own.addr})
	for _, name := range []string{"model.avro", "noise.key"} {
		data, err := os.ReadFile(filepath.Join(from.dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(own.dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &mirrored{&own, from, t}
}

func (m *mirrored) makeTopic(topic string, partitions int, configs map[string]string) {
	m.t.Helper()
	err := admin.CreateTopics(m.t.Context(), m.client, wire.Options{},
		admin.Topic{Name: m.prefix + topic, Partitions: partitions, Configs: configs})
	if err != nil {
		m.t.Fatal(err)
	}
}

// copy copies a topic record by record, but not the first and the last ones of each partition.
func (m *mirrored) copy(topic string, partitions, first, last int, configs map[string]string) {
	m.t.Helper()
	m.makeTopic(topic, partitions, configs)
	p, err := producer.NewIdempotent(m.client, producer.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	for n, lines := range m.from.readIfThere(m.t, topic, false) {
		var batch producer.Batch
		batch.Topic, batch.Partition = m.prefix+topic, n
		for _, l := range lines[first : len(lines)-last] {
			r := producer.Record{Key: []byte(l.key), Timestamp: l.timestamp}
			if l.value != "" {
				r.Value = []byte(l.value)
			}
			batch.Records = append(batch.Records, r)
		}
		if _, err := p.Produce(m.t.Context(), batch); err != nil {
			m.t.Fatal(err)
		}
	}
}

// answers feeds both services the same, lets them answer it, and returns what the first one has
// published in all, and what the second one has.
func (m *mirrored) answers() (want, got map[int32][]line) {
	m.t.Helper()
	before := m.from.answered(m.t, "town")
	fed := m.from.feedFrom(m.t, 20, 10, secondFeed)
	m.feedFrom(m.t, 20, 10, secondFeed)
	m.from.serve(m.t, "town", before+fed, nil)
	want = m.from.read(m.t, "town.sanitized", false)
	due := m.answered(m.t, "town")
	for n, lines := range m.read(m.t, "raw", false) {
		at, _, err := consumer.Committed(m.t.Context(), m.client, wire.Options{}, m.prefix+"town",
			m.prefix+"raw", n)
		if err != nil {
			m.t.Fatal(err)
		}
		due += int64(len(lines)) - at // it has no markers
	}
	m.serve(m.t, "town", due, nil)
	return want, m.read(m.t, "town.sanitized", true)
}

// requireCarriedOver requires that the second service has made no release which the first one has
// not made of the same fixes, and has made all that are due after the move.
func requireCarriedOver(t *testing.T, want, got map[int32][]line) {
	t.Helper()
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	type released struct {
		user     string
		number   int64
		lat, lon schemas.Nullable
	}
	decode := func(l line) (schemas.Sanitized, released) {
		r, err := codec.DecodeSanitized([]byte(l.value))
		if err != nil {
			t.Fatal(err)
		}
		return r, released{r.UserID, r.Release, r.ReleaseLatitude, r.ReleaseLongitude}
	}
	repeated := 0
	for p, lines := range got {
		known := map[released]bool{}
		for _, l := range want[p] {
			_, as := decode(l)
			known[as] = true
		}
		for i, l := range lines {
			r, as := decode(l)
			if r.Epsilon > 0 && !slices.Contains(want[p], l) || as.lat.Known && !known[as] {
				t.Fatalf("partition %d: record %d is another release: %+v", p, i, r)
			}
			if r.Kind == "repeated" {
				repeated++
			}
		}
		for i, l := range want[p] {
			if l.timestamp >= secondFeed.UnixMilli() && !slices.Contains(lines, l) {
				t.Fatalf("partition %d: record %d is missing", p, i)
			}
		}
	}
	t.Logf("%d releases were repeated", repeated)
}

// accounts is what "state inspect" says of all users.
func accounts(t *testing.T, w *crashWorld) account.Report {
	t.Helper()
	var r account.Report
	out := succeed(t, "state", "inspect", "--json", "-c", filepath.Join(w.dir, "town.yml")).out
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	r.Time, r.Group = time.Time{}, ""
	return r
}

// sameAccounts compares what all users have spent.
func sameAccounts(t *testing.T, a, b *crashWorld) {
	t.Helper()
	want, err := json.Marshal(accounts(t, a))
	got, err2 := json.Marshal(accounts(t, b))
	if err != nil || err2 != nil || string(want) != string(got) {
		t.Errorf("the accounts are\n%s, want\n%s", got, want)
	}
}

// TestMoveToAnotherCluster: a service goes on with mirrored topics. The accounts carry over, fixes
// that were processed give no other release, and later ones give the very release that the first
// service would have made.
func TestMoveToAnotherCluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	old := newCrashWorld(t)
	old.release = "{mechanism: codebook, epsilon: 1, budget: {lifetime: 14, window: 24h, " +
		"epsilon: 13}}"
	fed := old.feed(t, 20, 10)
	old.serve(t, "town", fed, nil)
	succeed(t, "erase", "-c", filepath.Join(old.dir, "town.yml"), "--user", "sim-000003")
	m := newMirrored(t, old)
	m.copy("raw", 3, 5, 0, nil)
	m.copy("town.changelog", 3, 0, 0, topics.Compacted)
	m.copy("town.sanitized", 3, 0, 3, nil)
	config := m.configure(t, "town")
	requireWords(t, call(t, "run", "-c", config).err, "made again",
		"(raw-remade)")
	move := []string{"state", "rebuild-changelog", "-c", config, "--from"}
	requireMessage(t, call(t, append(move, "committed")...), cli.ExitFailed, "has no offset")
	requireMessage(t, call(t, append(move, "99")...), cli.ExitFailed, "is not between")
	requireMessage(t, call(t, append(move, "soon")...), cli.ExitUsage, "a day such as")
	requireMessage(t, call(t, append(move, "earliest", "folder")...), cli.ExitUsage, "no folders")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	other := write(t, m.dir, "crc32.yml", strings.Replace(string(text), "create: true",
		"create: true, partitioner: crc32", 1))
	requireMessage(t, call(t, "state", "rebuild-changelog", "-c", other, "--from", "earliest"),
		cli.ExitFailed, "partitioner")
	requireWords(
		t,
		succeed(t, append(move, "earliest", "--dry-run")...).out,
		"19 users with a state",
		"would be carried over",
		"stopped cleanly",
		"half up to",
	)
	requireWords(t, call(t, "run", "-c", config).err, "made again")
	requireWords(t, succeed(t, append(move, "earliest")...).out, "carried over", "Stop the mirror")
	sameAccounts(t, old, m.crashWorld)
	want, got := m.answers()
	requireCarriedOver(t, want, got)
	sameAccounts(t, old, m.crashWorld)
	succeed(t, "erase", "-c", config, "--user", "sim-000003")
	requireWords(t, succeed(t, "state", "inspect", "-c", config).out, "account of erased")
}

// TestMoveWithoutTheEnd: a copy of the changelog that lacks its end, as after the loss of the first
// cluster, may lack releases. It is used only from raw records on that it has, and these are
// released again as they were.
func TestMoveWithoutTheEnd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	old := newCrashWorld(t)
	fed := old.feed(t, 20, 10)
	old.serve(t, "town", fed, nil)
	m := newMirrored(t, old)
	m.copy("raw", 3, 0, 0, nil)
	m.copy("town.changelog", 3, 0, 12, topics.Compacted)
	config := m.configure(t, "town")
	move := []string{"state", "rebuild-changelog", "-c", config, "--from"}
	r := call(t, append(move, "2023-11-14T23:00:00Z")...)
	requireMessage(t, r, cli.ExitFailed, "is missing", "--from earliest")
	where := "earliest"
	for _, until := range regexp.MustCompile(`earliest or (\S+)`).FindAllStringSubmatch(r.err, -1) {
		// The first of these times is good in all partitions that have one.
		if where == "earliest" || until[1] < where {
			where = until[1]
		}
	}
	if call(t, append(move, where, "--dry-run")...).code != cli.ExitDone {
		where = "earliest" // in some partition the copy holds no state before a mark
	}
	requireWords(t, succeed(t, append(move, where)...).out, "was killed")
	want, got := m.answers()
	requireCarriedOver(t, want, got)
	sameAccounts(t, old, m.crashWorld)
}

// TestMoveRefuses what does not fit: a changelog or a raw topic of other partitions, one without
// its beginning, and an empty one.
func TestMoveRefuses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	old := newCrashWorld(t)
	old.serve(t, "town", old.feed(t, 20, 3), nil)
	for want, fault := range map[string]func(m *mirrored){
		"partitions": func(m *mirrored) {
			m.copy("raw", 4, 0, 0, nil)
			m.copy("town.changelog", 3, 0, 0, topics.Compacted)
		},
		"holds no mark": func(m *mirrored) {
			m.copy("raw", 3, 0, 0, nil)
			m.makeTopic("town.changelog", 3, topics.Compacted)
		},
		"cleanup.policy": func(m *mirrored) {
			m.copy("raw", 3, 0, 0, nil)
			m.copy("town.changelog", 3, 0, 0, nil)
		},
	} {
		t.Run(want, func(t *testing.T) {
			m := newMirrored(t, old)
			fault(m)
			requireMessage(t, call(t, "state", "rebuild-changelog", "-c", m.configure(t, "town"),
				"--from", "earliest"), cli.ExitFailed, want)
		})
	}
}
