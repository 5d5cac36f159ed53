// Package files reads and writes the files of commands: sanitized records as CSV, JSON lines,
// GeoJSON and GeoParquet, which "sanitize" and "consume" write and "aggregate" reads; files that
// appear complete or not at all; files that only their owner may read; and key files.
package files
