// Package mapping reads raw records as their producers write them: which part of a message is the
// user, the time and the place, which messages are no fixes at all, and how the key is encoded.
//
// [New] makes a [Mapping] from [Options], or from a preset of a source that is well known, whose
// settings the options override. [Mapping.Read] turns one Kafka record into its fixes. For each it
// says either the [schemas.Raw], why it is refused (a dead letter), or which rule skips it (which
// is no error: most messages of a vehicle say nothing of its place).
//
// A value is first decoded into a tree: map[string]any, []any, string, bool, nil, []byte, and
// numbers as json.Number, int64 or float64. JSON and the protobuf messages of presets are decoded
// here, Avro of other schemas by a [Decoder] of the caller's. Paths then find the parts:
//
//	a.b.c              members of objects
//	a[0]               an element of an array, from 0
//	a[key=Location]    the first element of an array whose member "key" is "Location"
//	a["b.c"]           a member whose name has points or brackets
//	$.a                from the whole message, whatever unwrap and each have gone into
//
// There is no expression language. What a message may cost is bounded: its bytes, its depth, the
// fixes in it and the rules. A mapping is a function of the record: it knows no clock and keeps
// nothing, so that a record gives the same fixes whenever it is read. No error and no reason has
// anything of a record in it.
//
// Files: options.go settings; presets.go those of well-known sources; new.go their check;
// mapping.go the way of a record; values.go the types of its fields; path.go, rule.go parts of a
// tree; protobuf.go two messages in protobuf; phones.go exports of phones, and places in one text.
package mapping
