package files

import (
	"encoding/json"
	"fmt"
	"io"
)

// Collection writes one FeatureCollection (RFC 7946), with each feature on a line of its own.
type Collection struct {
	out   io.Writer
	begun bool
}

// NewCollection returns a collection without features. It writes nothing yet.
func NewCollection(out io.Writer) *Collection { return &Collection{out: out} }

const collectionHead = `{"type":"FeatureCollection","features":[` + "\n"

// Add writes a feature. The geometry is a GeoJSON object, the properties are any JSON object.
func (c *Collection) Add(geometry, properties any) error {
	data, err := json.Marshal(struct {
		Type       string `json:"type"`
		Geometry   any    `json:"geometry"`
		Properties any    `json:"properties"`
	}{"Feature", geometry, properties})
	if err != nil {
		return err
	}
	separator := ",\n"
	if !c.begun {
		c.begun, separator = true, collectionHead
	}
	_, err = fmt.Fprintf(c.out, "%s%s", separator, data)
	return err
}

// Close writes the end of the collection.
func (c *Collection) Close() error {
	tail := "\n]}\n"
	if !c.begun {
		tail = collectionHead + "]}\n"
	}
	_, err := io.WriteString(c.out, tail)
	return err
}
