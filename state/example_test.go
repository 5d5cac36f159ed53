package state_test

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/geodither/geodither/state"
)

// A partition's values and the positions they belong to are written together.
func Example() {
	store, err := state.Open("state", state.Options{Identity: []byte("group a"), FS: vfs.NewMem()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	p := store.Partition(3)
	changes := []state.Change{{Key: []byte("ann"), Value: []byte("posterior")}}
	if err := p.Apply(changes, state.Positions{Input: 10, Changelog: 4}); err != nil {
		fmt.Println(err)
		return
	}
	value, err := p.Get([]byte("ann"))
	fmt.Printf("%s %v\n", value, err)
	at, found, err := p.Positions()
	fmt.Println(at.Input, at.Changelog, found, err)
	// Output:
	// posterior <nil>
	// 10 4 true <nil>
}
