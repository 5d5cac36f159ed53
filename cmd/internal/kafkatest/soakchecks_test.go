//go:build kafka

package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// quiet returns the samples of a soak of two hours in which nothing leaks: every quantity has its
// noise, a heap goes up and down between collections, and each restart of another instance brings
// half a minute with twice of everything.
func quiet() map[lifeOf]series {
	rng := rand.New(rand.NewPCG(15, 8))
	levels := map[string]float64{
		"rss_bytes": 80, "open_files": 60, "goroutines": 90, "store_bytes": 4,
		"changelog_bytes": 12, "lag_seconds": .15,
	}
	all := map[lifeOf]series{}
	add := func(life lifeOf, at float64) {
		level := levels[life.quantity]
		v := level * (1 + .15*math.Mod(at/97, 1) + .03*rng.NormFloat64())
		if math.Mod(at, 600) < 30 {
			v += level
		}
		s := all[life]
		s.at, s.values = append(s.at, at), append(s.values, v)
		all[life] = s
	}
	for at := 10.; at <= 7200; at += 10 {
		for _, q := range quantities {
			if q.name == "changelog_bytes" || q.name == "lag_seconds" {
				add(lifeOf{q.name, topicsName, 1}, at)
				continue
			}
			add(lifeOf{q.name, "instance-1", 1}, at)
			for n, name := range []string{"instance-2", "instance-3"} {
				life := 1 + int(at-600*float64(n+1)+1200)/1200
				add(lifeOf{q.name, name, life}, at)
			}
		}
	}
	return all
}

// judgeQuiet judges samples as those of the soak of quiet.
func judgeQuiet(all map[lifeOf]series) []finding {
	return judge(all, []string{"instance-1", "instance-2", "instance-3"}, 2*time.Hour)
}

func failuresOf(all map[lifeOf]series) string {
	var failures []string
	for _, f := range judgeQuiet(all) {
		failures = append(failures, f.failures...)
	}
	return strings.Join(failures, "\n")
}

// TestSoakIsQuiet: a soak without a leak passes, and every life but the last stumps is judged.
func TestSoakIsQuiet(t *testing.T) {
	all := quiet()
	if got := failuresOf(all); got != "" {
		t.Errorf("nothing leaks, and it fails:\n%s", got)
	}
	for _, f := range judgeQuiet(all) {
		if !strings.HasPrefix(f.text(), "ok: ") || f.lives < 1 || f.tooShort > 2 {
			t.Errorf("%s: %s", f.quantity.name, f.text())
		}
	}
}

// TestLeaksAreFound: each planted leak fails the soak, by the name of what leaks.
func TestLeaksAreFound(t *testing.T) {
	for name, plant := range map[string]struct {
		life  lifeOf
		value func(at, v float64) float64
		want  string
	}{
		"half a megabyte a minute": {
			lifeOf{"rss_bytes", "instance-1", 1},
			func(at, v float64) float64 { return v + .5*at/60 }, "memory, MB of instance-1:",
		},
		"three megabytes a minute, freed by a restart": {
			lifeOf{"rss_bytes", "instance-2", 3},
			func(at, v float64) float64 { return v + 3*(at-1800)/60 },
			"memory, MB of instance-2 after its restart 2:",
		},
		"two files at each restart of another": {
			lifeOf{"open_files", "instance-1", 1},
			func(at, v float64) float64 { return v + 2*math.Floor(at/600) },
			"open files of instance-1:",
		},
		"a goroutine every four minutes": {
			lifeOf{"goroutines", "instance-1", 1},
			func(at, v float64) float64 { return v + math.Floor(at/240) },
			"goroutines of instance-1:",
		},
		"a store that keeps old states": {
			lifeOf{"store_bytes", "instance-1", 1},
			func(at, v float64) float64 { return v + 8*at/7200 }, "state folder, MB of instance-1:",
		},
		"a changelog that is not compacted": {
			lifeOf{"changelog_bytes", topicsName, 1},
			func(at, v float64) float64 { return v + 200*at/7200 }, "changelog, MB of topics:",
		},
		"a service that falls behind": {
			lifeOf{"lag_seconds", topicsName, 1},
			func(at, v float64) float64 { return v + 2*at/7200 },
			"lag, seconds of the feed of topics:",
		},
		"a service that is always behind": {
			lifeOf{"lag_seconds", topicsName, 1},
			func(_, v float64) float64 { return v + 3 }, "the median is 3.",
		},
	} {
		all := quiet()
		s := all[plant.life]
		if len(s.at) < leastSamples {
			t.Fatalf("%s: %d samples", name, len(s.at))
		}
		for i, at := range s.at {
			s.values[i] = plant.value(at, s.values[i])
		}
		if got := failuresOf(all); !strings.Contains(got, plant.want) ||
			strings.Contains(got, "\n") {
			t.Errorf("%s: want one failure with %q, got %q", name, plant.want, got)
		}
	}
}

// TestTooShort: a soak in which nothing can be judged fails.
func TestTooShort(t *testing.T) {
	all := quiet()
	for life, s := range all {
		n := min(5, len(s.at))
		all[life] = series{s.at[:n], s.values[:n]}
	}
	if got := failuresOf(all); strings.Count(got, "soak for longer") != len(quantities) {
		t.Errorf("five samples are judged: %q", got)
	}
	if got := failuresOf(nil); strings.Count(got, "soak for longer") != len(quantities) {
		t.Errorf("no samples are judged: %q", got)
	}
}

// TestMissingSamples: a soak fails where an instance has no life that was judged, or where samples
// of one that is never restarted, or of the topics, are missing for more than a tenth of the run.
func TestMissingSamples(t *testing.T) {
	topics := len(quantities) - len(shown)
	for name, plant := range map[string]struct {
		keep  func(life lifeOf, at float64) bool
		want  string
		count int
	}{
		"two instances without samples": {
			func(life lifeOf, _ float64) bool {
				return life.who != "instance-1" && life.who != "instance-2"
			}, " of instance-1, instance-2: no life has samples enough", len(shown),
		},
		"a restarted instance that is too short": {
			func(life lifeOf, at float64) bool { return life.who != "instance-3" || at < 40 },
			" of instance-3: no life has samples enough", len(shown),
		},
		"half a run of the first instance": {
			func(life lifeOf, at float64) bool { return life.who != "instance-1" || at < 3600 },
			" of instance-1: its longest life has samples of 59m40s of 2h0m0s", len(shown),
		},
		"a pause of half an hour of the first instance": {
			func(life lifeOf, at float64) bool {
				return life.who != "instance-1" || at < 3600 || at > 5400
			}, " of instance-1: its longest life has samples of 1h29m30s of 2h0m0s", len(shown),
		},
		"half a run of the topics": {
			func(life lifeOf, at float64) bool { return life.who != topicsName || at < 3600 },
			" of topics: its longest life", topics,
		},
		"no topics": {
			func(life lifeOf, _ float64) bool { return life.who != topicsName },
			" of topics: no life has samples enough", topics,
		},
	} {
		all := map[lifeOf]series{}
		for life, s := range quiet() {
			var kept series
			for i, at := range s.at {
				if plant.keep(life, at) {
					kept.at, kept.values = append(kept.at, at), append(kept.values, s.values[i])
				}
			}
			if len(kept.at) > 0 {
				all[life] = kept
			}
		}
		got := failuresOf(all)
		if strings.Count(got, plant.want) != plant.count ||
			strings.Count(got, "\n") != plant.count-1 {
			t.Errorf("%s: want %d failures with %q, got:\n%s", name, plant.count, plant.want, got)
		}
	}
	// One that is alone is restarted, so it has no life as long as the run.
	all := quiet()
	maps.DeleteFunc(all, func(life lifeOf, _ series) bool {
		return life.who == "instance-1" || life.who == "instance-3"
	})
	for _, f := range judge(all, []string{"instance-2"}, 2*time.Hour) {
		if len(f.failures) > 0 {
			t.Errorf("an instance that is alone: %s", f.failures)
		}
	}
}

// TestSoakIsInterrupted: the samples of a soak that ends with an error are written too.
func TestSoakIsInterrupted(t *testing.T) {
	asked := make(chan struct{})
	var second sync.Once
	serve := func(then func()) *supervised {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, metricsText)
			then()
		}))
		t.Cleanup(server.Close)
		return &supervised{listen: server.Listener.Addr().String(), starts: 1}
	}
	client, err := newClient([]string{"127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p := &sampler{
		settings: settings{
			Every: 30 * time.Millisecond, Duration: time.Hour, Records: 3600, Nodes: 1,
			Partitions: 1, out: t.TempDir(),
		},
		client: client, witness: &witness{},
		// The first one has its sample when the second one is asked.
		instances: []*supervised{
			serve(func() {}), serve(func() { second.Do(func() { close(asked) }) }),
		},
	}
	planted := errors.New("planted")
	err = p.during(t.Context(), func(context.Context) error {
		<-asked
		return planted
	})
	if !errors.Is(err, planted) {
		t.Errorf("it ends with %v", err)
	}
	text, err := os.ReadFile(filepath.Join(p.out, "soak.csv"))
	if err != nil || !bytes.Contains(text, []byte(",,1,69000000,31,74,4096,,\n")) {
		t.Errorf("%v\n%s", err, text)
	}
}

const metricsText = "# HELP go_goroutines Number.\ngo_goroutines 74\nprocess_open_fds 31\n" +
	"process_resident_memory_bytes 6.9e+07\ngeodither_state_bytes 4096\n" +
	"geodither_lag_records{partition=\"1\"} 3\n"
