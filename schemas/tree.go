package schemas

import (
	"encoding/json"
	"unicode/utf8"
)

// Bounds of a JSON value that is read as a tree.
const (
	// MaxTreeBytes is the longest value: a batch of fixes, or a row with its schema beside it.
	// Kafka's own limit of a record is as large by default.
	MaxTreeBytes = 1 << 20
	// MaxTreeDepth is how deep objects and arrays may be nested.
	MaxTreeDepth = 64
)

// DecodeTree reads any JSON value, for records that other programs have written: objects become
// map[string]any, arrays []any, numbers json.Number, which keeps all of their digits, and the rest
// string, bool and nil. It is as strict as a Codec: text is UTF-8 without half of a surrogate pair,
// and no object names a field twice. The tree shares memory with data, so data must not change
// while the tree is in use. Its only errors are *Rejection.
func DecodeTree(data []byte) (any, error) {
	switch {
	case len(data) == 0:
		return nil, reject(ReasonEmpty)
	case len(data) > MaxTreeBytes:
		return nil, reject(ReasonTooLarge)
	case !utf8.Valid(data):
		return nil, reject(ReasonInvalidUTF8)
	case !json.Valid(data):
		return nil, reject(ReasonMalformed)
	}
	w := walker{data: data}
	tree, reason := w.tree(MaxTreeDepth)
	if reason != "" {
		return nil, reject(reason)
	}
	return tree, nil
}

// tree reads one value, with at most that many levels of objects and arrays.
func (w *walker) tree(depth int) (any, Reason) {
	first := w.peek()
	if (first == '{' || first == '[') && depth == 0 {
		return nil, ReasonMalformed
	}
	switch first {
	case '{':
		return w.object(depth - 1)
	case '[':
		return w.array(depth - 1)
	case '"':
		return decodeString(w.token())
	}
	switch literal := string(w.token()); literal {
	case "null":
		return nil, ""
	case "true", "false":
		return literal == "true", ""
	default:
		return json.Number(literal), ""
	}
}

func (w *walker) object(depth int) (any, Reason) {
	members := map[string]any{}
	for w.next() {
		name, reason := decodeString(w.token())
		if reason != "" {
			return nil, reason
		}
		if _, twice := members[name]; twice {
			return nil, ReasonDuplicateField
		}
		w.peek()
		w.at++ // the colon
		if members[name], reason = w.tree(depth); reason != "" {
			return nil, reason
		}
	}
	w.at++ // the brace
	return members, ""
}

func (w *walker) array(depth int) (any, Reason) {
	elements := []any{}
	w.at++ // the bracket
	for w.peek() != ']' {
		element, reason := w.tree(depth)
		if reason != "" {
			return nil, reason
		}
		elements = append(elements, element)
		if w.peek() == ',' {
			w.at++
		}
	}
	w.at++
	return elements, ""
}
