package service

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/task"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// TestOptionsValidate: each bad setting is named, in the words of the config
// file, and all of them at once.
func TestOptionsValidate(t *testing.T) {
	model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	good := testOptions(t, model)
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		change func(*Options)
		want   string // in the error; the start of its only line
	}{
		"no brokers": {func(o *Options) { o.Brokers = nil }, "brokers: name at least one"},
		"comma in a broker": {
			func(o *Options) { o.Brokers = []string{"a:1,b:1"} },
			`brokers: "a:1,b:1": it has a comma`,
		},
		"empty broker": {
			func(o *Options) { o.Brokers = []string{"a:1", ""} }, `brokers: "": it is empty`,
		},
		"no group":           {func(o *Options) { o.Group = "" }, "group: "},
		"no raw topic":       {func(o *Options) { o.Topics.Raw = "" }, "topics.raw: "},
		"no sanitized topic": {func(o *Options) { o.Topics.Sanitized = "" }, "topics.sanitized: "},
		"output is input": {
			func(o *Options) { o.Topics.Sanitized = "raw" },
			`topics.sanitized: "raw" is already topics.raw`,
		},
		"changelog is output": {
			func(o *Options) { o.Topics.Changelog = "sanitized" },
			`topics.changelog: "sanitized" is already`,
		},
		"default name taken": {
			func(o *Options) { o.Topics.Raw = "g-dead-letters" },
			`topics.dead_letters: "g-dead-letters" is already topics.raw`,
		},
		"partitions": {func(o *Options) { o.Topics.Partitions = -1 }, "topics: partitions"},
		"replication": {
			func(o *Options) { o.Topics.Replication = -1 }, "topics: partitions and replication",
		},
		"no model":  {func(o *Options) { o.Model = nil }, "model: "},
		"no key":    {func(o *Options) { o.Key = noise.Key{} }, "key_file: "},
		"no folder": {func(o *Options) { o.StateDir = "" }, "state_dir: "},
		"raw encoding": {
			func(o *Options) { o.RawEncoding = "xml" }, `encoding.raw: unknown encoding "xml"`,
		},
		"sanitized encoding": {
			func(o *Options) { o.SanitizedEncoding = "xml" },
			`encoding.sanitized: unknown encoding "xml"`,
		},
		"max records": {func(o *Options) { o.MaxRecords = -1 }, "transaction.max_records: "},
		"max interval": {
			func(o *Options) { o.MaxInterval = -time.Second }, "transaction.max_interval: ",
		},
		"tiny max interval": {
			func(o *Options) { o.MaxInterval = time.Microsecond }, "transaction.max_interval: ",
		},
		"timeout": {func(o *Options) { o.TransactionTimeout = -1 }, "transaction.timeout: "},
		"session": {
			func(o *Options) { o.SessionTimeout = time.Millisecond }, "session_timeout: ",
		},
		"ahead": {func(o *Options) { o.MaxAhead = -1 }, "max_ahead: "},
		"outside": {
			func(o *Options) { o.Input.Outside = "keep" },
			`input: outside "keep" is unknown: choose dead_letter or clamp`,
		},
		"epsilon":   {func(o *Options) { o.Release.Epsilon = 0 }, "release: "},
		"delta":     {func(o *Options) { o.Release.Delta = 1 }, "release: "},
		"mechanism": {func(o *Options) { o.Release.Mechanism = "none" }, "release: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := good
			c.change(&o)
			err := o.Validate()
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %q, want one line that begins with %q", err, c.want)
			}
			if _, err := New(o); err == nil {
				t.Error("New takes it")
			}
		})
	}
	var none Options
	err := none.Validate()
	if err == nil {
		t.Fatal("the zero Options are accepted")
	}
	for _, name := range []string{
		"brokers", "group", "topics.raw", "topics.sanitized", "model", "key_file", "state_dir",
		"release",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+name+": ") {
			t.Errorf("%s is not named as missing:\n%v", name, err)
		}
	}
}

// TestOptionsDefaults pins what an operator gets who says nothing.
func TestOptionsDefaults(t *testing.T) {
	o := Options{Cluster: topics.Cluster{Group: "fleet"}}.WithDefaults()
	if o.Topics.Changelog != "fleet-changelog" || o.Topics.DeadLetters != "fleet-dead-letters" ||
		o.Topics.Partitions != 0 || o.Topics.Replication != 0 {
		t.Errorf("topics %+v", o.Topics)
	}
	if o.MaxRecords != 5000 || o.MaxInterval != 100*time.Millisecond ||
		o.TransactionTimeout != 15*time.Second ||
		o.SessionTimeout != 10*time.Second || o.MaxAhead != 2*time.Minute ||
		o.CacheBytes != 64<<20 {
		t.Errorf("sizes and times %d %v %v %v %v %d", o.MaxRecords, o.MaxInterval,
			o.TransactionTimeout, o.SessionTimeout, o.MaxAhead, o.CacheBytes)
	}
	if o.RawEncoding != "avro" || o.SanitizedEncoding != "avro" || o.Logger == nil ||
		o.Counters == nil {
		t.Error("encodings, logger or counters are missing")
	}
	if static := (Options{
		InstanceID: "a",
	}).WithDefaults(); static.SessionTimeout != 45*time.Second {
		t.Errorf("a static member's session lasts %v", static.SessionTimeout)
	}
	kept := Options{
		MaxRecords: 7, Cluster: topics.Cluster{Topics: topics.Set{Changelog: "mine"}},
	}.WithDefaults()
	if kept.MaxRecords != 7 || kept.Topics.Changelog != "mine" {
		t.Error("a setting is overwritten by its default")
	}
}

// TestModelTooLarge: a model whose new users' states fit into no record is
// refused at the start, not at the first fix.
func TestModelTooLarge(t *testing.T) {
	o := Options{Settings: engine.Settings{
		Model: &mobility.Model{Initial: mobility.Distribution{Cells: make([]int32, 200_000)}},
	}}
	if err := o.Validate(); !strings.Contains(err.Error(), "take larger cells") {
		t.Errorf("got %v", err)
	}
	o.MaxBatchBytes = 4 << 20
	if err := o.Validate(); strings.Contains(err.Error(), "take larger cells") {
		t.Errorf("with larger batches: %v", err)
	}
}

// TestNextWait: a partition that is lost again and again is left alone for
// longer each time, and from the first pause after it has run well.
func TestNextWait(t *testing.T) {
	s := new(Service)
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := s.nextWait(1, time.Second); got != want*time.Second {
			t.Errorf("loss %d waits %v, want %v", i+1, got, want*time.Second)
		}
	}
	if got := s.nextWait(2, time.Second); got != time.Second {
		t.Errorf("another partition waits %v", got)
	}
	if got := s.nextWait(1, time.Hour); got != time.Second {
		t.Errorf("after an hour's work it waits %v", got)
	}
}

// TestModelStep: a step that is no whole number of milliseconds has no place in
// the records' time.
func TestModelStep(t *testing.T) {
	for _, step := range []time.Duration{
		1500 * time.Microsecond, time.Microsecond, time.Second + 1,
	} {
		model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
		model.Step = step
		if _, err := New(testOptions(t, model)); err == nil ||
			!strings.Contains(err.Error(), "milliseconds") {
			t.Errorf("a step of %v: %v", step, err)
		}
	}
}

// TestPlumbing: what is no part of the settings decides where, when and in how large pieces, and
// not what. Each field of the options has to be named here, so that none is added without a
// thought of whether it changes bytes: then it is a setting.
func TestPlumbing(t *testing.T) {
	plumbing := map[string]bool{
		"Settings": true, "Cluster": true, // their fields are theirs
		"StateDir": true, "CacheBytes": true, "MaxRecords": true,
		"MaxInterval": true, "MaxBatchBytes": true, "SessionTimeout": true,
		"SkipLost": true, "Logger": true, "Counters": true, "Board": true,
		"InstanceID": true, "AcceptSettings": true, "AcceptLost": true, "AcceptRefused": true,
		"Windows": true, // of a replay, whose marks carry the windows' own settings
	}
	for i := range reflect.TypeFor[Options]().NumField() {
		if name := reflect.TypeFor[Options]().Field(i).Name; !plumbing[name] {
			t.Errorf("does %s change bytes? Name it in this test, or make it one of Settings", name)
		}
	}
	place := []string{"Brokers", "Connection", "Group", "Topics", "TransactionTimeout"}
	for i := range reflect.TypeFor[topics.Cluster]().NumField() {
		if name := reflect.TypeFor[topics.Cluster]().Field(i).Name; !slices.Contains(place, name) {
			t.Errorf("does %s of a cluster change bytes?", name)
		}
	}
	model := servicetest.NeighbourModel(t, servicetest.Town, 5000, 4)
	base := testOptions(t, model)
	moved := Options{
		Cluster: topics.Cluster{
			Brokers: []string{"elsewhere:1"}, Group: "another",
			Topics: topics.Set{
				Raw: "a", Sanitized: "b", Changelog: "c", DeadLetters: "d", Partitions: 9,
			},
			TransactionTimeout: time.Hour,
		},
		Settings: engine.Settings{
			Model: base.Model, Key: base.Key, Release: base.Release,
			Later: []*engine.Version{newVersion(t, 10, model)}, // marks have the list
		},
		StateDir: "elsewhere", CacheBytes: 1, MaxRecords: 1, MaxInterval: time.Second,
		MaxBatchBytes: 1 << 21, SessionTimeout: time.Hour, SkipLost: true,
	}
	if !bytes.Equal(base.Fingerprint(), moved.Fingerprint()) {
		t.Error("the plumbing changes the fingerprint")
	}
}

// TestOldSettingsAreNamed: the last owner ended in the middle under other settings. The
// error names them.
func TestOldSettingsAreNamed(t *testing.T) {
	o := testOptions(t, servicetest.NeighbourModel(t, servicetest.Town, 5000, 4))
	before := o
	before.Publish.User = engine.UserPseudonym
	own := &sanitizing{Settings: o.Settings}
	err := named(own, task.WithRemedy(
		&task.SettingsError{Found: before.Fingerprint(), Own: o.Fingerprint(), Input: 7},
		task.Fatal))
	if !errors.Is(err, task.ErrSettings) || task.RemedyOf(err) != task.Fatal ||
		!strings.Contains(err.Error(), "What differs: publish.user") {
		t.Errorf("the error is %v (%v)", err, task.RemedyOf(err))
	}
	if other := errors.New("other"); !errors.Is(named(own, other), other) ||
		named(own, other).Error() != "other" {
		t.Error("another error has changed")
	}
}

// TestStartOver: the error of a service that counts has what its cause says of the loss, and none
// of the ways out of a service that sanitizes.
func TestStartOver(t *testing.T) {
	for want, cause := range map[string]error{
		"partition 3: " + task.ErrInputLost.Error() + ": the group is at 5": fmt.Errorf(
			"partition 3: %w: the group is at 5 (input-lost)", task.ErrInputLost),
		task.ErrSettings.Error() + " (01, now 03), perhaps in a transaction beyond offset 3": &task.
			SettingsError{Found: []byte{1}, Own: []byte{3}, Input: 3},
		task.ErrSource.Error() + ": its id is 02, and 01 at offset 4": task.CheckSource(
			task.Mark{Source: []byte{1}, Input: 4}, []byte{2}),
		task.ErrLost.Error() + ": c is empty, but ": &account.LostError{Changelog: "c"},
	} {
		err := &startOver{"it is lost", cause}
		want = "it is lost (" + want + "). Stop all instances, and start with another group"
		if got := err.Error(); !strings.HasPrefix(got, want) || strings.Contains(got, "--accept") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
