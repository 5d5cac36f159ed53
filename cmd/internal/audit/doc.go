// Package audit attacks the service's engine: the code that turns a raw record and a
// user's state into encoded records and an encoded state. The audit in
// mechanism/evaluation/audit attacks mechanisms. This one runs pipeline.Processor, as "run" and
// "sanitize" do, and looks at bytes.
//
// What is attacked is a Subject. Engine makes the real one, and the tests make broken ones,
// which show what the audit finds and what it misses (mechanism/PROOFS.md has that table).
//
//	subject.go   what is attacked, and the real one
//	public.go    what an observer computes from public facts alone
//	places.go    bytes that must not depend on the truth: surrogates, equal releases, retries
//	border.go    fixes outside the map: clamped, or refused without a trace
//	rules.go     two truths with equal releases under every rule of release
//	walk.go      long runs: records, states, the account of ε and the law, step by step
//	shapes.go    many users in location sets of forced shapes
//	law.go       the tests of the law, and how they share the rate of false alarms
//	report.go    what was found
package audit
