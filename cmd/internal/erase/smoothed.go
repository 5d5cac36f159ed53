package erase

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/engine"
	"github.com/geodither/geodither/cmd/internal/topics"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
)

// Smoothed is a service that smooths sanitized records. Its topics are those of
// topics.Cluster.Smoothing.
type Smoothed struct {
	topics.Cluster
	engine.SmoothSettings
	StateDir string // its folder on this machine; "": none
}

// SameReleases implements settings.
func (s *Smoothed) SameReleases(fingerprint []byte) bool {
	return bytes.Equal(fingerprint, s.Fingerprint())
}

// What a receipt says of the service that smooths.
const (
	notSmoothed = "there is no service that smooths: the config has neither smooth nor " +
		"topics.smoothed, or its changelog was never made"
	nothingThere   = "nothing was stored there"
	erasedSmoothed = "removed from the changelog of the service that smooths; its records of the " +
		"user stay until the topic's retention. "
)

// smoothed erases users where their records are smoothed, and returns for each what to say of it.
// Nothing remains of a user there, because that service has no account of ε. An error is of that
// service alone.
func (e *eraser) smoothed(ctx context.Context) (map[string]string, error) {
	about := map[string]string{}
	for _, user := range e.o.Users {
		about[user] = notSmoothed
	}
	other := e.o.Smoothed
	if other == nil {
		return about, nil
	}
	counts, err := admin.Partitions(ctx, e.client, wire.Options{}, other.Topics.Changelog)
	var missing *admin.MissingTopicsError
	if errors.As(err, &missing) {
		return about, nil
	}
	there := *e
	there.o.Cluster, there.o.StateDir, there.o.Users = other.Cluster, other.StateDir, nil
	there.names, there.settings = new(engine.SmoothEraser), other
	there.wanted = map[string]string{}
	of := map[string]string{} // by published name
	for _, user := range e.o.Users {
		name := user
		if e.o.Publish.User == engine.UserPseudonym {
			name = engine.Pseudonym(e.o.Key, user)
		}
		of[name], about[user] = user, nothingThere
		there.o.Users = append(there.o.Users, name)
		there.want(name)
	}
	pending := 0
	for p := range int32(counts[other.Topics.Changelog]) {
		if err != nil {
			break
		}
		var found map[string]*userFound
		var local said
		if found, err = there.partition(ctx, p); err == nil && len(found) > 0 {
			local, err = folder{&there}.erase(ctx, p, found)
		}
		for name, f := range found {
			about[of[name]] = erasedSmoothed + "Its state folder: " + local.about(name)
			if f.pending {
				pending++
				about[of[name]] = "asked for in the changelog of the service that smooths, which " +
					"has not done it yet: repeat this command"
			}
		}
	}
	if err != nil {
		return about, fmt.Errorf("the service that smooths (group %s): %w", other.Group, err)
	}
	if pending > 0 {
		err = fmt.Errorf("%w where records are smoothed: %d. %s", ErrPending, pending,
			there.advice(ctx))
	}
	return about, err
}
