// Package files writes files that appear complete or not at all, files that only their owner may
// read, and key files.
package files
