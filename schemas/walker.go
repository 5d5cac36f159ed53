package schemas

import "strconv"

// walker steps through the members of one JSON object that is known to be
// valid; it finds where each part ends and checks nothing.
type walker struct {
	data []byte
	at   int
}

// peek skips spaces and returns the byte that follows.
func (w *walker) peek() byte {
	for {
		switch b := w.data[w.at]; b {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return b
		}
	}
}

// next moves past the brace or comma before a member; false at the end.
func (w *walker) next() bool {
	if w.peek() == '}' {
		return false
	}
	w.at++
	return w.peek() != '}' // an empty object
}

// member returns the next key, in its quotes, and its value as they stand.
func (w *walker) member() (key, literal []byte) {
	w.peek()
	key = w.token()
	w.peek()
	w.at++ // the colon
	w.peek()
	return key, w.token()
}

// token returns one whole value and moves past it.
func (w *walker) token() []byte {
	start := w.at
	switch w.data[w.at] {
	case '"':
		w.skipString()
	case '{', '[':
		w.skipNested()
	default:
		for w.at < len(w.data) && !endsLiteral(w.data[w.at]) {
			w.at++
		}
	}
	return w.data[start:w.at]
}

func (w *walker) skipString() {
	for w.at++; w.data[w.at] != '"'; w.at++ {
		if w.data[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

func (w *walker) skipNested() {
	for depth := 0; ; {
		switch w.data[w.at] {
		case '"':
			w.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		w.at++
		if depth == 0 {
			return
		}
	}
}

func endsLiteral(b byte) bool {
	switch b {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

// loneSurrogate reports whether the inside of a valid JSON string escapes half
// of a UTF-16 surrogate pair.
func loneSurrogate(inner []byte) bool {
	for i := 0; i < len(inner); i++ {
		if inner[i] != '\\' {
			continue
		}
		i++
		unit, ok := escapedUnit(inner, i)
		if !ok {
			continue
		}
		i += 4
		switch {
		case unit>>10 == 0xDC00>>10: // a low half first
			return true
		case unit>>10 != 0xD800>>10:
			continue
		}
		low, ok := uint64(0), false
		if i+1 < len(inner) && inner[i+1] == '\\' {
			low, ok = escapedUnit(inner, i+2)
		}
		if !ok || low>>10 != 0xDC00>>10 {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads the code unit of a \uXXXX whose u stands at index i.
func escapedUnit(inner []byte, i int) (unit uint64, ok bool) {
	if i+5 > len(inner) || inner[i] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(inner[i+1:i+5]), 16, 16)
	return unit, err == nil
}
