//go:build race

package mobility

// raceDetector makes the same work allocate twice as many bytes, as measured, and take ten times as
// long: under it bounds are wider, and tests do less of the same.
const raceDetector = true
