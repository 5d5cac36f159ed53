package erase

import (
	"cmp"
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
func (e folder) erase(ctx context.Context, p int32, found map[string]*userFound) (said, error) {
	store, err := e.open(ctx)
	switch {
	case errors.Is(err, state.ErrLocked):
		return said{rest: inUse}, nil
	case err != nil:
		return said{}, fmt.Errorf("the user is erased from the changelog, not from this state "+
			"folder: %w; \"geodither state reset\"", err)
	case store == nil:
		return said{rest: noFolder}, nil
	}
	s, err := e.eraseIn(store.Partition(p), found)
	if err = errors.Join(err, store.Close()); err != nil {
		return said{}, fmt.Errorf("erase from the state folder: %w", err)
	}
	return s, nil
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

// eraseIn removes users from a partition of the store, and writes what remains of them, as the
// changelog has it: a changelog that is written back from the folder must not lose an account. It
// says of each user what it did.
func (e folder) eraseIn(p *state.Partition, found map[string]*userFound) (said, error) {
	at, there, err := p.Positions()
	if err != nil || !there {
		return said{rest: noPartition}, err
	}
	s := said{of: map[string]string{}}
	var changes []state.Change
	for user, f := range found {
		switch {
		case f.pending:
			continue
		case len(f.state) > 0:
			s.of[user] = cameBack
			continue
		}
		s.of[user] = removed
		key := []byte(user)
		changes = append(changes, state.Change{Key: key},
			state.Change{Key: e.names.RequestKey(key)})
		if len(f.kept) > 0 {
			name := append([]byte(nil), e.names.Kept(key)...)
			changes = append(changes, state.Change{Key: name, Value: f.kept})
		}
	}
	if err := p.Apply(changes, at); err != nil {
		return said{}, err
	}
	return s, p.Purge()
}

// said has the code of the state folder: of single users, and of all others.
type said struct {
	of   map[string]string
	rest string
}

func (s said) about(user string) string { return cmp.Or(s.of[user], s.rest) }
