// Package cli has what the commands' flags and messages have in common: how they name files and
// write lengths, boxes and times, which errors are the user's, exit codes, the progress line,
// signals, and numbers in words.
package cli
