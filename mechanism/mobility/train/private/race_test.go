//go:build race

package private

// raceDetector: under it work takes ten times as long, and tests do less of it.
const raceDetector = true
