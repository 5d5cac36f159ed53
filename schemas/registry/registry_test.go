package registry

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/geodither/geodither/schemas"
)

// fake starts a registry, and returns a client of it that does not wait.
func fake(t *testing.T, options ...srfake.Option) (*srfake.Registry, *Client) {
	t.Helper()
	f := srfake.New(options...)
	t.Cleanup(f.Close)
	return f, clientOf(t, Options{URL: f.URL()})
}

func clientOf(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	now, waited := c.now, time.Duration(0)
	c.now = func() time.Time { return now().Add(waited) }
	c.after = func(d time.Duration) <-chan time.Time {
		waited += d
		ch := make(chan time.Time, 1)
		ch <- time.Time{}
		return ch
	}
	return c
}

// answering is a server that gives every question one answer, and counts.
func answering(t *testing.T, status int, body string) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func reasonOf(err error) schemas.Reason {
	r, ok := errors.AsType[*schemas.Rejection](err)
	if !ok {
		return ""
	}
	return r.Reason
}

// framed returns a value in the framing of an id.
func framed(id uint32, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, id), body...)
}

func TestSubjects(t *testing.T) {
	f, c := fake(t)
	ctx, subject := t.Context(), Subject("fleet.sanitized")
	if subject != "fleet.sanitized-value" {
		t.Fatal(subject)
	}
	if _, err := c.Find(ctx, subject, schemas.SanitizedSchema()); !errors.Is(err, ErrMissing) ||
		!strings.Contains(err.Error(), subject) {
		t.Errorf("without a subject: %v", err)
	}
	// Registries differ in whether they refuse the question or take the schema.
	if ok, _, err := c.Compatible(ctx, subject, schemas.SanitizedSchema()); !ok &&
		!errors.Is(err, ErrMissing) {
		t.Errorf("without a subject: %v", err)
	}
	first, err := c.Register(ctx, subject, schemas.SanitizedSchema())
	if err != nil || first.ID == 0 || first.Version != 1 {
		t.Fatalf("registered as %+v, %v", first, err)
	}
	again, err := c.Register(ctx, subject, schemas.SanitizedSchema())
	if err != nil || again != first {
		t.Errorf("registered again as %+v, %v", again, err)
	}
	found, err := c.Find(ctx, subject, schemas.SanitizedSchema())
	if err != nil || found != first {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := c.Find(ctx, subject, schemas.RawSchema()); !errors.Is(err, ErrMissing) {
		t.Errorf("another schema: %v", err)
	}
	if ok, _, err := c.Compatible(ctx, subject, schemas.SanitizedSchema()); err != nil || !ok {
		t.Errorf("the same schema is compatible: %t, %v", ok, err)
	}
	if !f.SubjectExists(subject) {
		t.Error("the registry has no subject")
	}
}

// TestIncompatible: both dialects of the reasons are read.
func TestIncompatible(t *testing.T) {
	for dialect, body := range map[string]string{
		"Confluent": `{"is_compatible":false,"messages":["field zz is new"]}`,
		"Apicurio":  `{"is_compatible":false,"reason":"field zz is new"}`,
	} {
		url, _ := answering(t, http.StatusOK, body)
		ok, words, err := clientOf(t, Options{URL: url}).Compatible(t.Context(), "s", "{}")
		if ok || err != nil || len(words) != 1 || words[0] != "field zz is new" {
			t.Errorf("%s: %t, %q, %v", dialect, ok, words, err)
		}
	}
	url, _ := answering(t, http.StatusConflict, `{"error_code":409,"message":"field zz is new"}`)
	_, err := clientOf(t, Options{URL: url}).Register(t.Context(), "s", "{}")
	if err == nil || !strings.Contains(err.Error(), "not compatible") ||
		!strings.Contains(err.Error(), "zz") || IsAway(err) {
		t.Errorf("a conflict: %v", err)
	}
}

// TestErrors: each trouble has its words, and only what passes by itself counts as away.
func TestErrors(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	secured := httptest.NewUnstartedServer(nil)
	secured.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	secured.StartTLS()
	defer secured.Close()
	for _, test := range []struct {
		name   string
		status int
		body   string
		url    string
		want   string
		away   bool
	}{
		{"gone", 0, "", gone.URL, "does not answer", true},
		{"another certificate", 0, "", secured.URL, "registry.tls.ca_file", false},
		{"401", 401, `{"error_code":40101}`, "", "registry.basic_auth", false},
		{"403", 403, "", "", "right to read", false},
		{"404 of a proxy", 404, "<html>", "", "is registry.url right?", false},
		{"a web page", 200, "<html>", "", "is registry.url right?", false},
		{"another JSON", 200, `[1]`, "", "is registry.url right?", false},
		{"422", 422, `{"error_code":42201,"message":"bad schema"}`, "", "bad schema", false},
		{"429", 429, "", "", "has trouble", true},
		{"500", 500, "", "", "has trouble", true},
		{"503", 503, "<html>", "", "has trouble", true},
	} {
		if test.url == "" {
			test.url, _ = answering(t, test.status, test.body)
		}
		c := clientOf(t, Options{URL: test.url})
		_, found := c.Find(t.Context(), "s", "{}")
		r, err := NewReader(c)
		if err != nil {
			t.Fatal(err)
		}
		_, read := r.Raw(framed(7, []byte("body")))
		_, tree := c.Tree(t.Context(), framed(7, []byte("body")), nil)
		for what, err := range map[string]error{
			"find": found, "tree": tree, "read": read,
		} {
			if err == nil || !strings.Contains(err.Error(), test.want) || IsAway(err) != test.away {
				t.Errorf("%s, %s: %v, away %t", test.name, what, err, IsAway(err))
			}
			if isRejection(err) || errors.Is(err, ErrMissing) {
				t.Errorf("%s, %s: the registry's trouble became the record's", test.name, what)
			}
		}
	}
}

// TestLogin: a login is made for each request, and an error of it is no outage.
func TestLogin(t *testing.T) {
	f := srfake.New(srfake.WithAuth("Bearer letmein"))
	defer f.Close()
	token := "letmein"
	c := clientOf(t, Options{URL: f.URL(), Authorize: func(r *http.Request) error {
		if token == "" {
			return errors.New("token file is empty")
		}
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}})
	if _, err := c.Register(t.Context(), "s", schemas.RawSchema()); err != nil {
		t.Fatal(err)
	}
	token = "wrong"
	_, err := c.Find(t.Context(), "s", schemas.RawSchema())
	if err == nil || !strings.Contains(err.Error(), "does not permit this") ||
		strings.Contains(err.Error(), token) {
		t.Errorf("with a wrong token: %v", err)
	}
	token = ""
	_, err = c.Find(t.Context(), "s", schemas.RawSchema())
	if err == nil || !strings.Contains(err.Error(), "token file is empty") || IsAway(err) {
		t.Errorf("without a token: %v", err)
	}
}

// TestCache: a schema is asked for once. That one is not there is believed for seconds, and only
// after it was missing for a while.
func TestCache(t *testing.T) {
	f, c := fake(t)
	var asked atomic.Int64
	f.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/schemas/ids/") {
			asked.Add(1)
		}
		return false
	})
	now := time.Unix(0, 0)
	c.now = func() time.Time { return now }
	c = c.NoWait()
	expect := func(what string, requests int64, err error, want schemas.Reason) {
		t.Helper()
		if n := asked.Swap(0); n != requests || reasonOf(err) != want {
			t.Errorf("%s: %d requests and %v, want %d and %q", what, n, err, requests, want)
		}
	}
	id, _, err := f.RegisterSchema("s", sr.Schema{Schema: schemas.RawSchema()})
	if err != nil {
		t.Fatal(err)
	}
	for i, requests := range []int64{1, 0, 0} {
		_, err := c.Tree(t.Context(), framed(uint32(id), nil), nil)
		expect("a schema", requests, err, schemas.ReasonMalformed)
		if i == 1 {
			now = now.Add(24 * time.Hour)
		}
	}
	r, err := NewReader(c)
	if err != nil {
		t.Fatal(err)
	}
	missing := framed(99, []byte("body"))
	for _, pause := range []time.Duration{0, time.Second, believed - 2*time.Second} {
		now = now.Add(pause)
		_, err = r.Raw(missing)
		if expect("missing for now", 1, err, ""); !IsAway(err) {
			t.Errorf("missing for now: %v", err)
		}
	}
	now = now.Add(time.Second)
	_, err = r.Raw(missing)
	expect("no schema", 1, err, schemas.ReasonUnknownSchemaID)
	_, err = r.Raw(missing)
	expect("still none", 0, err, schemas.ReasonUnknownSchemaID)
	now = now.Add(unknownFor)
	_, err = r.Raw(missing)
	expect("asked later", 1, err, schemas.ReasonUnknownSchemaID)
	if unknownFor > 10*time.Second {
		t.Errorf("a new schema is not seen for %v", unknownFor)
	}
	f.SeedSchema("s", 2, 99, sr.Schema{Schema: schemas.RawSchema()})
	now = now.Add(unknownFor)
	_, err = r.Raw(missing)
	expect("there at last", 1, err, schemas.ReasonMalformed)
}

// TestLateSchema: a registry that follows another one learns of a schema after the first question.
func TestLateSchema(t *testing.T) {
	f, c := fake(t)
	after := c.after
	looks := 0
	c.after = func(d time.Duration) <-chan time.Time {
		if looks++; looks == 5 {
			f.SeedSchema("s", 1, 5, sr.Schema{Schema: schemas.RawSchema()})
		}
		return after(d)
	}
	r, err := NewReader(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Raw(framed(5, nil)); reasonOf(err) != schemas.ReasonMalformed {
		t.Errorf("the schema was not found the sixth time: %v", err)
	}
}

// TestWaitEnds: who waits for an answer does not outlive its context.
func TestWaitEnds(t *testing.T) {
	_, c := fake(t)
	<-c.turn // somebody asks forever
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Tree(ctx, framed(5, nil), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait ends with %v", err)
	}
}

// TestLongAnswer: an endless answer ends.
func TestLongAnswer(t *testing.T) {
	url, _ := answering(t, 200, `{"schema":"`+strings.Repeat("x", maxAnswerBytes)+`"}`)
	_, err := clientOf(t, Options{URL: url}).Tree(t.Context(), framed(5, nil), nil)
	if err == nil || isRejection(err) {
		t.Errorf("an answer that is too long: %v", err)
	}
}

// TestPublishedSchemasAreSound: the library that reads others' schemas reads ours, and has the same
// fingerprints as our codecs write.
func TestPublishedSchemasAreSound(t *testing.T) {
	codec, err := schemas.NewCodec(schemas.Avro)
	if err != nil {
		t.Fatal(err)
	}
	value, err := codec.AppendSanitized(nil, schemas.Sanitized{
		UserID: "u", Latitude: 53.5, Longitude: -2.9, Kind: schemas.KindReleased,
		ReleaseLatitude: schemas.Some(53.25), ReleaseLongitude: schemas.Some(-2.5),
	})
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	schema := avro.MustParse(schemas.SanitizedSchema())
	if rest, err := schema.DecodeSingleObject(value, &record); err != nil || len(rest) > 0 ||
		record["latitude"] != 53.5 || record["release_latitude"] != 53.25 ||
		record["azimuth_deg"] != nil {
		t.Errorf("it is read as %v, %v", record, err)
	}
	if !json.Valid([]byte(schemas.DeadLetterSchema())) {
		t.Error("the schema of dead letters is not JSON")
	}
}

// TestNoGUIDs: a server that does not know the question for a GUID, in whatever words, is waited
// for a minute, as something on the way may have answered. After that the error is final, and says
// what to do. A registry that knows the question and lacks the schema is another matter.
func TestNoGUIDs(t *testing.T) {
	value := append([]byte{1}, make([]byte, 40)...)
	for name, c := range map[string]struct {
		status  int
		body    string
		noGUIDs bool
	}{
		"a page":         {http.StatusNotFound, "<html>", true},
		"Jersey's words": {http.StatusNotFound, `{"error_code":404,"message":"HTTP 404"}`, true},
		"no such method": {http.StatusMethodNotAllowed, `{"error_code":405,"message":"-"}`, true},
		"no such schema": {http.StatusNotFound, `{"error_code":40403,"message":"none"}`, false},
	} {
		url, _ := answering(t, c.status, c.body)
		client := clientOf(t, Options{URL: url}).NoWait()
		now := time.Now()
		client.now = func() time.Time { return now }
		r, err := NewReader(client)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Raw(value)
		if err == nil || HasNoGUIDs(err) || c.noGUIDs && !strings.Contains(err.Error(),
			"cannot be asked for a schema by its GUID") {
			t.Errorf("%s, at first: %v", name, err)
		}
		now = now.Add(believed)
		_, err = r.Raw(value)
		if HasNoGUIDs(err) != c.noGUIDs {
			t.Errorf("%s, after a minute: %v", name, err)
		}
		if !c.noGUIDs && reasonOf(err) != schemas.ReasonUnknownSchemaID {
			t.Errorf("%s, after a minute: %v", name, err)
		}
	}
}

func isRejection(err error) bool {
	_, ok := errors.AsType[*schemas.Rejection](err)
	return ok
}
