package aggregate

import "fmt"

// settle books a user into the window of the last record.
func (k *Collector) settle(u *user) error {
	u.pending = false
	w := k.windows[u.window]
	if w == nil {
		return nil // before the first record of a model that is given
	}
	if u.release >= 0 {
		w.AddRelease(u.release)
	}
	if !u.known {
		w.Lost++
		u.marked = u.marked[:0]
		return nil
	}
	if err := k.state.DecodeBinary(u.state); err != nil {
		return fmt.Errorf("aggregate: %w", err)
	}
	k.zones.Gather(&k.posterior, &k.state.Posterior, k.dense)
	blind, err := k.blind.at(u)
	if err != nil {
		return err
	}
	w.AddVehicle(&k.posterior, blind, k.dense)
	if !k.options.Flows || u.own != nil {
		return nil // ancestors are drawn by the public model's rows
	}
	t, err := k.tracer(u.version)
	if err != nil {
		return err
	}
	if len(u.marked) > 0 && u.markWindow == u.window-1 {
		t.add(w.flows, u.marked, &k.state.Posterior)
		w.Flowing++
	}
	u.marked, u.markWindow = t.mark(u.marked, &k.state.Posterior), u.window
	return nil
}

// trace takes the user's ancestors along.
func (k *Collector) trace(u *user, known bool) error {
	if len(u.marked) == 0 {
		return nil
	}
	if !known || !k.follower.linked || u.own != nil {
		u.marked = u.marked[:0]
		return nil
	}
	t, err := k.tracer(u.version)
	if err != nil {
		return err
	}
	u.marked = t.advance(u.marked, u.name, &k.follower.before, &k.follower.state)
	return nil
}

// tracer returns that of a model of the zones' map.
func (k *Collector) tracer(v *version) (*tracer, error) {
	t := k.tracers[v]
	if t == nil {
		var err error
		if t, err = newTracer(v.model, k.zones, k.follower.options.Prune); err != nil {
			return nil, err
		}
		k.tracers[v] = t
	}
	return t, nil
}
