package checks

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/cmd/internal/erase"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/group"
	"github.com/geodither/geodither/consumer/wire"
)

// accountChecks are those of the account of ε and of other services. The first comes before topics
// are made, which hides that one was lost.
func accountChecks() []Check {
	return []Check{
		{"account", AtStart, each, needsBrokers, (*examination).account},
		{"instances", "the group", sanitizes, needsBrokers, (*examination).members},
		{"erasure", "", sanitizes, needsBrokers, (*examination).erasure},
	}
}

// account looks whether the changelog holds what it must hold: as the service does
// before it makes topics, and as each task does.
func (d *examination) account(ctx context.Context) {
	look := d.accountCheck()
	err := look.Before(ctx)
	if d.starts() || d.job != sanitizes { // the tasks look at the rest
		if err != nil {
			d.add(Failure, "%w", err)
		}
		return
	}
	var lost *account.LostError
	if err == nil {
		var partitions int32
		if partitions, err = look.RawPartitions(ctx); err == nil && d.has(ctx,
			d.o.Topics.Changelog) {
			if lost, err = look.LostPartitions(ctx, partitions); lost != nil {
				err = lost
			}
		}
	}
	cut, problem := d.cut(ctx)
	err = cmp.Or(err, problem)
	switch {
	case errors.Is(err, wire.ErrTemporary):
		d.add(Warning, "not known yet, a transaction may be open: %v", err)
	case err != nil:
		d.add(Failure, "%w", err)
	case cut:
		d.add(Failure, "%s. An instance that has to restore all of it stops. Stop "+
			"all instances, delete the topic and write it back from intact state folders: "+
			"\"geodither state rebuild-changelog\"", account.CutChangelog)
	case !d.processed(ctx):
		d.add(OK, "group %s has processed nothing yet", d.o.Group)
	default:
		d.add(OK, "the changelog has states wherever group %s has processed "+
			"anything", d.o.Group)
	}
}

// cut reports whether a partition of the changelog holds records but not from offset 0 on.
func (d *examination) cut(ctx context.Context) (bool, error) {
	counts, err := admin.Partitions(ctx, d.client, d.call, d.o.Topics.Changelog)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return false, nil
	}
	for n := range int32(counts[d.o.Topics.Changelog]) {
		r, err := topics.Open(ctx, d.client, d.o.Topics.Changelog, n,
			consumer.FetcherOptions{Options: d.call})
		if err != nil || r.First > 0 && r.End > r.First {
			return err == nil, err
		}
	}
	return false, err
}

// processed reports whether the group has committed anything, in so far as it can be asked.
func (d *examination) processed(ctx context.Context) bool {
	partitions, err := d.accountCheck().RawPartitions(ctx)
	for n := int32(0); err == nil && n < partitions; n++ {
		var at int64
		at, _, err = consumer.Committed(ctx, d.client, d.call, d.o.Group, d.o.Topics.Raw, n)
		if err == nil && at > 0 {
			return true
		}
	}
	return err != nil // then it is not known
}

// has reports whether a topic exists.
func (d *examination) has(ctx context.Context, topic string) bool {
	_, err := admin.Partitions(ctx, d.client, d.call, topic)
	return err == nil
}

// members compares the settings that live instances have told their group with these.
func (d *examination) members(ctx context.Context) {
	found, err := group.Settings(ctx, d.client, d.call, d.o.Group, d.o.Topics.Raw)
	if err != nil {
		d.add(Warning, "the settings of running instances cannot be read "+
			"(Describe on the group): %v", err)
		return
	}
	for _, settings := range found {
		if !bytes.Equal(settings, d.o.GroupFingerprint()) {
			d.add(Failure, "group %s has instances at work under other "+
				"settings, beside which this one would stop. What differs: %s",
				d.o.Group, d.o.DifferencesInGroup(settings))
			return
		}
	}
	if len(found) > 0 {
		d.add(OK, "those at work have the same settings")
	}
}

// erasure says when the state of an erased user leaves the changelog's files.
func (d *examination) erasure(ctx context.Context) {
	topic := d.o.Topics.Changelog
	if !d.has(ctx, topic) {
		d.skip(topic+" is missing", "erasure") // its settings would be waited for
		return
	}
	settings, err := admin.Configs(ctx, d.client, d.call, topic, erase.Settings()...)
	if err != nil {
		d.skip("the settings of "+topic+" cannot be read", "erasure")
		return
	}
	erased := time.Now()
	by := erase.GoneBy(erased, settings)
	if by == nil {
		d.add(Warning, "%s promises no time after which the state of an erased user "+
			"is gone from its files: set max.compaction.lag.ms, for example to 86400000 (a day)",
			topic)
		return
	}
	d.add(OK, "the state of an erased user is gone from the files of %s after %v, if "+
		"each partition is written to", topic, by.Sub(erased))
}

// others looks for further services on the raw topic: another group whose changelog, by its default
// name, has marks. Each group gives every user a budget of its own.
func (d *examination) others(ctx context.Context) {
	groups, err := d.client.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return // it needs a right that the service does not
	}
	counting, _ := d.o.Counting("", "")
	for _, g := range groups.Groups {
		changelog := topics.Cluster{Group: g.GroupID}.WithDefaults().Topics.Changelog
		if g.GroupID == d.o.Group || g.GroupID == counting.Group || !d.has(ctx, changelog) {
			continue
		}
		for n := range d.partitions() {
			_, begun, err := consumer.Committed(ctx, d.client, d.call, g.GroupID, d.o.Topics.Raw, n)
			if err != nil || !begun {
				continue
			}
			if _, marked, err := topics.LastMark(ctx, d.client, changelog, n); err == nil &&
				marked {
				d.add(Warning, "group %s has processed %s too (%s has states): unless it "+
					"counts, each group gives a user a budget of its own, and what they publish "+
					"adds up", g.GroupID, d.o.Topics.Raw, changelog)
				break
			}
		}
	}
}

// accountCheck returns the check of the changelog, and of the folder that is its copy.
func (d *examination) accountCheck() *account.Check {
	return &account.Check{
		Client: d.client, Call: d.call, Cluster: d.o.Cluster, StateDir: d.o.StateDir,
		Logger: d.o.Logger, AcceptLost: d.o.AcceptLost, Replays: d.o.Replays,
	}
}
