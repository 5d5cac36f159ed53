package mobility

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// container reads the blocks of an Avro object container file (Avro specification 1.12, "Object Container Files").
//
// goavro's own reader reserves what a block claims to hold, up to 2 GiB, inflates without a limit, and builds a codec
// from whatever schema the file brings. Here a block is read as far as it is there, inflated up to a limit, and decoded
// by the one schema that a model has. [builder] bounds how many blocks there can be: each holds a part, and a part has
// to bring rows or cells of the model.
type container struct {
	in      *bufio.Reader
	marker  [16]byte
	deflate bool
	block   []byte // what is left of the current block
	count   int64  // records left in it
}

// Limits on what a file may make us hold at once beside the model. A part is written in one block, and a row of the
// matrix in one part; a part of many rows is about 650 kB.
const (
	maxBlockBytes  = 16 << 20
	maxRowEntries  = maxBlockBytes / 16 // 8 bytes a value and up to 5 a column
	maxHeaderBytes = 1 << 20
)

var errForeign = errors.New("mobility: this is not a mobility model (an Avro file of geodither.model parts); make one with train")

func newContainer(r io.Reader) (*container, error) {
	c := &container{in: bufio.NewReaderSize(r, 1<<16)}
	var magic [4]byte
	if _, err := io.ReadFull(c.in, magic[:]); err != nil || magic != [4]byte{'O', 'b', 'j', 1} {
		return nil, errForeign
	}
	metadata, err := c.metadata()
	if err != nil {
		return nil, err
	}
	codec, err := partCodec()
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	if schema := metadata["avro.schema"]; string(schema) != codec.Schema() {
		if bytes.Contains(schema, []byte("geodither.model")) {
			return nil, errors.New("mobility: the model file has another schema than this program knows; use the program that wrote it, or train again")
		}
		return nil, errForeign
	}
	switch name := metadata["avro.codec"]; string(name) {
	case "deflate":
		c.deflate = true
	case "", "null":
	default:
		return nil, errors.New("mobility: the model file is compressed by another codec than deflate; write it with deflate or null")
	}
	if _, err := io.ReadFull(c.in, c.marker[:]); err != nil {
		return nil, errCutShort(err)
	}
	return c, nil
}

func errCutShort(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("mobility: the model file is cut short; copy it again or train again")
	}
	return fmt.Errorf("mobility: reading the model: %w", err)
}

// metadata reads the header's map of strings to bytes: blocks of pairs, ended by an empty one.
func (c *container) metadata() (map[string][]byte, error) {
	metadata := map[string][]byte{}
	budget := int64(maxHeaderBytes)
	for {
		pairs, err := binary.ReadVarint(c.in)
		if err != nil {
			return nil, errCutShort(err)
		}
		if pairs == 0 {
			return metadata, nil
		}
		if pairs < 0 { // then the block's size in bytes follows, which we need not know
			pairs = -pairs
			if _, err := binary.ReadVarint(c.in); err != nil {
				return nil, errCutShort(err)
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

// bytes reads a length and so many bytes, within a budget that it draws on.
func (c *container) bytes(budget *int64) ([]byte, error) {
	size, err := binary.ReadVarint(c.in)
	if err != nil {
		return nil, errCutShort(err)
	}
	if *budget--; size < 0 || size > *budget {
		return nil, errForeign
	}
	*budget -= size
	return c.exactly(size)
}

// exactly reads size bytes, holding no more than twice what is really there.
func (c *container) exactly(size int64) ([]byte, error) {
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, c.in, size); err != nil {
		return nil, errCutShort(err)
	}
	return buf.Bytes(), nil
}

// next returns the next record, valid until the next call; io.EOF after the last.
func (c *container) next() (fields, error) {
	for c.count == 0 {
		if len(c.block) > 0 {
			return nil, errDamaged
		}
		if err := c.nextBlock(); err != nil {
			return nil, err
		}
	}
	codec, err := partCodec()
	if err != nil {
		return nil, fmt.Errorf("mobility: %w", err)
	}
	value, rest, err := codec.NativeFromBinary(c.block)
	if err != nil {
		return nil, fmt.Errorf("%w: a part cannot be decoded", errDamaged)
	}
	c.block, c.count = rest, c.count-1
	return value.(fields), nil
}

func (c *container) nextBlock() error {
	if _, err := c.in.Peek(1); errors.Is(err, io.EOF) {
		return io.EOF
	}
	count, err := binary.ReadVarint(c.in)
	if err != nil {
		return errCutShort(err)
	}
	size, err := binary.ReadVarint(c.in)
	if err != nil {
		return errCutShort(err)
	}
	if count < 1 || size < 1 || size > maxBlockBytes {
		return errDamaged
	}
	if c.block, err = c.exactly(size); err != nil {
		return err
	}
	var marker [16]byte
	if _, err := io.ReadFull(c.in, marker[:]); err != nil {
		return errCutShort(err)
	}
	if marker != c.marker {
		return errDamaged
	}
	if c.deflate {
		if c.block, err = inflate(c.block); err != nil {
			return err
		}
	}
	c.count = count
	return nil
}

func inflate(packed []byte) ([]byte, error) {
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxBlockBytes+1))
	if err != nil || n > maxBlockBytes {
		return nil, fmt.Errorf("%w: a block does not inflate", errDamaged)
	}
	return buf.Bytes(), nil
}
