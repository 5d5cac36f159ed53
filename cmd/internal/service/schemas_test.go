package service_test

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/geodither/geodither/cmd/internal/service"
	"github.com/geodither/geodither/cmd/internal/servicetest"
	"github.com/geodither/geodither/cmd/internal/servicetest/atwork"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/schemas"
	"github.com/geodither/geodither/schemas/registry"
)

// registered are options of a service that writes numbers of a registry's schemas.
func registered(t *testing.T, w *servicetest.World, group, url string) service.Options {
	t.Helper()
	o := atwork.Options(w, group)
	client, err := registry.New(registry.Options{URL: url})
	servicetest.OK(t, err)
	o.SanitizedEncoding, o.Registry = schemas.AvroRegistry, client
	servicetest.OK(t, topics.Create(t.Context(), w.Client, wire.Options{}, o.Topics))
	return o
}

// TestSchemaRegistry: a service waits for its registry, writes its numbers, and is verified without
// them. Another registry gives other numbers, and the settings are the same.
func TestSchemaRegistry(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	r := srfake.New()
	defer r.Close()
	r.SeedSchema("somebody", 1, 41, sr.Schema{Schema: schemas.RawSchema()})
	waits := 0
	r.Intercept(func(answer http.ResponseWriter, _ *http.Request) bool {
		if waits++; waits > 1 {
			return false
		}
		answer.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	o := registered(t, w, "registered", r.URL())
	before := o.Fingerprint()
	w.Feed(t)
	work := atwork.Start(t, o)
	servicetest.Await(t, "everything is processed",
		func() bool { return o.Counters.Snapshot().RecordsIn >= w.Fed }, work)
	work.Stop(t)
	if text := work.Log.String(); !strings.Contains(text, "waiting for the schema registry") ||
		!strings.Contains(text, "has trouble (HTTP status 503)") {
		t.Errorf("the log does not say what the service waits for:\n%s", text)
	}
	for topic, schema := range map[string]string{
		o.Topics.Sanitized:   schemas.SanitizedSchema(),
		o.Topics.DeadLetters: schemas.DeadLetterSchema(),
	} {
		found, err := o.Registry.Find(t.Context(), registry.Subject(topic), schema)
		servicetest.OK(t, err)
		records := w.Records(t, topic)
		if topic == o.Topics.Sanitized && len(records) == 0 {
			t.Error("nothing was published")
		}
		for _, r := range records {
			if r.Value[0] != 0 || binary.BigEndian.Uint32(r.Value[1:]) != found.ID {
				t.Errorf("%s: %x does not begin with the number %d", topic, r.Value[:5], found.ID)
			}
		}
	}
	if report := atwork.Verify(t, o); !report.Verified {
		t.Errorf("not verified: %+v", report)
	}
	o.SchemaIDs = schemas.IDs{Sanitized: 5, DeadLetter: 6}
	if !bytes.Equal(o.Fingerprint(), before) {
		t.Error("the numbers are in the fingerprint")
	}
}

// refusingSchemas starts a registry that answers with a status where versions of a schema are
// registered or listed.
func refusingSchemas(t *testing.T, status int) *srfake.Registry {
	t.Helper()
	r := srfake.New()
	t.Cleanup(r.Close)
	r.Intercept(func(answer http.ResponseWriter, request *http.Request) bool {
		refused := strings.HasSuffix(request.URL.Path, "/versions")
		if refused {
			answer.WriteHeader(status)
		}
		return refused
	})
	return r
}

// TestSchemaMissing: a service that may not register stops before it reads anything, and says what
// to run.
func TestSchemaMissing(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	r := refusingSchemas(t, http.StatusForbidden)
	o := registered(t, w, "unregistered", r.URL())
	s, err := service.New(o)
	servicetest.OK(t, err)
	err = s.Run(t.Context())
	// No transaction outlasts a minute's wait for a schema.
	_, missing := s.Registry().Tree(t.Context(), []byte{0, 0, 0, 0, 99}, nil)
	if !registry.IsAway(missing) {
		t.Errorf("a record whose schema is missing: %v", missing)
	}
	if err == nil || !strings.Contains(err.Error(), "does not permit this (403)") ||
		!strings.Contains(err.Error(), "(schemas-missing)") {
		t.Errorf("the service ends with %v", err)
	}
	if n := o.Counters.Snapshot().RecordsIn; n != 0 {
		t.Errorf("%d records were read", n)
	}
	o.Registry = nil
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "set registry.url") {
		t.Errorf("without a registry: %v", err)
	}
}

// TestSchemaIncompatible: a subject that does not take the schema needs another topic, and no other
// user.
func TestSchemaIncompatible(t *testing.T) {
	w := servicetest.NewWorld(t, 6)
	r := refusingSchemas(t, http.StatusConflict)
	s, err := service.New(registered(t, w, "incompatible", r.URL()))
	servicetest.OK(t, err)
	err = s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "(schemas-incompatible)") ||
		strings.Contains(err.Error(), "(schemas-missing)") {
		t.Errorf("the service ends with %v", err)
	}
}
