// Package audit attacks the service's engine: the code that turns a raw record and a user's state
// into encoded records and an encoded state. The audit in mechanism/evaluation/audit attacks
// mechanisms. This one runs engine.Processor, as "run" and "sanitize" do, and compares bytes.
//
// The target of the attack is a Subject. Engine makes the real one. The tests make broken ones,
// which show what the audit finds and what it misses (mechanism/PROOFS.md has that table).
//
//	audit.go     Run: the jobs, and the report from their results
//	subject.go   the target, what it is fed and what it has to show
//	public.go    what an observer computes from public facts alone
//	plan.go      what all jobs share, and how they read the noise of a release
//	rules.go     jobs: two truths with equal releases, under every rule of release
//	walk.go      jobs: long runs, with checks of each record, state and sum, and of bytes that
//	             must not depend on the truth: surrogates, fixes outside the map, retries
//	shapes.go    jobs: many users in location sets of forced shapes
//	codebook.go  what takes the place of sets, surrogates and hulls under the codebook mechanism
//	law.go       the tests of the law, and how they share the rate of false alarms
//	report.go    what was found
package audit
