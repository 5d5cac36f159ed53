// Package topics reads topics: every partition, from an offset to an end that was fixed at the
// start, or on and on.
package topics
