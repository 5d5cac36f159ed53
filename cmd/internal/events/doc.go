// Package events gives the lines of a service's log names that stay. Whoever watches a log or makes
// alerts of it needs them, and messages are free to change. deploy/EVENTS.md lists them for
// operators. Tests hold the list against what the code logs, and against that file.
package events
