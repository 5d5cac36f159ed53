package erase

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/mechanism"
)

// ReceiptVersion is the version of a receipt's fields.
const ReceiptVersion = 1

// Receipt says that a user was erased from one partition, without personal data: holders of the
// key can compute Subject of an id and find its receipt, and nobody else can.
type Receipt struct {
	Receipt  int       `json:"receipt"` // ReceiptVersion
	ErasedAt time.Time `json:"erased_at"`
	Subject  string    `json:"subject"` // keyed hash of the user's id
	Group    string    `json:"group"`
	// Partition and RawOffset say from where on the user's raw records were processed without the
	// state. Of counts alone it is a later offset once the cleaner has removed the erasure's mark.
	Partition int32 `json:"partition"`
	RawOffset int64 `json:"raw_offset"`
	// ChangelogTombstoneOffset is nil when the cleaner has removed the tombstone too.
	ChangelogTombstoneOffset *int64 `json:"changelog_tombstone_offset"`
	Settings                 string `json:"settings,omitempty"` // fingerprint; counts have none
	// Changelog are the broker's settings that say when the erased bytes leave its disk.
	Changelog map[string]string `json:"changelog"`
	// GoneBy is when the changelog's files hold neither the state nor the id any more, at the
	// latest; nil if the settings promise no time. GoneByNote says on which conditions, or what to
	// set.
	GoneBy     *time.Time `json:"gone_by"`
	GoneByNote string     `json:"gone_by_note"`
	Account    Account    `json:"account"`
	LocalStore string     `json:"local_store"`
	// Smoothed and Counted say the same of the services that smooth the sanitized records and that
	// count the raw ones.
	Smoothed string   `json:"smoothed"`
	Counted  string   `json:"counted"`
	Remains  []string `json:"remains"`
}

// Account says what became of the user's account of ε.
type Account struct {
	Kept bool `json:"kept"`
	// NeededUntil is the day from which on no window of the budget holds anything of it: the
	// account can then go with --reset-budget, if the user has not come back. Nil: it is needed
	// forever, or none is kept.
	NeededUntil *string `json:"needed_until"`
	Note        string  `json:"note"`
}

// The changelog's settings in a receipt, by Kafka's names.
const (
	cleanupPolicy   = "cleanup.policy"
	maxLag          = "max.compaction.lag.ms"
	deleteRetention = "delete.retention.ms"
	segmentMS       = "segment.ms"
	retentionMS     = "retention.ms"
)

// reporter makes receipts. smoothed and counted say of users what became of them in the other
// services.
type reporter struct {
	*eraser
	smoothed, counted map[string]string
}

// receipter makes the receipts of the users who are erased from a partition.
type receipter func(ctx context.Context, p int32, found map[string]*userFound) ([]Receipt, error)

// Settings are those of the changelog that GoneBy takes.
func Settings() []string { return []string{cleanupPolicy, maxLag, deleteRetention, segmentMS} }

// done is how many users are erased.
func done(found map[string]*userFound) (n int) {
	for _, f := range found {
		if !f.pending {
			n++
		}
	}
	return n
}

// receipts makes those of the users who are erased from a partition.
func (e reporter) receipts(ctx context.Context, p int32, found map[string]*userFound) (
	[]Receipt, error,
) {
	return e.complete(ctx, p, found, e.remains, e.sanitized)
}

// countedReceipts is receipts of the service that counts, where it is alone.
func (e reporter) countedReceipts(ctx context.Context, p int32, found map[string]*userFound) (
	[]Receipt, error,
) {
	return e.complete(ctx, p, found, e.countedRemains, e.alone)
}

// complete makes the receipts of a partition's users: with what remains, and with what about fills
// in. Where that finds nothing to tell, there is no receipt.
func (e reporter) complete(
	ctx context.Context, p int32, found map[string]*userFound,
	remains func(context.Context) ([]string, error),
	about func(r *Receipt, user string, f *userFound) (told bool, err error),
) (made []Receipt, err error) {
	if done(found) == 0 {
		return nil, nil
	}
	blank := Receipt{Receipt: ReceiptVersion, Group: e.o.Group, Partition: p}
	blank.Changelog, err = admin.Configs(ctx, e.client, wire.Options{}, e.o.Topics.Changelog,
		Settings()...)
	if err != nil {
		return nil, fmt.Errorf("the receipt: %w", err)
	}
	if blank.Remains, err = remains(ctx); err != nil {
		return nil, fmt.Errorf("the receipt: %w", err)
	}
	local, err := folder{e.eraser}.erase(ctx, p, found)
	if err != nil {
		return nil, err
	}
	subjects := engine.NewEraser(e.o.Key)
	for _, user := range sorted(found, e.o.Users) {
		f := found[user]
		if f.pending {
			continue
		}
		r := blank
		r.Subject = hex.EncodeToString(subjects.Subject(nil, []byte(user)))
		r.LocalStore = local.about(user)
		if f.tombstone >= 0 {
			r.ChangelogTombstoneOffset = &f.tombstone
		}
		told, err := about(&r, user, f)
		if err != nil {
			return nil, err
		}
		if told {
			made = append(made, r)
		}
	}
	return made, nil
}

// sanitized fills in what the service that sanitizes has kept of a user: nothing, where somebody
// without a state was to be erased.
func (e reporter) sanitized(r *Receipt, user string, f *userFound) (told bool, err error) {
	kept, err := engine.DecodeKept(f.kept)
	n := len(kept.Erasures)
	if err != nil || n == 0 {
		return false, err
	}
	r.ErasedAt, r.RawOffset = time.UnixMilli(kept.TimeMS).UTC(), kept.Erasures[n-1].Offset
	r.Settings = hex.EncodeToString(e.o.Fingerprint())
	r.Smoothed, r.Counted = e.smoothed[user], e.counted[user]
	r.GoneBy, r.GoneByNote = GoneBy(r.ErasedAt, r.Changelog)
	r.Account, err = e.account(kept)
	return true, err
}

// alone fills in what the service that counts knows of a user, where it is alone.
func (e reporter) alone(r *Receipt, _ string, f *userFound) (told bool, err error) {
	r.ErasedAt, r.RawOffset = time.UnixMilli(f.erasedMS).UTC(), f.input
	r.Account = Account{Note: "counts have no account of ε, so needed_until is null"}
	r.Smoothed, r.Counted = notSmoothed, erasedCounted
	r.GoneBy, r.GoneByNote = GoneBy(r.ErasedAt.Add(e.o.Counted.Open), r.Changelog)
	r.GoneByNote = fmt.Sprintf("counted from when the user's day is closed, %v after the "+
		"erasure at most while the service is at work. ", e.o.Counted.Open) + r.GoneByNote
	return true, nil
}

// countedRemains is remains of the service that counts, where it is alone.
func (e reporter) countedRemains(ctx context.Context) (list []string, err error) {
	const counts = "%s, in which the user counted: they name nobody (%s)"
	for _, t := range []struct{ about, topic string }{
		{"raw topic %s: %s", e.o.Topics.Raw},
		{"true counts, topic " + counts, e.o.Topics.Sanitized},
		{"published counts, topic " + counts, e.o.Counted.Published},
	} {
		kept, err := e.retention(ctx, t.topic)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf(t.about, t.topic, kept))
	}
	return append(list, hoursRemain+e.o.Topics.Changelog, foldersRemain, downstreamRemains), nil
}

// GoneBy returns when neither state nor id is in the changelog's files any more, at the latest, nil
// if its settings promise no time; and a note on it.
//
// The cleaner has to take up a segment max.compaction.lag.ms after its first record at the latest
// (KIP-354), and the segment at work is closed by then, if a record arrives. That removes the state
// and leaves the tombstone, whose key is the id. It is removed by the first cleaning that comes
// delete.retention.ms later, which takes another lag.
func GoneBy(erased time.Time, changelog map[string]string) (*time.Time, string) {
	lag, deleted := milliseconds(changelog[maxLag]), milliseconds(changelog[deleteRetention])
	const century = 100 * 365 * 24 * time.Hour
	if lag <= 0 || lag > century || deleted < 0 || deleted > century {
		return nil, "not promised: under these settings Kafka may leave old records of the " +
			"changelog where they are for any time. Set max.compaction.lag.ms of the topic, for " +
			"example to 86400000 (a day): the receipt of a repeated command then has a time"
	}
	by := erased.Add(2*lag + deleted).UTC()
	return &by, "from then on Kafka's cleaner should have removed the state and then the id from " +
		"the changelog's files: two runs, each within max.compaction.lag.ms, and " +
		"delete.retention.ms between them. Three things delay it: the time of the runs, " +
		"timestamps of raw records that lie in the future, and a partition that is not written to"
}

// milliseconds reads a setting; -1 if it is no time.
func milliseconds(text string) time.Duration {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// account says what is kept of an account and until when it is needed.
func (e reporter) account(kept engine.Kept) (Account, error) {
	last := kept.Erasures[len(kept.Erasures)-1]
	budget := e.o.Release.Budget
	spent, err := kept.Spent()
	switch {
	case err != nil:
		return Account{}, err
	case last.Reset:
		return Account{Note: "dropped, as asked (--reset-budget), so needed_until is null: " +
			"should the user come back, the account starts at Σε = 0 beside what is published " +
			"already, and no guarantee covers both together. What stays is a keyed hash, the " +
			"number of releases and the last step, so that no noise is used twice, and the raw " +
			"offset above, so that \"state verify\" can still compute the user's records"}, nil
	case spent == 0:
		return Account{Note: "no separate account is kept, so needed_until is null: the user " +
			"has come back and goes on with it, or never had a release"}, nil
	}
	a := Account{Kept: true, Note: "kept under the keyed hash above, without the id and without " +
		"any place: number, times and ε of releases, and the last step. "}
	switch {
	case budget.Lifetime > 0:
		a.Note += "needed_until is null because a budget for the user's lifetime needs it forever"
	case budget.WindowSteps > 0:
		var s mechanism.State
		if err := s.DecodeBinary(kept.Account); err != nil {
			return Account{}, err
		}
		const day = 24 * time.Hour
		last, _ := s.Ledger.Last()
		ms := budget.Until(last, e.o.Model.Step.Milliseconds())
		// Rounded up to days: it would tell the minute of the last release.
		until := time.UnixMilli(ms).UTC().Add(day - 1).Truncate(day).Format(time.DateOnly)
		a.NeededUntil = &until
		a.Note += "From needed_until on, by the producers' clock, the budget does not need it. " +
			"Nothing removes it by itself: run \"geodither erase -c FILE --user ID " +
			"--reset-budget\" after that day, but only if \"geodither state inspect -c FILE " +
			"--user ID\" finds no state: a user who has come back goes on with this account"
	default:
		a.Note += "needed_until is null because no budget is set: the account serves nothing but " +
			"the sums that are reported"
	}
	return a, nil
}

// Retention says how long a topic keeps its records, from its settings cleanup.policy and
// retention.ms.
func Retention(settings map[string]string) string {
	ms := milliseconds(settings[retentionMS])
	switch {
	case settings[cleanupPolicy] == "compact":
		return "compacted, forever, unless a tombstone is written"
	case ms < 0:
		return "forever: it has no retention.ms"
	}
	return fmt.Sprintf("until its retention, %v after each record", ms)
}

// retention is Retention of a topic.
func (e reporter) retention(ctx context.Context, topic string) (string, error) {
	c, err := admin.Configs(ctx, e.client, wire.Options{}, topic, cleanupPolicy, retentionMS)
	if err != nil {
		return "", err
	}
	return Retention(c), nil
}

// remains lists what the command does not reach.
func (e reporter) remains(ctx context.Context) ([]string, error) {
	raw, err := e.retention(ctx, e.o.Topics.Raw)
	if err != nil {
		return nil, err
	}
	sanitized, err := e.retention(ctx, e.o.Topics.Sanitized)
	if err != nil {
		return nil, err
	}
	dead, err := e.retention(ctx, e.o.Topics.DeadLetters)
	if err != nil {
		return nil, err
	}
	list := []string{
		fmt.Sprintf("raw topic %s: %s", e.o.Topics.Raw, raw),
		fmt.Sprintf("sanitized topic %s: %s", e.o.Topics.Sanitized, sanitized),
		fmt.Sprintf("dead letters %s: %s; without an id, with the offset, the time and the reason "+
			"of each refused record, of which outside_map says something about the place",
			e.o.Topics.DeadLetters, dead),
		foldersRemain,
		"the keyed hash above, with the raw offset, in the changelog",
		"topics and state folders of \"geodither replay\", if there was one",
		"models that were trained on fixes of the user: train them again " +
			"without the user",
		"that there was an erasure, to readers of the sanitized records: if the user " +
			"comes back, the first estimate starts from the map's popular places",
		downstreamRemains,
	}
	if s := e.o.Smoothed; s != nil {
		list = append(list, fmt.Sprintf("smoothed topic %s, if there is one: until its retention",
			s.Topics.Sanitized))
	}
	if c := e.o.Counted; c != nil {
		list = append(list, fmt.Sprintf("published counts, and those of topic %s, in which the "+
			"user counted: they name nobody", c.Topics.Sanitized),
			hoursRemain+c.Topics.Changelog)
	}
	return list, nil
}

// What remains after each erasure.
const (
	foldersRemain = "state folders: a running instance's is erased within fifteen seconds. One " +
		"of an instance that is stopped, or that had the partition before or was its standby, " +
		"keeps its copy until it restores the partition; stores that were set aside " +
		"(store.aside-N) keep theirs. Remove such copies with \"geodither state reset\""
	downstreamRemains = "everything downstream of the topics, and backups"
	hoursRemain       = "the hours in which the user has counted on a day that is not closed, " +
		"without a place, under the SHA-256 of the id. It has no key: a reader who has a list of " +
		"ids finds whose hours they are. Until Kafka's cleaner has been there after the day is " +
		"closed, in changelog "
)

// What a receipt says of the services beside the one that sanitizes.
const (
	notSmoothed = "there is no service that smooths: the config has neither smooth nor " +
		"topics.smoothed, or its changelog was never made"
	notCounted = "there is no service that counts: the config has no section counts, or its " +
		"changelog was never made"
	nothingThere   = "nothing was stored there"
	erasedSmoothed = "removed from the changelog of the service that smooths; its records of the " +
		"user stay until the topic's retention. "
	erasedCounted = "removed from the changelog of the service that counts. Until the day ends " +
		"there, it keeps the hours of that day in which the user has counted, without a place, " +
		"so that the user cannot count twice. "
)

// follower is the part of an eraser about another service. Nothing of an account of ε is there.
type follower struct {
	*eraser
	does         string // what the service does
	none, erased string // what a receipt says
	about        map[string]string
}

// erase erases users there, by the names that they have there, and returns for each what to say of
// it. An error is of that service alone.
func (f follower) erase(
	ctx context.Context, of *eraser, named func(user string) string,
) (map[string]string, error) {
	f.about = map[string]string{}
	for _, user := range of.o.Users {
		f.about[user] = f.none
	}
	if f.eraser == nil {
		return f.about, nil
	}
	changelog := f.o.Topics.Changelog
	counts, err := admin.Partitions(ctx, f.client, wire.Options{}, changelog)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return f.about, nil
	}
	users := map[string]string{} // by the name there
	for _, user := range of.o.Users {
		name := named(user)
		users[name], f.about[user] = user, nothingThere
		f.o.Users = append(f.o.Users, name)
		f.want(name)
	}
	pending := 0
	for p := int32(0); err == nil && p < int32(counts[changelog]); p++ {
		var n int
		n, err = f.partitionThere(ctx, p, users)
		pending += n
	}
	if err != nil {
		return f.about, fmt.Errorf("the service that %s (group %s): %w", f.does, f.o.Group, err)
	}
	if pending > 0 {
		err = fmt.Errorf("%w from the service that %s: %d. %s", ErrPending, f.does, pending,
			f.advice(ctx))
	}
	return f.about, err
}

// partitionThere erases users from a partition, and returns how many are not erased yet.
func (f follower) partitionThere(
	ctx context.Context, p int32, users map[string]string,
) (pending int, err error) {
	found, err := f.partition(ctx, p)
	var local said
	if err == nil && len(found) > 0 {
		local, err = folder{f.eraser}.erase(ctx, p, found)
	}
	for name, is := range found {
		f.about[users[name]] = f.erased + "Its state folder: " + local.about(name)
		if is.pending {
			pending++
			f.about[users[name]] = fmt.Sprintf("asked for, but not erased yet, in the "+
				"service that %s: repeat this command", f.does)
		}
	}
	return pending, err
}
