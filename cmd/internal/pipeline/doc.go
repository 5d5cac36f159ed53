// Package pipeline runs the service and looks after what it leaves behind: group membership, one
// task a partition, transactions and the checks before a start; verification, replay, inspection,
// diagnosis, and the resetting and rebuilding of state. What happens to a record is
// [github.com/geodither/geodither/cmd/internal/engine]'s.
package pipeline
