// Package task runs one input partition: its life from assignment to release,
// and its transaction loop. It is pure control over small interfaces. It knows
// neither Kafka's protocol nor what a record means, so a simulator can crash it
// at every call (see the tests).
//
// # The promise
//
// The committed output holds what the Processor made of each input record,
// once, in input order, whatever crashes, fences, timeouts and ambiguous
// answers happen in between. One transaction carries outputs, dead letters,
// the changelog of states, and the input offset; the Store is written after the
// transaction is known to be committed. The store may lag the changelog, it
// never leads it, and it may lose any suffix of what was applied.
//
// # Life of a task
//
//	           ┌──────────────── recovering ◄───────────────┐
//	           ▼                     ▲  ▲                   │ Retry used up,
//	created ─► fencing ─► restoring ─┘  │                   │ Rebuild
//	                          │         │                   │
//	                          └────► running ◄──────► committing
//	                                    │                   │
//	      Leave, Fatal or the context   ▼                   ▼
//	      at any state: ────────────► closed ◄──────────────┘
//
// The table of allowed transitions is in lifecycle.go; any other is a bug and
// panics.
//
// There is one path for everything that goes wrong and is not Leave or Fatal:
// drop the overlay, abort, wait, and be assigned again, that is Fence, then
// Committed, then restore, then run. It is the path of a fresh start, so it is
// exercised by every start. In particular an unknown outcome of Commit needs no
// code of its own: Fence completes or aborts what was left open, Committed says
// which of both it was, and the changelog holds the states if it was committed.
//
// # Why the order matters
//
// The committed offset is read after fencing. Before it, a predecessor's
// commit may be in flight: one would read the old offset, process records
// again, and publish them twice. The changelog's end is taken after fencing too,
// else a restore could miss the predecessor's last states.
//
// # The changelog
//
// It holds full values, at most one per key and transaction, and in each
// transaction one record under MarkKey with the input offset that the
// transaction commits. It must agree with the committed offset after a restore:
// both were written by the same transaction. If it does not, somebody has moved
// the group's offsets or the cluster has lost data, and going on would publish
// wrong results; the task says so and stops. If the group's offset has expired,
// the mark stands in for it.
//
// A store that has ever been written by a transaction remembers that there was a
// mark. If the changelog has none, it is lost or another topic; then the task
// stops and leaves the store as it is. With no store either, an offset stands
// alone: the task believes it and tells the Observer (Restore.Assumed).
//
// # Idle partitions
//
// Reading moves past aborted and control records, which no transaction of the
// task's follows. Left there, the committed offset could fall behind what
// retention keeps and look like lost input. So an idle task commits it now and
// then, and a clean stop does too, in a transaction of the mark alone.
package task
