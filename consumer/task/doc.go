// Package task runs one input partition: its life from assignment to release, and its transaction
// loop. It is pure control over small interfaces. It knows neither Kafka's protocol nor what a
// record means, so a simulator can crash it at every call (see the tests).
//
// # The promise
//
// The committed output holds what the Processor made of each input record, once and in input order,
// whatever crashes, fences, timeouts and ambiguous answers happen. One transaction carries outputs,
// dead letters, the changelog of states, and the input offset. The Store is written after the
// transaction is known to be committed. The store may lag behind the changelog and never leads it,
// and it may lose any suffix of what was applied. A reader of uncommitted data may see a result
// again, but never two different results of one record, unless somebody has allowed that
// (AcceptSettings; SkipLost says when).
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
// The table of allowed transitions is in lifecycle.go. Any other transition is a bug and panics.
// While it is committing, a task may read and process the records of the next transaction; see
// below.
//
// Everything that goes wrong and is not Leave or Fatal takes one path: drop the overlay, abort,
// wait, and be assigned again, that is Fence, then Committed, then restore, then run. It is the
// path of a fresh start, so every start exercises it. In particular, an unknown outcome of Commit
// needs no code of its own: Fence completes or aborts the open transaction, Committed says which of
// both it was, and the changelog holds the states if it was committed.
//
// # A commit beside the next records
//
// Waiting for the broker's answers to Produce and Commit takes a quarter to a third of a busy
// partition's time. So the task hands a complete transaction to a second goroutine, and goes on
// with the next records:
//
//	task:      process 1 ─► launch 1 ─► process 2 ───────► land 1 ─► launch 2 ─► process 3
//	                           │                              ▲
//	beside it:                 └─► Produce 1 ─► Commit 1 ─────┘
//
// There is one such goroutine at most, and it makes nothing but these two calls. What the task
// makes meanwhile goes into a second overlay, in memory. Reads look there first, then into the
// overlay of the transaction in flight, then into the store: together these are what the store will
// hold, if everything goes well.
//
// No reader, even of uncommitted data, can tell the difference:
//
//   - Nothing of transaction 2 leaves the process before the commit of transaction 1 is definite:
//     launch 2 waits for land 1. So at each moment a reader has been shown the committed
//     transactions and at most one other, and this one begins where those end. That is so without
//     the overlap too.
//   - Transaction 2 was made from the states that transaction 1 leaves. If transaction 1 fails, or
//     its outcome is unknown, drop throws both away, and the task is assigned again. It processes
//     the records again, from the states that are committed by then.
//   - The store is written at land 1, after the commit and on the task's own goroutine, before
//     anything later is written. So it never leads, and its users see calls one after another.
//   - Where a transaction ends may depend on the clock and on the broker, as MaxInterval does by
//     itself. What a record gives depends on the record, on the state that the records before it
//     leave, and on settings and versions: on nothing that says where a transaction ends.
//
// Two things ask for more than a state: that everything that was written is committed. They are
// erasures and a mark that a stop closes. Each of them ends in a transaction of its own that is not
// written beside anything: commit lands the transaction in flight first, and returns when its own
// one is in the store. An erasure also reads the states to erase from the store, so it lands before
// that. An idle task lands as well, because it has nothing to do meanwhile.
//
// A call that answers Retry ends the goroutine. The task repeats the call itself when it lands, so
// that waits between repetitions, and what the Observer hears of them, stay with the task.
//
// # Why the order matters
//
// The task reads the committed offset after fencing. Before that, a predecessor's commit may be on
// its way: the task would read the old offset, process records again, and publish them twice. It
// reads the changelog's end after fencing too, because a restoration could otherwise miss the
// predecessor's last states.
//
// # The changelog
//
// It holds full values, at most one for each key and transaction, and in each transaction one
// record under MarkKey: a Mark, with the input offset that the transaction commits. After a
// restoration the mark must agree with the committed offset, because the same transaction wrote
// both. If it does not, somebody has moved the group's offsets or the cluster has lost data, and
// going on would publish wrong results: the task stops with that error. If the group's offset has
// expired, the mark stands in for it.
//
// An empty changelog is good only where nothing was ever processed: where the group has no offset
// or 0, and no transaction has ever written the store. Otherwise it is lost. The task then leaves
// the store as it is and ends with ErrLost, unless Options.AcceptLost. A changelog that has records
// and no mark is another topic.
//
// A changelog that is deleted and made again while the task works shows at the next transaction,
// before its commit: the transaction's records lie at offsets that were taken before. So nothing is
// ever committed beside an empty changelog.
//
// The store gets the marks too. So the store alone is enough to write a lost changelog back.
//
// # Settings
//
// A reader of uncommitted data sees the records of aborted transactions too. A record that is
// processed again must therefore give the same bytes. Options.Settings names everything that the
// bytes depend on except versions. The last mark tells a worker whether another worker's records
// may be in the way:
//
//	                 the first records of an assignment:
//	                 a mark alone, with own settings
//	none, closed ─────────────────────────────────────────► open
//	     ▲                                                   │ every transaction:
//	     └───────────────────────────────────────────────────┘ open
//	       a clean stop (the context, End), if all that may
//	       have been seen is committed
//
// Open means that a worker may have written more than it has committed. With the same settings that
// harms nobody. With other settings the task ends with ErrSettings, unless Options.AcceptSettings.
// The task commits the mark before it writes any record. So a worker whose first mark is refused,
// such as a zombie, has shown nothing to anybody.
//
// Accounts of erased keys are kept under names that depend on some of the settings. A task of other
// names that finds such an account ends with ErrKept, unless Options.AcceptLost. So does one of
// another partitioner than the last mark's, with ErrPartitioner, whatever states there are.
//
// A stop without an error is not always clean. If a transaction was aborted and its records were
// not committed since, the mark stays open. A task that has found the mark open does not know how
// far its predecessor went; it closes the mark when it has committed everything that was in the
// input when it began.
//
// Mark.Source is the identity of the input topic. In a topic that was deleted and created again,
// offsets mean something else, so the task ends with ErrSource.
//
// # A log that lost its end
//
// An election that is not clean, or a disk that was put back, takes the last records of the input
// away, and later ones get their offsets. An offset does not show that, if the log is longer again.
// The mark therefore holds the leader epoch of what was processed (KIP-320). The broker says where
// that epoch ends in the log as it is now. If that is before the mark's offset, other records lie
// there, and the task ends with ErrInputLost. It asks at each start, and before it processes
// records of another epoch. The group's offset would be a second home for the epoch, which expires,
// and which people set by hand.
//
// # Versions
//
// Some of what the bytes depend on changes in the course of the input, such as a model: a list of
// versions (Options.Versions), each with a start. The time of a record (Effects.Time) decides which
// of them count for it, so the list as a whole gives the same bytes whenever it is read. To change
// the list, a caller stops the task and starts one with another list. Two rules make that the same
// as a list that was there from the beginning:
//
//   - Mark.Latest is the highest time that was processed. The versions that start before or at it
//     must stay, and none may be added there. Otherwise the task ends with ErrVersions. No record
//     that was processed depends on a later version, which may go or be replaced.
//   - Records beyond a mark that was found open may have been shown, with times beyond Latest. So
//     another list needs a clean stop, as other settings do (ErrSettings).
//
// The list belongs to the settings: other settings may come with another one.
//
// # Erasures
//
// A key's state can be erased while the task works (Eraser). A caller that wants that fences the
// task and writes a request into the changelog; the owner that comes next carries it out. It does
// so where nobody can have seen results from that input offset on: a record that is processed again
// without the state would give other bytes. What remains of an erased key, such as an account, lies
// under a name that does not tell the key, and is recalled with its next record.
//
// # Idle partitions
//
// Reading moves past aborted and control records without a transaction of the task. If the
// committed offset stayed before them, retention could remove them, and the input would look lost.
// So an idle task commits the offset now and then, and a clean stop does too, in a transaction of
// the mark alone. It waits up to five seconds in each fetch, which the broker ends early when there
// is a record.
//
// # States of the partition, and times
//
// A Partitioned processor has states of the whole partition beside those of keys. It holds them in
// its memory, and hands what has changed to each transaction, which writes it under PartitionKey
// and a name. So they are committed, restored, wiped and followed as the states of keys are, and
// every restoration gives them back. Several small states cost less than a large one, of which each
// transaction would write everything.
//
// Such a processor may publish when the partition was read past an append time, for example the
// counts of a window. No record says that: its time is a broker's, and after a broker whose clock
// is ahead, records of an earlier time come. So the task tells the processor that a time was
// passed. What it does about that joins the transaction in hand, or is one of its own, that leaves
// the input offset where it is. It may follow at another offset where it was aborted, and must be
// the same bytes. For that, no record of an earlier time may come after the call:
//
//   - The task asks for the input's end when its clock is Options.Skew beyond the time, so whatever
//     a broker had appended by then is in the log.
//   - It asks for the whole end and not for the stable one: a record of a transaction that is still
//     open already has its append time.
//   - It goes on when it has read up to that end.
//
// A record with an earlier time can then come only if clocks are further apart than Skew, or if
// replication took longer. The processor finds in its state that the time was passed, and decides.
// No record passes a time: a broker whose clock is ahead passes none for others. While clocks and
// replication keep within Skew, what one key adds never decides about the records of another.
// Beyond Skew that is not promised: a time is passed where the input is read up to its end, and how
// soon that is depends on all records.
//
// The marks count records, and do not see what a worker has shown of times. So after a mark that
// was found open, everything is committed only when the task has passed all times that its
// predecessor may have passed. Until then the mark stays open.
//
// States of keys may lose their meaning with time (Partitioned.Expires). The task then removes
// them, some in each of a few transactions of their own, where a transaction would begin and in an
// idle partition. No output depends on when that happens.
//
// Files: task.go the life of a task; lifecycle.go its states; consume.go the transaction loop;
// flight.go the transaction that is being written; restore.go how the store catches up with the
// changelog; settings.go, mark.go what the marks say; overlay.go what a transaction will write;
// erase.go, request.go how a key is erased; pass.go states of the partition, and times;
// interfaces.go, options.go, observer.go, remedy.go what the task needs and what it says.
package task
