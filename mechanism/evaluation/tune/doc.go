// Package tune searches for how to release: on traces it measures which errors plans of a day's
// releases lead to, on users that the model was not trained on, at each of some Σε a day.
//
//	setting.go  what is chosen: a plan, and the model's mechanism, cell, step and calendar
//	fixes.go    the traces, kept thin enough for memory and dense enough for any of the steps
//	split.go    who a choice is made on and who it is checked on; their days, and samples of them
//	measure.go  settings measured on a sample, on all cores
//	summary.go  what a measurement comes to: errors, their interval, and what they gain
//	options.go  what is tried, and what for
//	search.go   scout, measure the best, look for a target, promise, check
//	words.go    what to choose, in words
//	report.go   tables and the figure
//
// Everything that it returns are figures over all users. They come from the truth and are for
// whoever has the traces.
package tune
