//go:build !race

package mobility

const raceDetector = false
