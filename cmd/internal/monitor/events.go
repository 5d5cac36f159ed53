package monitor

import (
	"context"
	"log/slog"
	"strings"
)

// event is a name in snake case, and how the messages begin that it is of. Alerts on a log need
// names that stay, because messages are free to change. deploy/EVENTS.md lists them for operators;
// tests hold the list against what the code logs, and against that file.
type event struct{ name, begins string }

// events has every line of level info and above that a service may log. No beginning is one of
// another.
var events = []event{
	{"http_listening", "listening for HTTP"},
	{"page_failed", "an answer of the page failed"},
	{"kafka_protocol", "connecting to Kafka"},
	{"start_warned", "a check before the start warns"},
	{"expected_error", "expected error if people move"},
	{"expected_error_high", "the expected estimate gains little"},
	{"topics_awaited", "waiting for Kafka and its topics"},
	{"topics_found", "found Kafka and its topics"},
	{"topic_made", "a topic was missing and has been made"},
	{"raw_topic_made", "the raw topic was missing and has been made"},
	{"schema_awaited", "waiting for the schema registry"},
	{"schema_found", "found the schema in the registry"},
	{"placement_awaited", "waiting to look at the first raw records"},
	{"once_allowed", "a flag for one start is set"},
	{"account_restarted", "--accept=lost-account is set and the changelog is empty"},
	{"settings_changed", "settings have changed since"},
	{"settings_begin", "begins under the changed settings"},
	{"settings_accepted", "--accept=settings is set and the last worker ended"},
	{"started", "started"},
	{"stopped", "stopped"},
	{"progress", "progress"},
	{"partitions_assigned", "partitions assigned"},
	{"group_rejoining", "joining the group again"},
	{"group_leave_failed", "the group may wait for this instance"},
	{"partition_given_up", "partition given up"},
	{"partition_lost", "partition lost"},
	{"state_restoring", "restoring state"},
	{"state_restored", "state restored"},
	{"transaction_dropped", "transaction dropped"},
	{"registry_awaited", "records wait for the schema registry"},
	{"retrying", "waiting to try again"},
	{"kafka_away", "calls to Kafka fail"},
	{"kafka_still_away", "calls to Kafka still fail"},
	{"kafka_back", "contact restored"},
	{"output_unwritten", "an output cannot be written"},
	{"output_written", "an output can be written again"},
	{"transaction_open", "records wait behind an open transaction"},
	{"kafka_throttled", "brokers throttle this client"},
	{"records_held", "raw records wait until it is known"},
	{"records_refused", "most records are refused"},
	{"records_refused", "every record is refused"},
	{"many_refused", "more than a tenth of the records is refused"},
	{"times_of_producers", "records that have their producers' times"},
	{"fixes_late", "fixes came after their window was closed"},
	{"records_misplaced", "records are refused (wrong_partition)"},
	{"records_key_destroyed", "fixes were refused since the noise key"},
	{"records_all_skipped", "a rule of the section input skips every record"},
	{"users_erased", "users erased"},
	{"records_outside", "many fixes lie outside the map"},
	{"changelog_missing", "the changelog is missing"},
	{"changelog_cut", "the changelog does not begin at offset 0"},
	{"store_failed", "state: the store has failed"},
	{"store_kept", "state: a copy of the store is kept"},
	{"store_set_aside", "state: a store that cannot be used was set aside"},
	{"store_unmarked", "state: could not leave a note"},
	{"store_slow", "state: writes wait for the disk"},
	{"store_complains", "state: pebble complains"},
}

// OtherEvent is the event of a line that the list does not have, such as one of a library's.
const OtherEvent = "other"

// eventOf returns the name of the event that a message is of.
func eventOf(message string) string {
	for _, e := range events {
		if strings.HasPrefix(message, e.begins) {
			return e.name
		}
	}
	return OtherEvent
}

// NameEvents returns a handler that adds the attribute event to lines of level info and above, and
// hands them on.
func NameEvents(h slog.Handler) slog.Handler { return named{h} }

type named struct{ slog.Handler }

// Handle implements slog.Handler.
func (n named) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelInfo {
		return n.Handler.Handle(ctx, r)
	}
	own := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	own.AddAttrs(slog.String("event", eventOf(r.Message)))
	r.Attrs(func(a slog.Attr) bool {
		own.AddAttrs(a)
		return true
	})
	return n.Handler.Handle(ctx, own)
}

// WithAttrs implements slog.Handler.
func (n named) WithAttrs(attrs []slog.Attr) slog.Handler {
	return named{n.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (n named) WithGroup(name string) slog.Handler { return named{n.Handler.WithGroup(name)} }
