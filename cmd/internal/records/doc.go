// Package records reads and writes sanitized records as files and streams: CSV, JSON lines,
// GeoJSON and GeoParquet. "sanitize" and "consume" write what "aggregate" reads.
package records
