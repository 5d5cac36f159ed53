package registry

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// Error is a registry's refusal, or its silence.
type Error struct {
	url    string
	Status int // of HTTP; 0: there was no answer
	code   int // of the registry
	cause  error
	lacks  bool // it has no such schema, which does not count yet

	noGUIDs bool // it does not know the question for a schema by its GUID
	final   bool // and has not for so long that nobody else can be meant
}

// HasNoGUIDs reports whether an error says that a registry has not known the question for a schema
// by its GUID for a minute: records that name their schema so can never be read.
func HasNoGUIDs(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.noGUIDs && e.final
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
	case e.lacks:
		return fmt.Sprintf("the schema registry %s does not have the schema of a record: the "+
			"record is refused if that stays so for %v", e.url, believed)
	case e.Status == 0 && e.untrusted():
		return fmt.Sprintf("the certificate of the schema registry %s is not trusted; "+
			"registry.tls.ca_file names who signs it: %v", e.url, e.cause)
	case e.Status == 0 && errors.Is(e.cause, http.ErrSchemeMismatch):
		return fmt.Sprintf("the schema registry %s does not speak TLS: begin registry.url with "+
			"http://, or name a port with TLS", e.url)
	case e.Status == 0:
		return fmt.Sprintf("the schema registry %s does not answer: is it running, and is "+
			"registry.url right, http or https too? (%v)", e.url, e.cause)
	case e.noGUIDs:
		return fmt.Sprintf("the schema registry %s cannot be asked for a schema by its GUID "+
			"(HTTP status %d), and a record names its schema so: use a registry that can "+
			"(/schemas/guids), or let producers write the number of the schema", e.url, e.Status)
	case e.Status == http.StatusUnauthorized:
		return fmt.Sprintf("the schema registry %s refuses the login (401): check "+
			"registry.basic_auth or registry.bearer_token_file", e.url)
	case e.Status == http.StatusForbidden:
		return fmt.Sprintf("the schema registry %s does not permit this (403): the login needs "+
			"the right to read schemas and subjects, and to write where one is missing", e.url)
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
	return e.lacks || e.Status == 0 && !e.untrusted() ||
		e.Status >= http.StatusInternalServerError ||
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

// errLogin marks that a request was not sent for want of a login.
var errLogin = errors.New("no login for the schema registry")

// explain returns what a request has come to as an *Error, or as what has kept it from being sent.
func explain(registry string, err error) error {
	if err == nil || errors.Is(err, errLogin) {
		return err
	}
	e := &Error{url: registry, cause: err}
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

// withoutGUIDs marks an answer of a server that does not know the question for a GUID: no word of
// a registry's, or Java's own about a path.
func withoutGUIDs(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && (e.Status == http.StatusNotFound ||
		e.Status == http.StatusMethodNotAllowed) && (e.code == 0 || e.code == e.Status) {
		e.noGUIDs = true
	}
	return err
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

// ErrMissing says that a subject does not have a schema, or that there is no such subject.
var ErrMissing = errors.New("the schema is not registered")

// believed is for how long a registry must have lacked a schema, from the first question on, until
// that counts: a registry that follows another one learns of a schema later.
const believed = time.Minute
