package explore

import (
	"log/slog"
	"time"

	"github.com/geodither/geodither/mechanism"
)

// An answer is computed within answerTime. What took longer than writeTime could not be sent any
// more.
const (
	answerTime = 100 * time.Second
	writeTime  = answerTime + 20*time.Second
)

// Options say what a page shows, and where.
type Options struct {
	// Listen is host:port; empty means DefaultListen.
	Listen string
	// NoToken leaves the random token out of the page's address, at loopback alone: for a page of
	// open data. Else every account and process of this machine could read what the page has.
	NoToken bool
	// Truth is the secret side; nil: the page has none.
	Truth *Truth
	// Public is the side of a sanitized topic, which the caller runs; nil: the page has none.
	Public *Public
	// Release is what the secret side opens with; a zero value: a plan of Σε = 20 a day.
	Release mechanism.Options
	// TimeZone is that of the days of a fleet; empty means UTC.
	TimeZone string
	// Outline is drawn below the maps; nil: the secret side of the sample has its streets.
	Outline Outline
	Logger  *slog.Logger
}
