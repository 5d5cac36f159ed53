package engine

import (
	"fmt"

	"github.com/geodither/geodither/mechanism"
	"github.com/geodither/geodither/mechanism/mobility"
	"github.com/geodither/geodither/mechanism/noise"
)

// NewAudited makes a processor for an audit. With streams it draws its releases from
// them, and nothing else differs from the processor that a service runs. An audit needs
// that to make two truths give equal releases. nil means the streams of the key. All users
// are in one partition here, so no record is refused for where it lies.
func NewAudited(s Settings, streams noise.Streams) (*Processor, error) {
	s.Partitioner = AnyPartitioner
	p, err := NewProcessor(s, Partition{Topic: "raw", Of: 1})
	if err != nil || streams == nil {
		return p, err
	}
	m := p.engine.models
	m.build = func(model *mobility.Model) (*mechanism.Sanitizer, error) {
		return mechanism.NewSanitizer(model, streams, p.engine.options)
	}
	if m.base.sanitizer, err = m.build(m.first); err != nil {
		return nil, fmt.Errorf("the sanitizer of an audit: %w", err)
	}
	return p, nil
}
