// Package audit attacks the service's engine: the code that turns a raw record and a user's state
// into encoded records and an encoded state. It has two parts, which share what is attacked.
//
// "geodither audit" is the product. It looks at the settings of one service: at the votes and
// weights of all cells, in whole numbers, and at a duel of two places through the engine's bytes.
//
//	audit.go    Run: the settings that can be audited, and the parts of an audit
//	sweep.go    the exact part: the law of a release, for all cells of the map
//	duel.go     the part that attacks: two truths with one public history
//	checks.go   the comparisons, and how failures are counted
//	subject.go  what is attacked, what it is fed and what it has to show
//	report.go   what was found
//
// The tests have the second implementation of everything that a release and a record follow from:
// laws by their definition, statistical tests of the noise, and an observer who recomputes each
// record and state from public facts. They plant faults into the engine, and show for each fault
// whether the tests and the command find it (mechanism/PROOFS.md has that table).
//
//	probe_test.go       the plan and the jobs of the second implementation
//	law_test.go         the law of one release by its definition; K is in hull_test.go
//	public_test.go      what an observer computes from public facts alone
//	rules_test.go       two truths with equal releases, under every rule of release
//	walk_test.go        long runs, with checks of each record, state and sum
//	crowd_test.go       many users in one situation
//	facts_test.go       each fact of a release changes its noise, and each day has a key
//	exponents_test.go   the exponents of all pairs of places, by definition
//	statistics_test.go  statistical tests of the law
//	broken_test.go      how a fault is planted: faults_test.go and codebook_test.go have all
package audit
