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
// never leads it, and it may lose any suffix of what was applied. A reader of
// uncommitted data may see a result again, but never two different ones of one
// record, unless somebody has allowed it (AcceptSettings; SkipLost says when).
//
// # Life of a task
//
//	           ┌──────────────── suspended ◄────────────────┐
//	           ▼                     ▲  ▲                   │ Retry used up,
//	created ─► fencing ─► restoring ─┘  │                   │ Rebuild
//	                          │         │                   │
//	                          └────► running ◄──────► committing
//	                                    │                   │
//	 End; Leave, Fatal or the context   ▼                   ▼
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
// transaction one record under MarkKey: a Mark, with the input offset that the
// transaction commits. It must agree with the committed offset after a restore:
// both were written by the same transaction. If it does not, somebody has moved
// the group's offsets or the cluster has lost data, and going on would publish
// wrong results; the task says so and stops. If the group's offset has expired,
// the mark stands in for it.
//
// An empty changelog is good only where nothing was ever processed: where the group
// has no offset or 0, and the store has never been written by a transaction. Else it
// is lost, and the task ends with ErrLost and leaves the store as it is, unless
// Options.AcceptLost. A changelog that has records and no mark is another topic.
//
// A changelog that is deleted and made again while the task works is seen at the next
// transaction, before its commit: its records come to lie at offsets that were taken
// (lost.go). So nothing is ever committed beside an empty changelog.
//
// The store gets the marks too. With its states, it is then all that is needed to
// write a lost changelog back.
//
// # Settings
//
// A reader of uncommitted data sees the records of aborted transactions too. What
// is processed again must then give the same bytes, and Options.Settings names
// all that they depend on but amendments. The last mark tells a worker whether others may be
// in the way:
//
//	                 the first records of an assignment:
//	                 a mark alone, with own settings
//	none, closed ─────────────────────────────────────────► open
//	     ▲                                                   │ every transaction:
//	     └───────────────────────────────────────────────────┘ open
//	       a clean stop (the context, End), if all that may
//	       have been seen is committed
//
// Open means that a worker may have written more than it has committed. Under the
// same settings that harms nobody. Under others the task ends with ErrSettings,
// unless Options.AcceptSettings. The mark is committed before any record is
// written, so a worker whose first mark is refused, a zombie say, has shown
// nothing to anybody.
//
// A stop is not clean by being calm: when a transaction was aborted and its
// records not committed since, the mark stays open. A task that has found the
// mark open does not know how far its predecessor went; it closes it when all
// is committed that was in the input when it began.
//
// Mark.Source is the identity of the input topic: offsets of a topic that was
// made anew mean something else, and the task ends with ErrSource.
//
// # Amendments
//
// Some of what the bytes depend on changes while the task works: a new version of a
// model is put up. When it is seen depends on the clock and on the machine, so that
// alone must not decide which records are made with it. The offset decides from which it
// counts, and the changelog has the offset (Mark.Amendments): the task *adopts* it.
//
//	boundary at offset n           a mark alone: "v from n"          records from n on
//	nothing in hand, nothing seen ─────────────────────────► committed ─────────────► may know v
//	from n on by anybody                                         │
//	                                                             └► the Processor is told
//
// Three rules make every history one that could have happened without a fault:
//
//   - The amendment is committed before the first record is made with it, in a
//     transaction without results. If it carried results too, a death before its
//     commit would leave results made with v on show, behind a mark that knows no v.
//   - It counts from the offset that its own transaction commits, so no record that is
//     committed was made without it.
//   - Nothing from that offset on can have been seen. In one life that is so at every
//     boundary between transactions: all that was written is committed. Behind a mark that was
//     found open it is not, until all is committed that there was to read after the
//     fence: an adoption before that could show a record again, made with v.
//
// A worker that commits an adoption holds the newest epoch, so whoever comes after has
// found it in the last mark, or has made sure that it never will be there. Whoever
// wrote beyond the mark before has been fenced, and lies before that end. The list stays
// with the settings: other settings begin with an empty one.
//
// What the machine lacks that the list names, it waits for: Amended answers with an error,
// and the task is suspended with nothing processed.
//
// # Idle partitions
//
// Reading moves past aborted and control records, which no transaction of the
// task's follows. Left there, the committed offset could fall behind what
// retention keeps and look like lost input. So an idle task commits it now and
// then, and a clean stop does too, in a transaction of the mark alone.
package task
