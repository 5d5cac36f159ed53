// Package registry asks a schema registry that speaks Confluent's REST API (Confluent, Karapace,
// Apicurio's /apis/ccompat/v7, Redpanda): for the schemas that others have written raw records
// with, and for the numbers of the schemas that geodither writes.
//
// A [Client] asks and remembers; it is safe for concurrent use. A [Reader] decodes values of all
// framings of raw records, into a [schemas.Raw] or into a tree of plain Go values.
//
// A registry that does not answer is an error for which [IsAway] holds: wait and ask again. A
// record is refused, with a [schemas.Rejection], only for what asking again cannot change.
package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
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
	// CacheDuration is for how long a registry's word that it has no schema is believed; default
	// DefaultCacheDuration. A schema that it has never changes.
	CacheDuration time.Duration
}

// DefaultCacheDuration is what Options.CacheDuration is by default.
const DefaultCacheDuration = 10 * time.Minute

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
	again   time.Duration // between the two times that it asks for a schema that is not there
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

// answer is what a registry has said of one schema.
type answer struct {
	writer *writer        // nil: it has none that is of use
	reason schemas.Reason // then why values are refused
	until  time.Time      // and for how long that is believed
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
		url: o.URL, sr: client, ttl: cmp.Or(o.CacheDuration, DefaultCacheDuration),
		now: time.Now, after: time.After, again: time.Second, turn: make(chan struct{}, 1), writers: writers,
	}
	c.turn <- struct{}{}
	return c, nil
}

// Error is a registry's refusal, or its silence.
type Error struct {
	url    string
	Status int // of HTTP; 0: there was no answer
	code   int // of the registry
	cause  error
}

// Codes of Confluent's API.
const (
	codeNoSubject = 40401
	codeNoVersion = 40402
	codeNoSchema  = 40403
)

// Error says what happened and what to do.
func (e *Error) Error() string {
	switch {
	case e.Status == 0 && e.untrusted():
		return fmt.Sprintf("the certificate of the schema registry %s is not trusted; "+
			"registry.tls.ca_file names who signs it: %v", e.url, e.cause)
	case e.Status == 0:
		return fmt.Sprintf("the schema registry %s does not answer: %v", e.url, e.cause)
	case e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the schema registry %s refuses the login (401): check "+
			"registry.basic_auth or registry.bearer_token_file", e.url)
	case e.Status == http.StatusForbidden:
		return fmt.Sprintf("the schema registry %s does not permit this (403): the login needs "+
			"the right to read schemas and subjects, and to write with auto_register or "+
			"schemas register", e.url)
	case e.Status == http.StatusNotFound && e.code == 0 || e.Status == http.StatusOK:
		return fmt.Sprintf("%s does not answer like a schema registry (HTTP status %d): is "+
			"registry.url right? Apicurio's ends with /apis/ccompat/v7", e.url, e.Status)
	case e.away():
		return fmt.Sprintf("the schema registry %s has trouble (HTTP status %d)", e.url, e.Status)
	}
	return fmt.Sprintf("the schema registry %s refuses (HTTP status %d): %v", e.url, e.Status,
		e.cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// away reports whether asking again can help without anybody's doing.
func (e *Error) away() bool {
	return e.Status == 0 && !e.untrusted() || e.Status >= http.StatusInternalServerError ||
		e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
}

func (e *Error) untrusted() bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](e.cause)
	return ok
}

// IsAway reports whether an error says that a registry does not answer for now.
func IsAway(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.away()
}

// ErrMissing says that a subject does not have a schema, or that there is no such subject.
var ErrMissing = errors.New("the schema is not registered")

// errLogin marks that a request was not sent for want of a login.
var errLogin = errors.New("no login for the schema registry")

// explain returns what a request has come to as an *Error, or as what has kept it from being sent.
func (c *Client) explain(err error) error {
	if err == nil || errors.Is(err, errLogin) {
		return err
	}
	e := &Error{url: c.url, cause: err}
	refused, isRefusal := errors.AsType[*sr.ResponseError](err)
	_, isSyntax := errors.AsType[*json.SyntaxError](err)
	_, isType := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case isRefusal:
		e.Status, e.code = refused.StatusCode, refused.ErrorCode
		e.cause = errors.New(shorten(refused.Message))
	case isSyntax || isType:
		e.Status = http.StatusOK
	default:
		if inner, ok := errors.AsType[*url.Error](err); ok {
			e.cause = inner.Err // without the address, which the text has already
		}
	}
	return e
}

// missing reports whether a registry surely has no such schema, subject or version. A 404 alone may
// come from anybody on the way.
func missing(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound &&
		(e.code == codeNoSubject || e.code == codeNoVersion || e.code == codeNoSchema)
}

// shorten keeps a registry's words short enough for a log.
func shorten(text string) string {
	const enough = 300
	if len(text) > enough {
		return strconv.QuoteToASCII(text[:enough]) + " ..."
	}
	return text
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
	if err = c.explain(err); err == nil {
		return c.Find(ctx, subject, schema) // its answer has the version
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusConflict {
		err = fmt.Errorf("the schema is not compatible with the versions of subject %s: write to "+
			"another topic; \"geodither schemas check\" says what differs: %w", subject, err)
	}
	return Registered{}, err
}

func (c *Client) registered(
	subject string, found sr.SubjectSchema, err error,
) (Registered, error) {
	if err = c.explain(err); missing(err) {
		return Registered{}, fmt.Errorf("%w in subject %s", ErrMissing, subject)
	}
	if err == nil && (found.ID <= 0 || found.ID > 1<<31-1) {
		err = &Error{url: c.url, Status: http.StatusOK, cause: errors.New("no schema id")}
	}
	return Registered{ID: uint32(found.ID), Version: found.Version}, err
}

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
	if err = c.explain(err); missing(err) {
		return false, nil, fmt.Errorf("%w: there is no subject %s", ErrMissing, subject)
	}
	for _, m := range append(got.Messages, got.Reason) {
		if m != "" {
			words = append(words, shorten(m))
		}
	}
	return got.Is, words, err
}

func isRejection(err error) bool {
	_, ok := errors.AsType[*schemas.Rejection](err)
	return ok
}
