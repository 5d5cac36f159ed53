// Package monitor tells operators and their machines how an instance is: over HTTP, under /live,
// /ready, /metrics and /status. Nothing that it tells is of a user or of a single record; it counts
// raw traffic all the same, so the listener belongs inside. deploy/ONCALL.md explains the
// answers to their readers.
//
// Data flows one way: the service writes on a Board what it does, the engine counts what comes of
// records, and the handlers read both when somebody asks. So the service knows nothing of HTTP, and
// the numbers of /metrics are those that the log has.
//
// Files: board.go what an instance writes down, and what follows from it: whether it is ready, and
// whether it is stalled, and what it measures while it works; metrics.go the rest of /metrics;
// status.go where the answers come from, and those in JSON; server.go the listeners; events.go
// names of log lines that stay.
package monitor
