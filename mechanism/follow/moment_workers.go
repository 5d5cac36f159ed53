package follow

import "github.com/geodither/geodither/mechanism/parallel"

// workers are a pool whose work stops. What follows a stop is done quickly and is not used.
type workers struct {
	parallel.Pool
	stop func() error // nil: it does not
}

func (w workers) stopped() error {
	if w.stop == nil {
		return nil
	}
	return w.stop()
}

// Each is that of the pool, of which nothing is left to do after a stop.
func (w workers) Each(n int, do func(i int) error) error {
	return w.Pool.Each(n, func(i int) error {
		if err := w.stopped(); err != nil {
			return err
		}
		return do(i)
	})
}
