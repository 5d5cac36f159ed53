package mechanism

import "github.com/geodither/geodither/mechanism/law"

// Metric describes the release that the last Step has made. ok is false if it has made none: what
// is repeated or predicted tells nothing new.
func (s *Sanitizer) Metric() (m law.Metric, ok bool) {
	if !s.fresh {
		return law.Metric{}, false
	}
	return s.hull.Metric(s.options.Mechanism, s.options.Epsilon), true
}
