//go:build !race

package private

const raceDetector = false
