// Package experiment repeats the experiments of Xiao and Xiong (CCS 2015) on traces, beside what
// geodither does otherwise, and reports them.
//
// An experiment is data, an [Experiment]: points on the axes of data, model, mechanism, ε and δ; a
// measurement, which is a [Walks] whose probe adds up quantities at each timestamp; and scores,
// each of which makes a sample of clusters a value with an interval. One runner walks all traces of
// all points. Results become one long table with a column for each axis, one for the metric and one
// for the value, and all that is shown is a projection of it ([report.Table]): the figures' lines,
// the tables to read, the files.
//
//	study.go        what is measured: options, variants, cases and points
//	data.go         data sets cut into traces, models without and of their users; places.go
//	walk.go         a trace walked at a point; sums.go adds up, with intervals over users or runs
//	engine.go       pieces of work, each a function of its inputs alone, and their results
//	all.go          all of them, by name
//	section.go      how they are carried out, and shown; words.md has the text
//	errors.go       the paper's metrics on whole traces, and what a score is
//	overtime.go     one trace over time
//	parameters.go   many traces over ε and δ
//	knn.go          nearest places asked from releases
//	adversaries.go  what those learn who know more or less than the model
//	mechanisms.go   all mechanisms beside each other
//
// A further experiment is a further value in [All], with its words in words.md. What two
// experiments plan is measured once.
//
// Results are the same bits whatever the number of goroutines: each piece has noise of its own,
// keyed by what it is, and sums run in one order. What is reported of many users are aggregates;
// what shows one person's trace (over time) is only for people who may see the data.
package experiment
