// Package experiment repeats the experiments of Xiao and Xiong (CCS 2015, section 6) on traces,
// beside what geodither does otherwise, and reports them. What they share is in its folder study.
//
// An experiment is data, a [study.Experiment]: points on the axes of data, model, mechanism, ε and
// δ; a measurement, which is a [study.Walks] whose probe adds up quantities at each timestamp; and
// scores, each of which makes a sample of clusters a value with an interval. One runner walks
// all traces of all points. Results become one long table with a column for each axis, one for the
// metric and one for the value, and all that is shown is a projection of it ([report.Table]): the
// figures' lines, the tables to read, the files.
//
//	experiments.go    all of them; preface.go starts the report
//	errors.go         the paper's metrics on whole traces, and what a score is
//	overtime.go       one trace over time
//	parameters.go     many traces over ε and δ
//	knn.go            nearest places asked from releases
//	adversaries.go    what those learn who know more or less than the model; adversary.go is one
//	fleet.go          where a whole fleet is, by its size; fleet_use.go says from which size on
//	mechanisms.go     all mechanisms beside each other; near.go and once.go measure parts of it
//	claims.go         when a sentence of the paper holds; claims_list.go has the sentences
//	lines.go          what the figures share
//
// A further experiment is a further value in [All], with its words in a Markdown file beside it. An
// experiment that judges what others measure plans the same points, and they are measured once.
//
// Two measurements follow no traces and have pieces of their own: fleets, which the package density
// simulates, and single releases from one prior.
//
// Results are the same bits whatever the number of goroutines: each piece has noise of its own,
// keyed by what it is, and sums run in one order. What is reported of many users are aggregates;
// what shows one person's trace (over time) is only for people who may see the data.
package experiment
