// Package deploy carries the config that explains every key, so that a binary without the source
// has it too.
package deploy

import _ "embed" // the config

// Example is geodither.yml, a complete config with comments.
//
//go:embed geodither.yml
var Example string
