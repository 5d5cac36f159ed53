// Package experiment repeats the experiments of Xiao and Xiong (CCS 2015, section 6) on traces,
// beside what geodither does otherwise, and reports them. What they share is in its folder study.
//
//	experiments.go  all of them; preface.go starts the report
//	overtime.go     one trace over time
//	parameters.go   many traces over ε and δ
//	knn.go          nearest places asked from releases
//	adversaries.go  what those learn who know more or less than the model; adversary.go is one
//	fleet.go        where a whole fleet is, from all its releases, by its size
//	mechanisms.go   all mechanisms beside each other, and the bound on them
//	claims.go       when a sentence of the paper holds; claims_list.go has the sentences
//
// An experiment is a type of its own on one data set, in a file that measures and a file that
// reports, with its words in a Markdown file beside them. A further one is a [study.Experiment] in
// [All]: a plan of pieces, each a function of its inputs alone, and a section of the report made of
// their results. One that judges what others measure plans the same pieces, by their names, and
// they are measured once.
//
// Results are the same bits whatever the number of goroutines: each piece has noise of its own,
// keyed by what it is, and sums run in one order. What is reported of many users are aggregates;
// what shows one person's trace (over time) is for the eyes of whoever has the data.
package experiment
