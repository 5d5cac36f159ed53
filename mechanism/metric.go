package mechanism

// Metric describes the release that the last Step has made. ok is false if it has made none: what is repeated or predicted
// tells nothing new.
func (s *Sanitizer) Metric() (m Metric, ok bool) {
	if !s.fresh {
		return Metric{}, false
	}
	return s.hull.Metric(s.options.Mechanism, s.options.Epsilon), true
}
