// Package engine is where a service's bytes meet mathematics: it decodes a raw record, chooses the
// version of the model that counts, takes one step of the mechanism on the user's state, and
// encodes what is published. It knows no Kafka, no clock and no store: everything is a function of
// its arguments, so that a retry gives the same bytes.
//
// A record's way: processor.go takes its bytes (Processor.Process) and refuses what cannot be used
// (accept.go); engine.go takes one step of its fix (Engine.Sanitize) with the version that
// models.go picks, and says what the record tells beside the place; processor.go encodes it.
// settings.go has everything that determines those bytes, and its fingerprint; counters.go the
// numbers of what came of records.
package engine
