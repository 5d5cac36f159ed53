package audit

// probeChecks are all checks of a probe, or what one job has counted of them.
type probeChecks struct {
	// places: cells with one surrogate or one vote, and any place within a cell, give the same
	// records, states, dead letters and counters byte for byte.
	places Check
	// border: a fix far outside the map has the effect, byte for byte, of one in the cell that it
	// is clamped to; as a dead letter it leaves no record, no state and no trace of how far.
	border Check
	// equal: after equal releases records and states are equal byte for byte, whatever the truth.
	equal Check
	// rules: intervals, hours, budgets, repeats and lateness look at public facts alone.
	rules Check
	// retry: another instance gives the same bytes for the same record and state.
	retry Check
	// records: an observer computes every field of the record, its key, its timestamp and the
	// state from the releases alone, byte for byte.
	records Check
	// account: the ε of the records adds up to what states and counters say, and no window exceeds
	// its budget.
	account Check
	// inference: location sets hold their mass, releases lie where all places of the set can
	// reach, and the posterior is that of Bayes' rule under the law by its definition.
	inference Check
	// point: a release has the very bits of a point of the lattice or of the codebook, which all
	// places share; where there is one place only, it follows from public facts.
	point Check
	// days: a day whose key was destroyed has no releases, and later days keep theirs byte for
	// byte.
	days Check
	// exponents: K and all pairs of places, or the votes of all cells, are as stated in whole
	// numbers, and no likelihoods differ by more than ε.
	exponents Check
	// periods: noise has the stated size in every n-th step, release and user, in every hour, and
	// for each user.
	periods Check
	// law: noise, or how often each code point is drawn, has the stated law: size, direction, tails
	// and independence.
	law Check
	// streams: no two releases share their noise, whichever fact differs.
	streams Check
	// attack: an attacker's guesses between two places are right at most e^ε times as often as
	// wrong.
	attack Check

	fed int64 // raw records
}

// newProbeChecks returns the checks before anything was counted.
func newProbeChecks() *probeChecks {
	c := new(probeChecks)
	names := [...]string{
		"places", "border", "equal releases", "rules", "retries", "records", "account",
		"inference", "points", "days", "exponents", "periods", "law", "streams", "attack",
	}
	for i, check := range c.list() {
		check.Name = names[i]
	}
	return c
}

func (c *probeChecks) list() []*Check {
	return []*Check{
		&c.places, &c.border, &c.equal, &c.rules, &c.retry, &c.records, &c.account,
		&c.inference, &c.point, &c.days, &c.exponents, &c.periods, &c.law, &c.streams, &c.attack,
	}
}

func (c *probeChecks) add(o *probeChecks) {
	mine, others := c.list(), o.list()
	for i := range mine {
		mine[i].addCheck(others[i])
	}
	c.fed += o.fed
}
