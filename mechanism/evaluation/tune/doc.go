// Package tune searches for how to release: on traces it measures which errors settings lead to, on
// users that the model was not trained on, beside what they cost in ε.
//
//	setting.go  what is chosen: mechanism, cell, step, release interval, ε, δ; its cost a day
//	fixes.go    the traces, kept thin enough for memory and dense enough for any of the steps
//	split.go    who a choice is made on and who it is checked on; samples of their trips
//	measure.go  settings measured on a sample, on all cores
//	summary.go  what a measurement comes to: the median error, its interval, the metric's factors
//	options.go  what is tried, and what for
//	search.go   scout, measure what is near the frontier, refine towards a target, promise, check
//	aim.go      how a setting is moved towards a target
//	words.go    what to choose, in words
//	report.go   tables and figures
//
// Everything that it returns are figures over all users. They come from the truth and are for
// whoever has the traces.
package tune
