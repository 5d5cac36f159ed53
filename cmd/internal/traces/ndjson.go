package traces

import (
	"errors"
	"io"

	"github.com/geodither/geodither/schemas"
)

// readNDJSON reads raw records as the service reads them from a topic in JSON,
// so that what passes here passes there.
func (p *pass) readNDJSON() error {
	codec, err := schemas.NewCodec(schemas.JSON)
	if err == nil && len(p.options.Columns) > 0 {
		codec, err = codec.RenameRaw(p.options.Columns)
	}
	if err != nil {
		return err
	}
	for {
		line, err := p.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fix, reason := parseObject(codec, line)
		if reason != "" {
			err = p.skip(p.lines.number, reason)
		} else {
			err = p.emit(fix, p.lines.number)
		}
		if err != nil {
			return err
		}
	}
}

func parseObject(codec *schemas.Codec, line []byte) (fix schemas.Raw, reason string) {
	fix, err := codec.DecodeRaw(line)
	if rejection, ok := errors.AsType[*schemas.Rejection](err); ok {
		return schemas.Raw{}, string(rejection.Reason)
	}
	if err != nil {
		return schemas.Raw{}, string(schemas.ReasonMalformed)
	}
	return fix, secondsReason(fix.Timestamp)
}
