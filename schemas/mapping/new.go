package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/geodither/geodither/schemas"
)

// maxHeader bounds the name of a header.
const maxHeader = 255

// New checks options and makes a mapping of them. An error names the keys of the config's section
// input, and joins all that is wrong.
func New(o Options) (*Mapping, error) {
	source, err := o.source()
	if err != nil {
		return nil, err
	}
	o = o.over(source)
	m := &Mapping{
		source: source, preset: o.Preset, format: o.Format, key: o.Key, check: o.KeyCheck,
		user:      o.User.From,
		unit:      o.Timestamp.Unit,
		fromKafka: o.Timestamp.From == FromKafka,
	}
	c := checks{hint: source.hint}
	c.words(o)
	m.spelling = c.spelling(o)
	c.format(o, source)
	c.user(m, o.User)
	c.time(m, o.Timestamp)
	c.path("latitude", o.Latitude, &m.latitude)
	c.path("longitude", o.Longitude, &m.longitude)
	m.unwraps = c.paths("unwrap", o.Unwrap, source.unwraps)
	m.eaches = c.paths("each", o.Each, source.eaches)
	m.rules = c.rules(o.Where)
	m.text = o.text(m.rules)
	if err := errors.Join(c.errs...); err != nil {
		return nil, err
	}
	return m, nil
}

// source returns that of the preset.
func (o Options) source() (source, error) {
	if o.Preset == "" {
		return plain, nil
	}
	found, ok := presets[o.Preset]
	if !ok {
		return source{}, fmt.Errorf("preset %q: choose %s, or none", string(o.Preset),
			list(Presets()))
	}
	return found, nil
}

// over returns the options with what is empty filled in from a source.
func (o Options) over(s source) Options {
	d := s.options
	o.Format = cmp.Or(o.Format, d.Format, Auto)
	o.Unwrap, o.Each = cmp.Or(o.Unwrap, d.Unwrap), cmp.Or(o.Each, d.Each)
	if len(o.Where) == 0 {
		o.Where = d.Where
	}
	if o.User == (User{}) {
		o.User = d.User
	}
	if o.Timestamp.From == "" && o.Timestamp.Path == "" {
		unit := o.Timestamp.Unit
		o.Timestamp = d.Timestamp
		o.Timestamp.Unit = cmp.Or(unit, d.Timestamp.Unit)
	}
	o.Latitude = cmp.Or(o.Latitude, d.Latitude)
	o.Longitude = cmp.Or(o.Longitude, d.Longitude)
	o.Key = cmp.Or(o.Key, d.Key, KeyString)
	o.KeyCheck = cmp.Or(o.KeyCheck, KeyCheckOn)
	return o
}

// text is all of the options, in a text that is the same in every program.
func (o Options) text(rules []rule) string {
	var where strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&where, " {%q %t %t %q %t}", r.path.text, r.presence, r.exists != r.not, r.want,
			r.numeric)
	}
	return fmt.Sprintf("1 %q %q %q %q%s user %q %q place %q %q time %q %q %q key %q %q",
		o.Preset, o.Format, o.Unwrap, o.Each, where.String(), o.User.From, o.User.Path, o.Latitude,
		o.Longitude, o.Timestamp.From, o.Timestamp.Path, o.Timestamp.Unit,
		o.Key, o.KeyCheck)
}

// checks collects what is wrong with options.
type checks struct {
	errs []error
	hint string
}

func (c *checks) add(key, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %w", key, fmt.Errorf(format, args...)))
}

// words refuses settings that have a few values, and none of them.
func (c *checks) words(o Options) {
	word(c, "format", o.Format, Auto, JSON, Avro, Protobuf)
	word(c, "key_check", o.KeyCheck, KeyCheckOn, KeyCheckOff)
	if o.KeyCheck == KeyCheckOn && (o.Key == KeyJSON || o.Key == KeyAvro) {
		c.add("key", "%s has many spellings of a user id, and each may be in another partition: "+
			"1. name yours, such as 'json:{\"id\":*}' or avro:42:long; or 2. key_check: off",
			string(o.Key))
	}
}

// spelling returns the one that the key names; nil: it names none.
func (c *checks) spelling(o Options) *spelling {
	s, err := newSpelling(o.Key)
	switch {
	case err != nil:
		c.add("key", "%w", err)
	case s == nil:
		word(c, "key", o.Key, KeyString, KeyJSON, KeyAvro)
	}
	return s
}

func word[T ~string](c *checks, key string, value T, known ...T) {
	if !slices.Contains(known, value) {
		c.add(key, "%q is unknown: choose %s", string(value), list(known))
	}
}

// list is "a, b or c".
func list[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}

func (c *checks) format(o Options, s source) {
	if o.Format == Protobuf && s.protobuf == nil {
		c.add("format", "protobuf is read for the presets tesla and gtfs_rt alone: let the "+
			"producer write JSON, or Avro")
	}
}

func (c *checks) path(key, text string, into *path) {
	if text == "" {
		c.add(key, "say where it is: a path such as location.lat%s", c.because())
		return
	}
	p, err := parsePath(text)
	if err != nil {
		c.add(key, "%w", err)
	}
	*into = p
}

// because is the source's reason why something is to be named.
func (c *checks) because() string {
	if c.hint == "" {
		return ""
	}
	return " (" + c.hint + ")"
}

// paths is the one that was named, or else those of the preset.
func (c *checks) paths(key, text string, preset []string) (all []path) {
	if text != "" {
		preset = []string{text}
	}
	for _, one := range preset {
		if one == itself {
			all = append(all, path{})
			continue
		}
		p, err := parsePath(one)
		if err != nil {
			c.add(key, "%w", err)
		}
		all = append(all, p)
	}
	return all
}

func (c *checks) user(m *Mapping, u User) {
	header, isHeader := strings.CutPrefix(u.From, FromHeader)
	switch {
	case u.From != "" && u.Path != "":
		c.add("user", "from and path exclude each other: the user id is in one place")
	case u.From == "" && u.Path == "":
		c.add("user", "say where the user id is: {from: key}, {from: \"header:NAME\"} or "+
			"{path: device.id}%s", c.because())
	case isHeader && (header == "" || len(header) > maxHeader):
		c.add("user", "from: header: lacks the header's name, or it is longer than %d bytes",
			maxHeader)
	case isHeader:
		m.header = header
	case u.From != "" && u.From != FromKey:
		c.add("user", "from: %q is unknown: choose key or header:NAME, or write path: for a part "+
			"of the message", u.From)
	case u.Path != "":
		c.path("user", u.Path, &m.userPath)
	}
}

func (c *checks) time(m *Mapping, t Time) {
	switch {
	case t.From != "" && (t.Path != "" || t.Unit != ""):
		c.add("timestamp", "from stands alone: Kafka's timestamps have a unit of their own")
	case t.From != "" && t.From != FromKafka:
		c.add("timestamp", "from: %q is unknown: choose kafka, or write path and unit", t.From)
	case t.From != "":
	case t.Path == "":
		c.add("timestamp", "say where it is: {path: time, unit: ms}, or {from: kafka} for the "+
			"record's own timestamp%s", c.because())
	case t.Unit == ofRaw && t.Path != plain.options.Timestamp.Path:
		c.add("timestamp", "unit is missing: a number alone does not say what it counts. Write "+
			"s, ms, us, ns or rfc3339")
	default:
		if t.Unit != ofRaw {
			word(c, "timestamp: unit", t.Unit, schemas.TimeUnits()...)
		}
		c.path("timestamp", t.Path, &m.timestamp)
	}
}

func (c *checks) rules(where []Rule) []rule {
	if len(where) > maxWhere {
		c.add("where", "%d rules are the most", maxWhere)
		return nil
	}
	rules := make([]rule, len(where))
	for i, w := range where {
		var err error
		if rules[i], err = newRule(w); err != nil {
			c.add(fmt.Sprintf("where, rule %d", i+1), "%w", err)
		}
	}
	return rules
}
