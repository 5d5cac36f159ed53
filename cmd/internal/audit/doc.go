// Package audit attacks the service's engine: the code that turns a raw record and a user's state
// into encoded records and an encoded state. It runs engine.Processor, as "run" and "sanitize" do,
// compares bytes, and compares the law of the releases with what is stated of it.
//
// The target of the attack is a Subject. Engine makes the real one. The tests make broken ones,
// which show what the audit finds and what it misses (mechanism/PROOFS.md has that table).
//
//	audit.go       Run: the plan and the jobs; situations that users meet who move, and the times
//	               of all fixes
//	subject.go     the target, what it is fed and what it has to show
//	public.go      what an observer computes from public facts alone
//	law.go         the law of one release by its definition: surrogates, K in hull.go, votes; the
//	               closed-form attack
//	rules.go       jobs: two truths with equal releases, under every rule of release
//	walk.go        jobs: long runs, with checks of each record, state and sum, and of bytes that
//	               must not depend on the truth: surrogates, fixes outside the map, retries
//	crowd.go       jobs: many users in one situation, of a forced shape or met by a scout
//	facts.go       jobs: each fact of a release changes its noise, and each day has a key
//	exponents.go   jobs: the exponents of all pairs of places, by definition
//	statistics.go  the judgment of all results: tests of the law, how they share the rate of false
//	               alarms, and the bound on ε
//	checks.go      the checks; report.go what was found
package audit
