// Package service is one running instance of geodither: a member of a consumer group that runs a
// task for each partition it is given. It knows how Kafka, the tasks, the local store and the
// engine fit together: the checks before a start, the group, the transactions, the model's versions
// as they come, outages, and what goes to the log. What happens to a record is
// [github.com/geodither/geodither/cmd/internal/engine]'s, and when a transaction is committed is
// [github.com/geodither/geodither/consumer/task]'s. DESIGN.md says why it is built so.
package service
