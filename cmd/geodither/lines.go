package main

import (
	"fmt"
	"strings"
	"time"
)

// summaryLines is a text of lines with a word in front of each.
type summaryLines struct{ strings.Builder }

func (l *summaryLines) add(word, format string, args ...any) {
	fmt.Fprintf(l, "%-12s"+format+"\n", append([]any{word}, args...)...)
}

// timeSpan is a time from first to last, Unix milliseconds; all 0: none yet.
type timeSpan struct{ firstMS, lastMS int64 }

// partial says which windows may hold a part of their time alone.
func (l *summaryLines) partial(what string, of timeSpan) {
	l.add("partial", "the %s are from %s to %s: a window that starts earlier or ends later may "+
		"have only a part of its reports", what, inUTC(of.firstMS), inUTC(of.lastMS))
}

func inUTC(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
