package erase

import (
	"context"
	"encoding/hex"
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
	// latest; nil: the settings promise no time.
	GoneBy     *time.Time `json:"gone_by"`
	Account    Account    `json:"account"`
	LocalStore string     `json:"local_store"` // a code
	// Counted says the same of the service that counts the raw records.
	Counted Elsewhere `json:"counted"`
	Remains []Remain  `json:"remains"`
}

// Account says what became of the user's account of ε.
type Account struct {
	Kept bool   `json:"kept"`
	Code string `json:"code"`
	// NeededUntil is the day from which on no window of the budget holds anything of it: the
	// account can then go with --reset-budget, if the user has not come back. Nil: it is needed
	// forever, or none is kept.
	NeededUntil *string `json:"needed_until"`
}

// Codes of an account.
const (
	keptForWindow   = "kept_for_window"   // a budget over a window needs it until NeededUntil
	keptForLifetime = "kept_for_lifetime" // a budget for all time needs it
	keptForSums     = "kept_for_sums"     // no budget needs it
	dropped         = "dropped"           // as asked: Σε starts at 0 for who comes back
	noAccount       = "none"              // the user goes on with it, or never had a release
)

// Elsewhere says what became of a user in the service that counts.
type Elsewhere struct {
	Code       string `json:"code"`
	LocalStore string `json:"local_store,omitempty"` // its state folder on this machine
}

// Codes of a user in the service that counts.
const (
	noService     = "no_service"     // the config has none, or its changelog was never made
	nothingStored = "nothing_stored" // of the user
	removed       = "removed"        // from its changelog
	pending       = "pending"        // asked for: repeat the command
)

// Codes of a state folder on this machine, beside removed.
const (
	noFolder    = "no_folder"    // of this service
	noPartition = "no_partition" // it has nothing of this partition
	inUse       = "in_use"       // an instance has it open, and erases there itself
	cameBack    = "came_back"    // the user did in between: not touched
)

// Remain is something that the command does not reach.
type Remain struct {
	What        string `json:"what"` // a code
	Topic       string `json:"topic,omitempty"`
	RetentionMS *int64 `json:"retention_ms,omitempty"` // of a topic that has one: after each record
}

// The changelog's settings in a receipt, by Kafka's names.
const (
	cleanupPolicy   = "cleanup.policy"
	maxLag          = "max.compaction.lag.ms"
	deleteRetention = "delete.retention.ms"
	segmentMS       = "segment.ms"
	retentionMS     = "retention.ms"
)

// reporter makes receipts. counted says of users what became of them in the service that counts.
type reporter struct {
	*eraser
	counted map[string]Elsewhere
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
	remains func(context.Context) ([]Remain, error),
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
	r.Counted = e.counted[user]
	r.GoneBy = GoneBy(r.ErasedAt, r.Changelog)
	r.Account, err = e.account(kept)
	return true, err
}

// alone fills in what the service that counts knows of a user, where it is alone.
func (e reporter) alone(r *Receipt, _ string, f *userFound) (told bool, err error) {
	r.ErasedAt, r.RawOffset = time.UnixMilli(f.erasedMS).UTC(), f.input
	r.Account = Account{Code: noAccount}
	r.Counted = Elsewhere{Code: removed}
	// The hours go when the user's day is closed, if the service is at work.
	r.GoneBy = GoneBy(r.ErasedAt.Add(e.o.Counted.Open), r.Changelog)
	return true, nil
}

// countedRemains is remains of the service that counts, where it is alone.
func (e reporter) countedRemains(ctx context.Context) ([]Remain, error) {
	list, err := e.kept(ctx, []Remain{
		{What: "raw", Topic: e.o.Topics.Raw},
		{What: "true_counts", Topic: e.o.Topics.Sanitized},
		{What: "published_counts", Topic: e.o.Counted.Published},
	})
	return append(list, Remain{What: "counted_hours", Topic: e.o.Topics.Changelog},
		Remain{What: "state_folders"}, Remain{What: "downstream"}), err
}

// GoneBy returns when neither state nor id is in the changelog's files any more, at the latest; nil
// if its settings promise no time.
//
// The cleaner has to take up a segment max.compaction.lag.ms after its first record at the latest
// (KIP-354), and the segment at work is closed by then, if a record arrives. That removes the state
// and leaves the tombstone, whose key is the id. It is removed by the first cleaning that comes
// delete.retention.ms later, which takes another lag.
func GoneBy(erased time.Time, changelog map[string]string) *time.Time {
	lag, deleted := milliseconds(changelog[maxLag]), milliseconds(changelog[deleteRetention])
	const century = 100 * 365 * 24 * time.Hour
	if lag <= 0 || lag > century || deleted < 0 || deleted > century {
		return nil
	}
	return new(erased.Add(2*lag + deleted).UTC())
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
		return Account{Code: dropped}, nil
	case spent == 0:
		return Account{Code: noAccount}, nil
	case budget.Lifetime > 0:
		return Account{Kept: true, Code: keptForLifetime}, nil
	case budget.WindowSteps == 0:
		return Account{Kept: true, Code: keptForSums}, nil
	}
	var s mechanism.State
	if err := s.DecodeBinary(kept.Account); err != nil {
		return Account{}, err
	}
	const day = 24 * time.Hour
	at, _ := s.Ledger.Last()
	// Rounded up to days: it would tell the minute of the last release.
	until := time.UnixMilli(budget.Until(at, e.o.Model.Step.Milliseconds())).UTC().
		Add(day - 1).Truncate(day).Format(time.DateOnly)
	return Account{Kept: true, Code: keptForWindow, NeededUntil: &until}, nil
}

// kept fills in how long topics keep their records.
func (e reporter) kept(ctx context.Context, list []Remain) ([]Remain, error) {
	for i, r := range list {
		c, err := admin.Configs(ctx, e.client, wire.Options{}, r.Topic, cleanupPolicy, retentionMS)
		if err != nil {
			return nil, err
		}
		kept := milliseconds(c[retentionMS])
		if c[cleanupPolicy] != "compact" && kept >= 0 {
			list[i].RetentionMS = new(kept.Milliseconds())
		}
	}
	return list, nil
}

// remains lists what the command does not reach.
func (e reporter) remains(ctx context.Context) ([]Remain, error) {
	list, err := e.kept(ctx, []Remain{
		{What: "raw", Topic: e.o.Topics.Raw},
		{What: "sanitized", Topic: e.o.Topics.Sanitized},
		{What: "dead_letters", Topic: e.o.Topics.DeadLetters},
	})
	for _, what := range []string{
		"state_folders", "subject", "replays", "models", "new_start", "downstream",
	} {
		list = append(list, Remain{What: what})
	}
	if c := e.o.Counted; c != nil {
		list = append(list, Remain{What: "published_counts"},
			Remain{What: "true_counts", Topic: c.Topics.Sanitized},
			Remain{What: "counted_hours", Topic: c.Topics.Changelog})
	}
	return list, err
}
