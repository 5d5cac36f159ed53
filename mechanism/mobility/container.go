package mobility

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// container reads the blocks of an Avro object container file (Avro specification 1.12, "Object
// Container Files").
//
// The reader of goavro reserves as much as a block claims to hold, up to 2 GiB, inflates without a
// limit, and builds a codec from any schema that the file brings. This reader takes a block as far
// as it is there, inflates it up to a limit, and decodes it by the schema of a model.
// Each block holds one part, which must bring rows or cells of the model.
type container struct {
	counted counter
	in      *bufio.Reader
	marker  [16]byte
	blocks  int
}

// counter counts the bytes read from a file.
type counter struct {
	from io.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

var errForeign = errors.New("mobility: this is no mobility model (geodither train)")

func newContainer(r io.Reader) (*container, error) {
	c := &container{counted: counter{from: r}}
	c.in = bufio.NewReaderSize(&c.counted, 1<<16)
	var magic [4]byte
	if _, err := io.ReadFull(c.in, magic[:]); err != nil || magic != [4]byte{'O', 'b', 'j', 1} {
		return nil, errForeign
	}
	metadata, err := c.metadata()
	if err != nil {
		return nil, err
	}
	if err := checkSchema(metadata["avro.schema"]); err != nil {
		return nil, err
	}
	if string(metadata["avro.codec"]) != "deflate" {
		return nil, errors.New("mobility: the model file is not compressed by deflate (model-file)")
	}
	if _, err := io.ReadFull(c.in, c.marker[:]); err != nil {
		return nil, c.cutShort(err)
	}
	return c, nil
}

// checkSchema refuses a file that is no model, and one of another version of the format.
func checkSchema(schema []byte) error {
	switch {
	case string(schema) == Schema:
		return nil
	case bytes.Contains(schema, []byte("geodither.model")):
		return errors.New("mobility: the model file has an unknown schema (model-file)")
	}
	return errForeign
}

// at returns how many bytes of the file have been used.
func (c *container) at() int64 { return c.counted.n - int64(c.in.Buffered()) }

func (c *container) cutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("mobility: the model file is cut short at byte %d (model-file)",
			c.counted.n)
	}
	return fmt.Errorf("mobility: the model at byte %d: %w", c.at(), err)
}

// metadata reads the header's map of strings to bytes: blocks of pairs up to an empty block.
func (c *container) metadata() (map[string][]byte, error) {
	metadata := map[string][]byte{}
	budget := int64(maxHeaderBytes)
	for {
		pairs, err := binary.ReadVarint(c.in)
		if err != nil {
			return nil, c.cutShort(err)
		}
		if pairs == 0 {
			return metadata, nil
		}
		if pairs < 0 { // the block's size in bytes follows, which is not needed
			pairs = -pairs
			if _, err := binary.ReadVarint(c.in); err != nil {
				return nil, c.cutShort(err)
			}
		}
		for ; pairs != 0; pairs-- {
			key, err := c.bytes(&budget)
			if err != nil {
				return nil, err
			}
			if metadata[string(key)], err = c.bytes(&budget); err != nil {
				return nil, err
			}
		}
	}
}

// bytes reads a length and so many bytes, and takes them off a budget.
func (c *container) bytes(budget *int64) ([]byte, error) {
	size, err := binary.ReadVarint(c.in)
	if err != nil {
		return nil, c.cutShort(err)
	}
	if *budget--; size < 0 || size > *budget {
		return nil, errForeign
	}
	*budget -= size
	var b bytes.Buffer
	err = c.exactly(&b, size)
	return b.Bytes(), err
}

// exactly reads size bytes. It holds at most twice as many bytes as are really there.
func (c *container) exactly(into *bytes.Buffer, size int64) error {
	if _, err := io.CopyN(into, c.in, size); err != nil {
		return c.cutShort(err)
	}
	return nil
}

// next reads the next block, still packed, into b. It returns io.EOF after the last block.
func (c *container) next(b *block) error {
	if _, err := c.in.Peek(1); errors.Is(err, io.EOF) {
		return io.EOF
	}
	c.blocks++
	b.place = place{number: c.blocks, from: c.at()}
	count, err := binary.ReadVarint(c.in)
	if err != nil {
		return c.cutShort(err)
	}
	size, err := binary.ReadVarint(c.in)
	if err != nil {
		return c.cutShort(err)
	}
	if b.to = c.at() + max(size, 0); count != 1 || size < 1 || size > maxBlockBytes {
		return b.damaged("it states %d parts in %d bytes", count, size)
	}
	b.packed.Reset()
	if err := c.exactly(&b.packed, size); err != nil {
		return err
	}
	var marker [16]byte
	if _, err := io.ReadFull(c.in, marker[:]); err != nil {
		return c.cutShort(err)
	}
	if b.to = c.at(); marker != c.marker {
		return b.damaged("it does not end in the file's marker")
	}
	return nil
}
