// Package registry asks a schema registry that speaks Confluent's REST API (Confluent, Karapace,
// Apicurio's /apis/ccompat/v7, Redpanda): for the schemas that others have written raw records
// with, and for the numbers of the schemas that geodither writes.
//
// A [Client] asks and remembers, and decodes values into trees of plain Go values; it is safe for
// concurrent use. A [Reader] decodes values of schemas with our names into a [schemas.Raw].
//
// A registry that does not answer is an error for which [IsAway] holds: wait and ask again. So is
// one that has no schema of a number for less than a minute, since it may follow another one that
// has it. A record is refused, with a [schemas.Rejection], only for what asking again cannot
// change.
package registry

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/geodither/geodither/schemas"
)

// Options say which registry to ask, and how.
type Options struct {
	URL string // such as https://registry:8081, with the path of the API if it has one
	// HTTP sends the requests; nil: a client of its own. Its timeout bounds each.
	HTTP *http.Client
	// Authorize adds a login to each request; nil: none.
	Authorize func(*http.Request) error
}

// unknownFor is how long the registry's answer that it has no schema of a number is cached, once
// that answer counts (see believed). A schema that the registry has never changes.
const unknownFor = 5 * time.Second

// timeout bounds a request.
const timeout = 10 * time.Second

// cached bounds how many schemas are remembered.
const cached = 1000

// Client asks one registry. It is safe for concurrent use, and asks for one schema at a time.
type Client struct {
	url     string
	sr      *sr.Client
	ttl     time.Duration
	now     func() time.Time
	after   func(time.Duration) <-chan time.Time
	again   time.Duration // between two questions for a schema that is not there
	waits   bool          // for a schema that is not there
	turn    chan struct{} // holds one element while nobody asks
	writers *lru.Cache[string, *answer]
}

// bounded cuts answers that are far longer than any schema.
type bounded struct{ http.RoundTripper }

const maxAnswerBytes = 8 << 20

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswerBytes), answer.Body}
	}
	return answer, err
}

// New returns a client. It connects to nothing.
func New(o Options) (*Client, error) {
	sender := http.Client{Timeout: timeout}
	if o.HTTP != nil {
		sender = *o.HTTP
	}
	sender.Transport = bounded{cmp.Or(sender.Transport, http.DefaultTransport)}
	options := []sr.ClientOpt{
		sr.URLs(o.URL), sr.HTTPClient(&sender), sr.UserAgent("geodither"),
	}
	if o.Authorize != nil {
		options = append(options, sr.PreReq(func(r *http.Request) error {
			if err := o.Authorize(r); err != nil {
				return fmt.Errorf("%w: %w", errLogin, err)
			}
			return nil
		}))
	}
	client, err := sr.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("registry.url: %w", err)
	}
	writers, err := lru.New[string, *answer](cached)
	if err != nil {
		return nil, err
	}
	c := &Client{
		url: o.URL, sr: client, ttl: unknownFor,
		now: time.Now, after: time.After, again: time.Second, waits: true,
		turn: make(chan struct{}, 1), writers: writers,
	}
	c.turn <- struct{}{}
	return c, nil
}

// NoWait returns the client for callers that must not wait long, and come again. Where it lacks a
// schema, it answers at once with an error for which IsAway holds, until the lack counts; other
// clients wait for that. Both remember together. nil gives nil.
func (c *Client) NoWait() *Client {
	if c == nil {
		return nil
	}
	hurried := *c
	hurried.waits = false
	return &hurried
}

// Registered is a schema in a registry.
type Registered struct {
	ID      uint32
	Version int // in its subject
}

// Subject returns the subject of a topic's values, by the registries' default strategy.
func Subject(topic string) string { return topic + "-value" }

// Find returns the number of an Avro schema in a subject. ErrMissing says that the subject does not
// have it.
func (c *Client) Find(ctx context.Context, subject, schema string) (Registered, error) {
	found, err := c.sr.LookupSchema(ctx, subject, sr.Schema{Schema: schema})
	return c.registered(subject, found, err)
}

// Register makes a schema a version of a subject, unless it is one already.
func (c *Client) Register(ctx context.Context, subject, schema string) (Registered, error) {
	_, err := c.sr.RegisterSchema(ctx, subject, sr.Schema{Schema: schema}, -1, -1)
	if err = explain(c.url, err); err == nil {
		return c.Find(ctx, subject, schema) // its answer has the version
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusConflict {
		err = fmt.Errorf("the schema is not compatible with subject %s: %w "+
			"(schemas-incompatible)", subject, err)
	}
	return Registered{}, err
}

func (c *Client) registered(
	subject string, found sr.SubjectSchema, err error,
) (Registered, error) {
	if err = explain(c.url, err); missing(err) {
		return Registered{}, fmt.Errorf("%w in subject %s", ErrMissing, subject)
	}
	if err == nil && !possible(int64(found.ID)) {
		err = &Error{url: c.url, Status: http.StatusOK, cause: errors.New("no schema id")}
	}
	return Registered{ID: uint32(found.ID), Version: found.Version}, err
}

// possible reports whether a registry may give a schema this number. They count in Java's int, and
// some answer a question for another number as one that is wrong, not as one for what is missing.
func possible(id int64) bool { return id > 0 && id <= math.MaxInt32 }

// Compatible reports whether a registry would take a schema as a version of a subject. If it would
// not, the words are the registry's. ErrMissing says that there is no such subject: it takes any.
func (c *Client) Compatible(
	ctx context.Context, subject, schema string,
) (ok bool, words []string, err error) {
	var got struct {
		Is       bool     `json:"is_compatible"`
		Messages []string `json:"messages"`
		Reason   string   `json:"reason"` // Apicurio's
	}
	path := "/compatibility/subjects/" + url.PathEscape(subject) + "/versions"
	err = c.sr.Do(sr.WithParams(ctx, sr.Verbose), http.MethodPost, path,
		sr.Schema{Schema: schema}, &got)
	if err = explain(c.url, err); missing(err) {
		return false, nil, fmt.Errorf("%w: there is no subject %s", ErrMissing, subject)
	}
	for _, m := range append(got.Messages, got.Reason) {
		if m != "" {
			words = append(words, shorten(m))
		}
	}
	return got.Is, words, err
}

// Tree decodes a value in the framing of a registry into map[string]any, []any, string, int64,
// float64, bool, []byte and nil; numbers of JSON and decimals are json.Number. A local-timestamp of
// Avro is text without a zone. Other logical types are not looked at: a timestamp-micros is an
// int64 of microseconds. named is the value of the header SchemaHeader, or nil. The errors are a
// *schemas.Rejection for a value that will never be a record, and others where the registry could
// not be asked.
func (c *Client) Tree(ctx context.Context, value, named []byte) (any, error) {
	if len(value) > schemas.MaxTreeBytes {
		return nil, reject(schemas.ReasonTooLarge)
	}
	w, body, err := c.writerOf(ctx, value, named)
	if err != nil {
		return nil, err
	}
	return w.tree(body)
}

// writerOf returns the writer of a value in the framing of a registry, and the body.
func (c *Client) writerOf(
	ctx context.Context, value, named []byte,
) (w *writer, body []byte, err error) {
	header := value
	if named != nil {
		header, body = named, value
	}
	key, ask := "", asking(nil)
	n := 0
	switch f := schemas.FramingOf(header); {
	case c == nil && f.OfRegistry():
		return nil, nil, reject(schemas.ReasonUnknownSchema)
	case f == schemas.FramingID:
		n = schemas.IDHeaderBytes
		id := binary.BigEndian.Uint32(header[1:])
		if !possible(int64(id)) {
			return nil, nil, reject(schemas.ReasonUnknownSchemaID)
		}
		key, ask = c.byID(id)
	case f == schemas.FramingGUID:
		n = schemas.GUIDHeaderBytes
		key, ask = c.byGUID([16]byte(header[1:]))
	case f == schemas.FramingGlue, f == schemas.FramingSingle:
		// The schemas of the one are with AWS alone, those of the other in no registry.
		return nil, nil, reject(schemas.ReasonUnknownSchema)
	default:
		return nil, nil, reject(schemas.ReasonMalformed)
	}
	switch {
	case named == nil:
		body = header[n:]
	case len(named) != n:
		return nil, nil, reject(schemas.ReasonMalformed)
	}
	w, err = c.find(ctx, key, ask)
	return w, body, err
}

// answer is what a registry has said of one schema.
type answer struct {
	writer *writer        // nil: it has none that is of use
	reason schemas.Reason // then why values are refused
	until  time.Time      // and for how long that is believed
	since  time.Time      // when it was first found missing, if it was
}

// find returns the writer of a schema, by its number or GUID. The error is a *schemas.Rejection if
// the registry surely has no such schema, or one that is of no use here.
func (c *Client) find(ctx context.Context, key string, ask asking) (*writer, error) {
	for {
		w, err := c.findOrMark(ctx, key, ask)
		if e, ok := errors.AsType[*Error](err); !ok || !e.lacks || !c.waits {
			return w, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.after(c.again):
		}
	}
}

// findOrMark is find, but a lack that does not count yet is marked in the *Error.
func (c *Client) findOrMark(ctx context.Context, key string, ask asking) (*writer, error) {
	if a, ok := c.writers.Get(key); ok && a.holds(c) {
		return a.result()
	}
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	before, ok := c.writers.Get(key)
	if ok && before.holds(c) {
		return before.result()
	}
	schema, err := ask(ctx)
	now := c.now()
	a := &answer{until: now.Add(c.ttl), since: now, reason: schemas.ReasonUnknownSchemaID}
	if ok && !before.since.IsZero() {
		a.since = before.since
	}
	e, isError := errors.AsType[*Error](err)
	switch counts := now.Sub(a.since) >= believed; {
	case missing(err) && !counts:
		a.until = time.Time{}
		c.writers.Add(key, a)
		return nil, c.lacks()
	case missing(err):
	case isError && e.noGUIDs:
		a.until, e.final = time.Time{}, counts
		c.writers.Add(key, a)
		return nil, err
	case err != nil:
		return nil, err
	default:
		a.since = time.Time{}
		if a.writer, err = c.parse(ctx, schema); err != nil {
			return nil, err
		}
		if a.reason = schemas.ReasonUnknownSchema; a.writer != nil {
			a.reason = ""
		}
	}
	c.writers.Add(key, a)
	return a.result()
}

// asking is a request for a schema. Its errors are those of explain.
type asking func(context.Context) (sr.Schema, error)

func (c *Client) byID(id uint32) (key string, ask asking) {
	return fmt.Sprint(id), func(ctx context.Context) (sr.Schema, error) {
		schema, err := c.sr.SchemaByID(ctx, int(id))
		return schema, explain(c.url, err)
	}
}

func (c *Client) byGUID(guid [16]byte) (key string, ask asking) {
	text := fmt.Sprintf("%x-%x-%x-%x-%x", guid[:4], guid[4:6], guid[6:8], guid[8:10], guid[10:])
	return text, func(ctx context.Context) (sr.Schema, error) {
		found, err := c.sr.SchemaByGUID(ctx, text)
		return found.Schema, withoutGUIDs(explain(c.url, err))
	}
}

func (a *answer) holds(c *Client) bool { return a.writer != nil || c.now().Before(a.until) }

func (a *answer) result() (*writer, error) {
	if a.reason != "" {
		return nil, &schemas.Rejection{Reason: a.reason}
	}
	return a.writer, nil
}

// maxReferences bounds how many other schemas a schema may be made of.
const maxReferences = 100

// parse makes the writer of a schema; nil if it is of no use here: of Protobuf, or not valid.
func (c *Client) parse(ctx context.Context, s sr.Schema) (*writer, error) {
	switch s.Type {
	case sr.TypeJSON:
		return &writer{unit: schemas.Milliseconds}, nil
	case sr.TypeAvro:
	default:
		return nil, nil
	}
	var known avro.SchemaCache
	left := maxReferences
	if ok, err := c.refer(ctx, &known, s.References, &left); !ok {
		return nil, err
	}
	return newWriter(&known, s.Schema), nil
}

// refer parses the schemas that a schema is made of, those that they are made of first. It returns
// false for ones that cannot be used.
func (c *Client) refer(
	ctx context.Context, known *avro.SchemaCache, references []sr.SchemaReference, left *int,
) (bool, error) {
	for _, r := range references {
		if *left--; *left < 0 {
			return false, nil
		}
		found, err := c.sr.SchemaByVersion(ctx, r.Subject, r.Version)
		switch err = explain(c.url, err); {
		case missing(err):
			// It was deleted: a registry with a schema has had those that it is made of.
			return false, nil
		case err != nil:
			return false, err
		}
		if ok, err := c.refer(ctx, known, found.References, left); !ok {
			return false, err
		}
		text, _, err := plain(found.Schema.Schema)
		if err != nil {
			return false, nil //nolint:nilerr // the schema is of no use
		}
		if _, err := known.Parse(text); err != nil {
			return false, nil //nolint:nilerr // the schema is of no use
		}
	}
	return true, nil
}

// lacks says that the registry has no schema of a number, which does not count yet.
func (c *Client) lacks() error {
	return &Error{
		url: c.url, Status: http.StatusNotFound, code: codeNoSchema, cause: ErrMissing, lacks: true,
	}
}
