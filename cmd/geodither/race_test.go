//go:build race

package main

// raceDetector slows the mathematics down thirtyfold: under it tests do less of
// the same.
const raceDetector = true
