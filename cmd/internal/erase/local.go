package erase

import (
	"context"
	"errors"
	"fmt"

	"github.com/geodither/geodither/cmd/internal/account"
	"github.com/geodither/geodither/consumer/admin"
	"github.com/geodither/geodither/consumer/wire"
	"github.com/geodither/geodither/state"
)

// folder is the state folder on this machine.
type folder struct{ *eraser }

// erase removes users from the state folder on this machine if no instance has it open, and says
// what it did. Their states are gone from the changelog already. The positions stay, so a start
// replays the same removals once more.
func (e folder) erase(ctx context.Context, p int32, found map[string]*userFound) (string, error) {
	store, err := e.open(ctx)
	switch {
	case errors.Is(err, state.ErrLocked):
		return "an instance on this machine has the state folder open, and erases there itself", nil
	case err != nil:
		return "", fmt.Errorf("the user is erased from the changelog, but not from the state folder "+
			"on this machine: %w; remove it with \"geodither state reset\" and repeat", err)
	case store == nil:
		return "there is no state folder of this service on this machine", nil
	}
	files, err := e.eraseIn(store.Partition(p), found)
	if err = errors.Join(err, store.Close()); err != nil {
		return "", fmt.Errorf("erase from the state folder: %w", err)
	}
	return files, nil
}

// open opens the folder if it is the service's; nil if there is none.
func (e folder) open(ctx context.Context) (*state.Store, error) {
	if e.o.StateDir == "" {
		return nil, nil
	}
	o := state.Options{ReadOnly: true, Logger: e.o.Logger}
	store, err := state.Open(e.o.StateDir, o)
	if errors.Is(err, state.ErrAbsent) || errors.Is(err, state.ErrForeign) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o.Identity, o.ReadOnly = store.Identity(), false
	if err := store.Close(); err != nil {
		return nil, err
	}
	cluster, err := admin.ClusterID(ctx, e.client, wire.Options{})
	if err != nil {
		return nil, err
	}
	if _, ours := account.CopyOf(o.Identity, cluster, e.o.Group, e.o.Topics); !ours {
		return nil, nil
	}
	return state.Open(e.o.StateDir, o)
}

// eraseIn removes users from a partition of the store.
func (e folder) eraseIn(p *state.Partition, found map[string]*userFound) (string, error) {
	at, there, err := p.Positions()
	if err != nil || !there {
		return "the state folder on this machine has nothing of this partition", err
	}
	var changes []state.Change
	for user, f := range found {
		if !f.pending && len(f.state) == 0 {
			changes = append(changes, state.Change{Key: []byte(user)},
				state.Change{Key: e.names.RequestKey([]byte(user))})
		}
	}
	if err := p.Apply(changes, at); err != nil {
		return "", err
	}
	if err := p.Purge(); err != nil {
		return "", err
	}
	return "removed from the state folder on this machine, and its files rewritten", nil
}
